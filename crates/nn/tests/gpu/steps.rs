//! Ten training steps on the graphics processor, each of them against the CPU and against f64.
//!
//! Two trainings that go on by themselves are no test of a device. Their gradients are equal but for rounding, until rounding
//! decides which pixel of a pool is the largest: there one of the gradients jumps, Adam makes full steps of the difference, and
//! the losses part. So the CPU takes every step of the GPU's training from the same weights and moments, and both are held against
//! f64, where a gradient may be on either side of a jump that rounding can reach.

use crate::oracle::Oracle;
use crate::{RATE, against_f64, distance, episode, network, pixels, take, wide};
use siskin_nn::{Architecture, DeviceChoice, NetworkState, StepPart};

const STEPS: usize = 10;
/// On 84 pixels rounding reaches some hundred jumps in a step of Conv4, and the search for them is slow. On 32 pixels it is the same
/// network with about a seventh of the outputs.
const CASES: [(Architecture, [usize; 4]); 2] =
    [(Architecture::Conv4S, [10, 1, 28, 28]), (Architecture::Conv4, [5, 3, 32, 32])];

/// The losses of the CPU from `state` on, which is that before step `from`.
fn alone(architecture: Architecture, state: NetworkState, shape: [usize; 4], from: usize) -> Vec<f64> {
    let mut cpu = network(architecture, DeviceChoice::Cpu);
    cpu.load_state(state).unwrap();
    let one = |k: usize| {
        let (loss, _, step) = episode(&cpu, shape, k);
        cpu.apply(step, RATE);
        loss
    };
    (from..STEPS).map(one).collect()
}

#[test]
fn ten_steps_are_those_of_the_cpu() {
    for (architecture, shape) in CASES {
        println!("{architecture} {shape:?}");
        let [mut gpu, mut cpu] =
            [DeviceChoice::Wgpu, DeviceChoice::Cpu].map(|device| network(architecture, device));
        let (mut losses, mut begun, mut parted) = (vec![], vec![], vec![]);
        for k in 0..STEPS {
            let before = gpu.state();
            cpu.load_state(before.clone()).unwrap();
            let oracle = Oracle::new(architecture, &before.model, &pixels(shape, k), shape).unwrap();
            let [on_gpu, on_cpu] = [&gpu, &cpu].map(|network| take(network, shape, k));
            let name = |device: &str| format!("step {} {device}", k + 1);
            if against_f64(&name("gpu"), &on_gpu, &oracle) != against_f64(&name("cpu"), &on_cpu, &oracle) {
                parted.push(k + 1);
            }
            losses.push(on_gpu.loss);
            begun.push(before);
            gpu.apply(on_gpu.step, RATE);
            // Adam and the running statistics from the same gradient.
            let same = cpu.step_of([StepPart::Sent(on_gpu.part)]).unwrap();
            cpu.apply(same, RATE);
            adam_agrees(&gpu.state(), &cpu.state());
        }
        assert!(losses[STEPS - 1] < losses[0], "the losses were {losses:?}");
        println!("  gradients on two sides of a jump in steps {parted:?}");
        let apart = begun.into_iter().enumerate().map(|(k, state)| {
            let own = alone(architecture, state, shape, k);
            let pairs = own.iter().zip(&losses[k..]);
            format!("{:.1e}", pairs.map(|(a, b)| (a / b - 1.0).abs()).fold(0.0, f64::max))
        });
        let apart: Vec<String> = apart.collect();
        println!(
            "  a CPU that goes on by itself from step 1, 2, ... has losses apart by {}",
            apart.join(", ")
        );
    }
}

/// Weights, moments and running statistics after the same step on both devices: a few roundings apart, of a weight and of the way
/// that it goes in a step.
fn adam_agrees(gpu: &NetworkState, cpu: &NetworkState) {
    for (a, b) in gpu.model.iter().zip(&cpu.model) {
        for (x, y) in wide(&a.values).into_iter().zip(wide(&b.values)) {
            assert!((x - y).abs() <= 1e-6 * (y.abs() + RATE), "{}: {x} on the GPU, {y} on the CPU", a.name);
        }
    }
    for (a, b) in gpu.moments.iter().zip(&cpu.moments) {
        let error = distance(&wide(&a.values), &wide(&b.values));
        assert!(error <= 1e-6, "{}: {error}", a.name);
    }
    assert_eq!(gpu.steps, cpu.steps);
}
