//! The fused block against its definition, against finite differences, and where it could break.

mod twin;

use siskin_cpu::{Activations, Block, BlockGrads, BlockPass, BlockSpec, Error, Isa, RunningStats, Workspace};
use twin::*;

struct Run {
    y: Vec<f32>,
    mean: Vec<f32>,
    var: Vec<f32>,
    weight: Vec<f32>,
    bias: Vec<f32>,
    gamma: Vec<f32>,
    beta: Vec<f32>,
    dx: Vec<f32>,
}

fn run(isa: Isa, spec: BlockSpec, p: &Params, x: &[f32], [n, h, w]: [usize; 3], dy: &[f32]) -> Run {
    let (block, workspace) = (Block::with_isa(spec, isa).unwrap(), Workspace::new());
    let input = Activations::from_nchw(&workspace, x, [n, spec.c_in, h, w]).unwrap();
    let (y, saved) = block.forward_train(&workspace, &p.borrow(), &input).unwrap();
    let mut out = vec![f32::NAN; dy.len()];
    y.to_nchw(&mut out).unwrap();
    let c = spec.c_out;
    let mut r = Run {
        y: out,
        mean: saved.batch_mean().to_vec(),
        var: saved.batch_var().to_vec(),
        weight: vec![f32::NAN; p.weight.len()],
        bias: vec![f32::NAN; c],
        gamma: vec![f32::NAN; c],
        beta: vec![f32::NAN; c],
        dx: vec![f32::NAN; x.len()],
    };
    let dy = saved.gradient(&workspace, dy).unwrap();
    let mut grads =
        BlockGrads { weight: &mut r.weight, bias: &mut r.bias, gamma: &mut r.gamma, beta: &mut r.beta };
    let pass = BlockPass { params: p.borrow(), x: &input, saved: &saved, dy: &dy };
    let dx = block.backward(&workspace, pass, &mut grads, true).unwrap();
    dx.unwrap().to_nchw(&mut r.dx).unwrap();
    r
}

fn case(spec: &BlockSpec, shape: [usize; 3], seed: u64) -> (Params, Vec<f32>, Vec<f32>) {
    let mut rng = stream(seed);
    let [n, h, w] = shape;
    let p = Params::new(&mut rng, spec);
    let x = numbers(&mut rng, n * spec.c_in * h * w, 1.0);
    let (oh, ow) = Block::new(*spec).unwrap().output_size(h, w).unwrap();
    let dy = numbers(&mut rng, n * spec.c_out * oh * ow, 1.0);
    (p, x, dy)
}

fn compare(isa: Isa, spec: BlockSpec, shape: [usize; 3]) {
    let (p, x, dy) = case(&spec, shape, 11);
    let r = run(isa, spec, &p, &x, shape, &dy);
    let f = twin::block(&spec, &p, &wide(&x), shape, None);
    let g = block_backward(&spec, &p, &wide(&x), shape, &f, &wide(&dy));
    let what = |name: &str| format!("{} {spec:?} {shape:?} {name}", isa.name());
    assert_close(&what("y"), &r.y, &f.y, 1e-5);
    assert_close(&what("mean"), &r.mean, &f.mean, 1e-5);
    let count = (shape[0] * area(&spec, shape)) as f64;
    let unbiased: Vec<f64> = f.var.iter().map(|v| v * count / (count - 1.0)).collect();
    assert_close(&what("var"), &r.var, &unbiased, 1e-5);
    assert_close(&what("dweight"), &r.weight, &g.weight, 1e-4);
    assert_close(&what("dgamma"), &r.gamma, &g.gamma, 1e-4);
    assert_close(&what("dbeta"), &r.beta, &g.beta, 1e-4);
    assert_close(&what("dx"), &r.dx, &g.x, 1e-4);
    assert!(r.bias.iter().all(|b| *b == 0.0));
}

fn area(spec: &BlockSpec, [_, h, w]: [usize; 3]) -> usize {
    (h + 2 * spec.padding - 2) * (w + 2 * spec.padding - 2)
}

#[test]
fn every_size_and_channel_count_equals_its_definition() {
    for isa in Isa::available() {
        for (c_in, c_out) in [(1, 16), (3, 64), (16, 5), (19, 33)] {
            for (padding, pool) in [(1, true), (1, false), (0, true), (0, false)] {
                for shape in [[1, 10, 10], [2, 5, 7], [3, 21, 6], [20, 4, 5]] {
                    compare(isa, BlockSpec { c_in, c_out, padding, pool }, shape);
                }
            }
        }
    }
}

