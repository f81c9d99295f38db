//! One training step and one evaluation of Conv4S on a few images: a small fixed piece of work for profilers and for the check of
//! instruction counts (`.ci/instructions`). One thread.
//!
//! ```text
//! cargo run --release --workspace --example network_workload -- training      # or: evaluation
//! ```

use siskin_cpu::{
    Batch, BlockGrads, BlockParams, BlockSpec, Error, RunningStats, Stack, StackGrads, Workspace,
};

const IMAGES: usize = 10;
const SIDE: usize = 28;
const WIDTH: usize = 64;

/// Numbers by a formula that every machine rounds alike.
fn numbers(count: usize, scale: f32) -> Vec<f32> {
    (0..count).map(|i| ((i + 1) * 7919 % 2003) as f32 / 1001.5 - 1.0).map(|v| v * scale).collect()
}

struct Params {
    weight: Vec<f32>,
    bias: Vec<f32>,
    gamma: Vec<f32>,
    beta: Vec<f32>,
}

fn run(training: bool) -> Result<f32, Error> {
    let specs: Vec<BlockSpec> =
        [1, WIDTH, WIDTH, WIDTH].map(|c_in| BlockSpec { c_in, c_out: WIDTH, padding: 1, pool: true }).into();
    let mut owned: Vec<Params> = (specs.iter())
        .map(|spec| Params {
            weight: numbers(spec.c_in * WIDTH * 9, (9.0 * spec.c_in as f32).powf(-0.5)),
            bias: vec![0.0; WIDTH],
            gamma: vec![1.0; WIDTH],
            beta: vec![0.0; WIDTH],
        })
        .collect();
    let stack = Stack::new(&specs)?;
    let size: usize = stack.output_shape(SIDE, SIDE)?.iter().product();
    let (images, mut features) = (numbers(IMAGES * SIDE * SIDE, 1.0), vec![0.0; IMAGES * size]);
    let (workspace, batch) = (Workspace::new(), Batch::new(&images, [IMAGES, SIDE, SIDE]));
    let weights: Vec<Vec<f32>> = owned.iter().map(|p| p.weight.clone()).collect();
    let (ones, zeros) = (vec![1.0; WIDTH], vec![0.0; WIDTH]);
    let params: Vec<BlockParams<'_>> = (weights.iter())
        .map(|weight| BlockParams { weight, bias: &zeros, gamma: &ones, beta: &zeros })
        .collect();
    if !training {
        let running = [RunningStats { mean: &zeros, var: &ones }; 4];
        stack.forward_eval(&workspace, &params, &running, batch, &mut features)?;
        return Ok(features.iter().sum());
    }
    let saved = stack.forward_train(&workspace, &params, batch, &mut features)?;
    let mut grads: Vec<BlockGrads<'_>> = (owned.iter_mut())
        .map(|Params { weight, bias, gamma, beta }| BlockGrads { weight, bias, gamma, beta })
        .collect();
    let slopes = numbers(features.len(), 1e-3);
    stack.backward(&workspace, &params, &saved, &slopes, StackGrads { blocks: &mut grads, images: None })?;
    drop(grads);
    Ok(owned.iter().flat_map(|p| &p.weight).sum())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let training = match std::env::args().nth(1).as_deref() {
        Some("training") => true,
        Some("evaluation") => false,
        _ => return Err("what to run: training or evaluation".into()),
    };
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build()?;
    println!("{}", pool.install(|| run(training))?);
    Ok(())
}
