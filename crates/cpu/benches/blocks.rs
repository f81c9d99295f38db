//! Each block of Conv4 at 84 and 28 pixels: `cargo bench -p siskin-cpu`. Five images a batch; times scale with it.

use divan::Bencher;
use siskin_cpu::{
    Activations, Block, BlockGrads, BlockParams, BlockPass, BlockSpec, RunningStats, Workspace,
};

const IMAGES: usize = 5;

/// Channels of the input and its side.
const BLOCKS: [(usize, usize); 8] =
    [(3, 84), (64, 42), (64, 21), (64, 10), (1, 28), (64, 14), (64, 7), (64, 3)];

fn main() {
    divan::main();
}

struct Case {
    block: Block,
    x: Activations,
    weight: Vec<f32>,
    ones: Vec<f32>,
    zeros: Vec<f32>,
    workspace: Workspace,
}

impl Case {
    fn new((c_in, side): (usize, usize)) -> Self {
        let block = Block::new(BlockSpec { c_in, c_out: 64, padding: 1, pool: true }).expect("a valid block");
        let wave = |n: usize| -> Vec<f32> { (0..n).map(|i| (i as f32 * 0.37).sin()).collect() };
        let workspace = Workspace::new();
        let images = wave(IMAGES * c_in * side * side);
        let x = Activations::from_nchw(&workspace, &images, [IMAGES, c_in, side, side]).expect("images");
        Self { block, x, weight: wave(c_in * 64 * 9), ones: vec![1.0; 64], zeros: vec![0.0; 64], workspace }
    }

    fn params(&self) -> BlockParams<'_> {
        BlockParams { weight: &self.weight, bias: &self.zeros, gamma: &self.ones, beta: &self.zeros }
    }
}

#[divan::bench(args = BLOCKS)]
fn forward_train(bencher: Bencher, block: (usize, usize)) {
    let case = Case::new(block);
    bencher.bench_local(|| case.block.forward_train(&case.workspace, &case.params(), &case.x));
}

#[divan::bench(args = BLOCKS)]
fn forward_eval(bencher: Bencher, block: (usize, usize)) {
    let case = Case::new(block);
    let running = RunningStats { mean: &case.zeros, var: &case.ones };
    bencher.bench_local(|| case.block.forward_eval(&case.workspace, &case.params(), &running, &case.x));
}

#[divan::bench(args = BLOCKS)]
fn backward(bencher: Bencher, block: (usize, usize)) {
    let case = Case::new(block);
    let (_, saved) = case.block.forward_train(&case.workspace, &case.params(), &case.x).expect("forward");
    let (h, w) = case.block.output_size(block.1, block.1).expect("large enough");
    let dy = saved.gradient(&case.workspace, &vec![0.5; IMAGES * 64 * h * w]).expect("gradient");
    let (mut weight, mut bias) = (case.weight.clone(), case.zeros.clone());
    let (mut gamma, mut beta) = (case.ones.clone(), case.zeros.clone());
    bencher.bench_local(|| {
        let mut grads =
            BlockGrads { weight: &mut weight, bias: &mut bias, gamma: &mut gamma, beta: &mut beta };
        let want_dx = block.0 == 64;
        let pass = BlockPass { params: case.params(), x: &case.x, saved: &saved, dy: &dy };
        case.block.backward(&case.workspace, pass, &mut grads, want_dx)
    });
}