#[test]
fn the_sizes_of_conv4() {
    let spec = BlockSpec { c_in: 64, c_out: 64, padding: 1, pool: true };
    for side in [42, 21, 14, 10, 7, 3] {
        compare(Isa::detect(), spec, [1, side, side]);
    }
    compare(Isa::detect(), BlockSpec { c_in: 3, ..spec }, [1, 84, 84]);
    compare(Isa::detect(), BlockSpec { c_in: 1, ..spec }, [2, 28, 28]);
}

#[test]
fn gradients_are_finite_differences_of_the_forward_pass() {
    let spec = BlockSpec { c_in: 2, c_out: 3, padding: 1, pool: true };
    let shape = [2, 5, 4];
    let (p, x, dy) = case(&spec, shape, 3);
    let r = run(Isa::detect(), spec, &p, &x, shape, &dy);
    let loss = |p: &Params, x: &[f64]| -> f64 {
        twin::block(&spec, p, x, shape, None).y.iter().zip(&dy).map(|(y, d)| y * f64::from(*d)).sum()
    };
    // The twin's parameters are f32, so the step is a power of two they can take exactly enough.
    let step = 1.0 / 4096.0;
    let close = |what: &str, found: f32, up: f64, down: f64| {
        let slope = (up - down) / (2.0 * f64::from(step));
        assert!((f64::from(found) - slope).abs() < 2e-3 * (1.0 + slope.abs()), "{what}: {found} and {slope}");
    };
    for i in 0..p.weight.len() {
        let moved = |by: f32| {
            let mut q = p.clone();
            q.weight[i] += by;
            loss(&q, &wide(&x))
        };
        close("weight", r.weight[i], moved(step), moved(-step));
    }
    for c in 0..spec.c_out {
        let moved = |field: fn(&mut Params) -> &mut Vec<f32>, by: f32| {
            let mut q = p.clone();
            field(&mut q)[c] += by;
            loss(&q, &wide(&x))
        };
        close("gamma", r.gamma[c], moved(|q| &mut q.gamma, step), moved(|q| &mut q.gamma, -step));
        close("beta", r.beta[c], moved(|q| &mut q.beta, step), moved(|q| &mut q.beta, -step));
        close("bias", r.bias[c], moved(|q| &mut q.bias, step), moved(|q| &mut q.bias, -step));
    }
    for i in 0..x.len() {
        let moved = |by: f32| {
            let mut x = wide(&x);
            x[i] += f64::from(by);
            loss(&p, &x)
        };
        close("x", r.dx[i], moved(step), moved(-step));
    }
}

#[test]
fn constant_channels_give_no_nan() {
    for (c_in, filters) in [(3, 0.0), (16, 0.0), (3, 0.25)] {
        let spec = BlockSpec { c_in, c_out: 16, padding: 0, pool: true };
        let shape = [4, 8, 8];
        let (mut p, mut x, dy) = case(&spec, shape, 5);
        // Zero filters, and equal filters on a constant image: z does not vary.
        p.weight.fill(filters);
        p.gamma[1] = 0.0;
        x.fill(0.5);
        let r = run(Isa::detect(), spec, &p, &x, shape, &dy);
        for part in [&r.y, &r.mean, &r.var, &r.weight, &r.gamma, &r.beta, &r.dx] {
            assert!(part.iter().all(|v| v.is_finite()));
        }
        for (i, y) in r.y.iter().enumerate() {
            let beta = p.beta[i / 9 % 16].max(0.0);
            assert!((y - beta).abs() < 1e-4, "{y} is not {beta}");
        }
    }
}

#[test]
fn a_large_mean_does_not_spoil_the_variance() {
    let spec = BlockSpec { c_in: 1, c_out: 16, padding: 0, pool: true };
    let shape = [6, 12, 12];
    let (p, mut x, _) = case(&spec, shape, 6);
    x.iter_mut().for_each(|x| *x = 100.0 + 0.1 * *x);
    let f = twin::block(&spec, &p, &wide(&x), shape, None);
    let r = run(Isa::detect(), spec, &p, &x, shape, &vec![0.0; f.y.len()]);
    let unbiased: Vec<f64> = f.var.iter().map(|v| v * 600.0 / 599.0).collect();
    // Sums of squares in f32 would lose every digit here: the mean is a thousand deviations away.
    assert_close("var", &r.var, &unbiased, 2e-3);
}

