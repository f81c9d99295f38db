//! Times Conv4 on this machine: `conv4 [images] [side] [channels] [threads] [repeats]` prints one JSON line a repeat.
//! `scripts/bench_conv_vs_torch.py` runs it in turn with PyTorch.

mod clock;

use clock::time;
use siskin_cpu::{BlockGrads, BlockParams, BlockSpec, Isa, RunningStats, Stack, Workspace};

fn main() {
    let mut numbers = std::env::args().skip(1).map(|a| a.parse::<usize>().expect("a whole number"));
    let mut next = |default| numbers.next().unwrap_or(default);
    let (n, side, channels, threads, repeats) = (next(85), next(84), next(3), next(1), next(5));
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
    pool.install(|| run(n, side, channels, repeats));
}

fn run(n: usize, side: usize, channels: usize, repeats: usize) {
    let spec = |c_in| BlockSpec { c_in, c_out: 64, padding: 1, pool: true };
    let stack = Stack::new(&[spec(channels), spec(64), spec(64), spec(64)]).expect("a valid stack");
    let mut state = 1u32;
    let mut numbers = |count: usize, size: f32| -> Vec<f32> {
        let mut next = || {
            state = state.wrapping_mul(1664525).wrapping_add(1013904223);
            ((state >> 8) as f32 / (1u32 << 23) as f32 - 1.0) * size
        };
        (0..count).map(|_| next()).collect()
    };
    let weights: Vec<Vec<f32>> =
        stack.blocks().iter().map(|b| numbers(b.spec().c_in * 64 * 9, 0.1)).collect();
    let (ones, zeros) = (vec![1.0; 64], vec![0.0; 64]);
    let params: Vec<BlockParams> = weights
        .iter()
        .map(|weight| BlockParams { weight, bias: &zeros, gamma: &ones, beta: &zeros })
        .collect();
    let running: Vec<RunningStats> =
        weights.iter().map(|_| RunningStats { mean: &zeros, var: &ones }).collect();
    let images = numbers(n * channels * side * side, 1.0);
    let size: usize = stack.output_shape(side, side).expect("images large enough").iter().product();
    let (mut features, dfeatures) = (vec![0.0; n * size], numbers(n * size, 1.0));
    let mut grads: Vec<_> =
        weights.iter().map(|w| (vec![0.0; w.len()], vec![0.0; 64], vec![0.0; 64], vec![0.0; 64])).collect();
    let workspace = Workspace::new();
    for repeat in 0..=repeats {
        let (saved, forward) = time(|| {
            stack
                .forward_train(&workspace, &params, &images, [n, side, side], &mut features)
                .expect("forward pass")
        });
        let mut grads: Vec<_> = grads
            .iter_mut()
            .map(|(weight, bias, gamma, beta)| BlockGrads { weight, bias, gamma, beta })
            .collect();
        let ((), backward) = time(|| {
            stack.backward(&workspace, &params, &saved, &dfeatures, &mut grads, None).expect("backward pass")
        });
        drop(saved);
        let ((), eval) = time(|| {
            stack
                .forward_eval(&workspace, &params, &running, &images, [n, side, side], &mut features)
                .expect("evaluation")
        });
        // The first round fills the workspace.
        if repeat > 0 {
            let part = |name: &str, s: clock::Seconds| {
                format!("\"{name}\": {{\"wall\": {:.6}, \"cpu\": {:.6}}}", s.wall, s.busy())
            };
            let parts = [part("forward", forward), part("backward", backward), part("eval", eval)].join(", ");
            println!("{{\"isa\": \"{}\", {parts}}}", Isa::detect().name());
        }
    }
}
