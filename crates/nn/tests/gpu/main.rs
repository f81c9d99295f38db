//! The same network on a graphics processor and on the CPU: features, gradients and ten training steps agree as far as f32
//! numbers can. Needs the feature `wgpu` and a driver; scripts/gpu/run.py runs it on Mesa's software driver.

mod oracle;
mod steps;
#[path = "../../../cpu/tests/twin/mod.rs"]
mod twin;

use oracle::{Jump, Oracle};
use siskin_nn::{
    Architecture, DeviceChoice, Error, Features, HeadLoss, Images, Network, SentPart, Step, StepPart,
};
use twin::wide;

const RATE: f64 = 1e-3;
/// What rounding to f32 leaves of a network's numbers, relative to the largest: some hundred products are added in each of some
/// layers.
const F32: f64 = 1e-5;

const CASES: [(Architecture, [usize; 4]); 5] = [
    (Architecture::Conv4, [5, 3, 84, 84]),
    (Architecture::Conv4S, [10, 1, 28, 28]),
    (Architecture::Conv4NP, [4, 3, 31, 22]),
    (Architecture::Conv6, [4, 3, 33, 20]),
    (Architecture::ResNet12, [2, 3, 20, 20]),
];

/// Reproducible pixels without a generator; those of step `k` differ from the others.
fn pixels(shape: [usize; 4], k: usize) -> Vec<f32> {
    let n: usize = shape.iter().product();
    (0..n).map(|i| ((i + 31 * k) * 7919 % 2003) as f32 / 1001.5 - 1.0 + (i / 97 % 7) as f32 * 0.1).collect()
}

/// Pulls the features of image `i` towards 1 where they are of class `i mod 5`, else towards 0: a loss that falls.
fn head(f: &Features) -> Result<HeadLoss, Error> {
    let scale = 1.0 / f.values.len() as f64;
    let target = |i: usize| if (i % f.dim) % 5 == (i / f.dim) % 5 { 1.0 } else { 0.0 };
    let away: Vec<f64> = f.values.iter().enumerate().map(|(i, v)| v - target(i)).collect();
    let loss = away.iter().map(|d| scale * d * d / 2.0).sum();
    let dfeatures = away.iter().map(|d| scale * d).collect();
    Ok(HeadLoss { loss, dfeatures, dhyper: vec![], accuracy: None })
}

/// The network of an architecture, with the same weights on every device.
fn network(architecture: Architecture, device: DeviceChoice) -> Network {
    Network::new(architecture, 11, device).unwrap_or_else(|why| panic!("{why}"))
}

/// Loss, features and gradient of one episode, not yet taken.
fn episode(network: &Network, shape: [usize; 4], k: usize) -> (f64, Vec<f64>, Step) {
    let pixels = pixels(shape, k);
    let (mut step, mut features) = (Step::default(), Vec::new());
    let watched = |f: &Features| {
        features.clone_from(&f.values);
        head(f)
    };
    let out = network.episode(Images::new(&pixels, shape).unwrap(), &mut step, watched).unwrap();
    (out.loss, features, step)
}

/// Largest difference relative to the largest value.
fn distance(a: &[f64], b: &[f64]) -> f64 {
    assert_eq!(a.len(), b.len());
    let largest = b.iter().fold(1e-30, |m: f64, x| m.max(x.abs()));
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max) / largest
}

/// What a device made of an episode.
struct Taken {
    loss: f64,
    features: Vec<f64>,
    step: Step,
    part: SentPart,
}

fn take(network: &Network, shape: [usize; 4], k: usize) -> Taken {
    let (loss, features, step) = episode(network, shape, k);
    let part = StepPart::Recorded(step.clone()).into_sent();
    Taken { loss, features, step, part }
}

/// Holds an episode against f64 and says how far it is. Where its gradient is farther than rounding makes it, it must be that on
/// the other side of jumps that rounding can reach; returns those.
fn against_f64(name: &str, taken: &Taken, oracle: &Oracle) -> Vec<Jump> {
    let mut errors = [
        ("loss", (taken.loss / oracle.loss - 1.0).abs()),
        ("features", oracle.features_error(&taken.features)),
        ("statistics", oracle.statistics_error(&taken.part)),
        ("gradient", oracle.gradient_error(&taken.part)),
    ];
    let said: Vec<String> = errors.iter().map(|(what, error)| format!("{what} {error:.1e}")).collect();
    print!("  {name}: {}", said.join(", "));
    let mut jumps = vec![];
    if errors[3].1 > F32 {
        let mut oracle = oracle.clone();
        let choices;
        (choices, jumps) = oracle.choose_as(&taken.part);
        errors[3].1 = oracle.gradient_error(&taken.part);
        let blocks: Vec<String> = jumps.iter().map(|jump| (jump.block + 1).to_string()).collect();
        print!(
            " ({:.1e} on its side of {} of {choices} jumps within rounding, in block {})",
            errors[3].1,
            jumps.len(),
            blocks.join(", ")
        );
    }
    println!();
    assert!(errors.iter().all(|(_, error)| *error <= F32), "{name}: {errors:?}");
    jumps
}

#[test]
fn features_and_gradients_are_those_of_the_cpu() {
    for (architecture, shape) in CASES {
        let [gpu, cpu] = [DeviceChoice::Wgpu, DeviceChoice::Cpu].map(|device| network(architecture, device));
        assert_eq!(gpu.state(), cpu.state(), "the first weights come from the same stream");
        let images = pixels(shape, 0);
        let [a, b] = [&gpu, &cpu].map(|n| n.features(Images::new(&images, shape).unwrap()).unwrap().values);
        println!("{architecture} {shape:?}: features in evaluation {:.1e} apart", distance(&a, &b));
        assert!(distance(&a, &b) <= F32);
        let [on_gpu, on_cpu] = [&gpu, &cpu].map(|network| take(network, shape, 0));
        match Oracle::new(architecture, &gpu.state().model, &images, shape) {
            Some(oracle) => {
                against_f64("gpu", &on_gpu, &oracle);
                against_f64("cpu", &on_cpu, &oracle);
            }
            None => against_roundings(architecture, shape, &on_gpu, &on_cpu),
        }
    }
}

/// Some numbers of an episode.
type Numbers = fn(&Taken) -> Vec<f64>;

/// Where there is no network in f64: no more than four times as far from the CPU as its fused blocks are from Burn's own operations,
/// which are two roundings of the same numbers.
fn against_roundings(architecture: Architecture, shape: [usize; 4], gpu: &Taken, cpu: &Taken) {
    let plain = take(&network(architecture, DeviceChoice::CpuUnfused), shape, 0);
    let numbers: [(&str, Numbers); 4] = [
        ("loss", |t| vec![t.loss]),
        ("features", |t| t.features.clone()),
        ("statistics", |t| t.part.statistics.iter().flatten().flat_map(|v| wide(v)).collect()),
        ("gradient", |t| wide(&t.part.gradient)),
    ];
    for (what, of) in numbers {
        let (d, yardstick) = (distance(&of(gpu), &of(cpu)), distance(&of(&plain), &of(cpu)));
        println!("  {what} {d:.1e} from the CPU, whose two roundings are {yardstick:.1e} apart");
        assert!(d <= (4.0 * yardstick).max(F32), "{architecture}: {what}");
    }
}