#[test]
fn evaluation_uses_running_statistics_as_pytorch_does() {
    for isa in Isa::available() {
        for (c_in, pool, padding) in [(3, true, 1), (17, true, 0), (64, false, 1)] {
            let spec = BlockSpec { c_in, c_out: 20, padding, pool };
            let shape = [3, 9, 6];
            let (p, x, dy) = case(&spec, shape, 8);
            let (block, workspace) = (Block::with_isa(spec, isa).unwrap(), Workspace::new());
            let input = Activations::from_nchw(&workspace, &x, [3, c_in, 9, 6]).unwrap();
            let (_, saved) = block.forward_train(&workspace, &p.borrow(), &input).unwrap();
            let (mut mean, mut var) = (vec![0.5; 20], vec![1.0; 20]);
            saved.update_running(0.1, &mut mean, &mut var).unwrap();
            let f = twin::block(&spec, &p, &wide(&x), shape, None);
            let count = (3 * area(&spec, shape)) as f64;
            for c in 0..20 {
                assert!((f64::from(mean[c]) - (0.45 + 0.1 * f.mean[c])).abs() < 1e-5);
                assert!((f64::from(var[c]) - (0.9 + 0.1 * f.var[c] * count / (count - 1.0))).abs() < 1e-5);
            }
            let y = block
                .forward_eval(&workspace, &p.borrow(), &RunningStats { mean: &mean, var: &var }, &input)
                .unwrap();
            let mut out = vec![f32::NAN; dy.len()];
            y.to_nchw(&mut out).unwrap();
            let twin = twin::block(&spec, &p, &wide(&x), shape, Some((&mean, &var)));
            assert_close("evaluation", &out, &twin.y, 1e-5);
        }
    }
}

#[test]
fn wrong_shapes_are_refused() {
    let spec = BlockSpec { c_in: 3, c_out: 4, padding: 1, pool: true };
    let workspace = Workspace::new();
    let block = Block::new(spec).unwrap();
    let (p, x, dy) = case(&spec, [2, 4, 6], 1);
    let load =
        |shape: [usize; 4]| Activations::from_nchw(&workspace, &vec![0.0; shape.iter().product()], shape);
    assert!(matches!(Block::new(BlockSpec { padding: 2, ..spec }), Err(Error::Unsupported { .. })));
    assert!(matches!(Block::new(BlockSpec { c_out: 0, ..spec }), Err(Error::Unsupported { .. })));
    assert!(Activations::from_nchw(&workspace, &x, [2, 3, 4, 5]).is_err());
    let forward = |shape| block.forward_train(&workspace, &p.borrow(), &load(shape).unwrap()).map(|_| ());
    assert!(matches!(forward([2, 4, 4, 6]), Err(Error::Channels { .. })));
    assert!(matches!(forward([2, 3, 1, 6]), Err(Error::TooSmall { .. })));
    assert!(matches!(forward([0, 3, 4, 6]), Err(Error::TooSmall { .. })));
    let single = Block::new(BlockSpec { pool: false, padding: 0, ..spec }).unwrap();
    let one = single.forward_train(&workspace, &p.borrow(), &load([1, 3, 3, 3]).unwrap());
    assert!(matches!(one, Err(Error::TooFewValues { .. })));

    let input = load([2, 3, 4, 6]).unwrap();
    let (_, saved) = block.forward_train(&workspace, &p.borrow(), &input).unwrap();
    assert!(saved.gradient(&workspace, &dy[1..]).is_err());
    let turned = load([2, 4, 3, 2]).unwrap();
    let (mut w, mut b, mut c, mut d) = (vec![0.0; 108], vec![0.0; 4], vec![0.0; 4], vec![0.0; 4]);
    let mut grads = BlockGrads { weight: &mut w, bias: &mut b, gamma: &mut c, beta: &mut d };
    let pass = BlockPass { params: p.borrow(), x: &input, saved: &saved, dy: &turned };
    let result = block.backward(&workspace, pass, &mut grads, false);
    assert!(matches!(result, Err(Error::OtherPass { .. })));
}
