//! Whole stacks: features in PyTorch's order, gradients by parameter, the same bits at any number of threads.

mod twin;

use siskin_cpu::{
    Batch, BlockGrads, BlockParams, BlockSpec, Error, Isa, RunningStats, Stack, StackGrads, Workspace,
};
use twin::*;

struct Case {
    specs: Vec<BlockSpec>,
    params: Vec<Params>,
    images: Vec<f32>,
    shape: [usize; 3],
    dfeatures: Vec<f32>,
}

fn case(specs: &[BlockSpec], shape: [usize; 3]) -> Case {
    let mut rng = stream(21);
    let [n, h, w] = shape;
    let params = specs.iter().map(|s| Params::new(&mut rng, s)).collect();
    let images = numbers(&mut rng, n * specs[0].c_in * h * w, 1.0);
    let size: usize = Stack::new(specs).unwrap().output_shape(h, w).unwrap().iter().product();
    let dfeatures = numbers(&mut rng, n * size, 1.0);
    Case { specs: specs.to_vec(), params, images, shape, dfeatures }
}

/// Features, then the gradients of each block's weight, gamma and beta, then of the images.
fn run(isa: Isa, workspace: &Workspace, case: &Case) -> Vec<Vec<f32>> {
    let stack = Stack::with_isa(&case.specs, isa).unwrap();
    let params: Vec<BlockParams> = case.params.iter().map(Params::borrow).collect();
    let mut features = vec![f32::NAN; case.dfeatures.len()];
    let saved =
        stack.forward_train(workspace, &params, Batch::new(&case.images, case.shape), &mut features).unwrap();
    let mut grads: Vec<Params> = case.params.clone();
    let mut dimages = vec![f32::NAN; case.images.len()];
    let mut places: Vec<_> = grads
        .iter_mut()
        .map(|Params { weight, bias, gamma, beta }| BlockGrads { weight, bias, gamma, beta })
        .collect();
    let out = StackGrads { blocks: &mut places, images: Some(&mut dimages) };
    stack.backward(workspace, &params, &saved, &case.dfeatures, out).unwrap();
    let mut all = vec![features];
    all.extend(grads.into_iter().flat_map(|g| [g.weight, g.gamma, g.beta]));
    all.push(dimages);
    all
}

fn conv4(c_in: usize, width: usize) -> Vec<BlockSpec> {
    let spec = |c_in| BlockSpec { c_in, c_out: width, padding: 1, pool: true };
    vec![spec(c_in), spec(width), spec(width), spec(width)]
}

#[test]
fn a_stack_equals_its_blocks_by_definition() {
    let mixed = vec![
        BlockSpec { c_in: 3, c_out: 20, padding: 0, pool: true },
        BlockSpec { c_in: 20, c_out: 16, padding: 1, pool: false },
        BlockSpec { c_in: 16, c_out: 8, padding: 1, pool: true },
    ];
    for isa in Isa::available() {
        for (specs, shape) in [(mixed.clone(), [3, 14, 17]), (conv4(1, 16), [2, 28, 28])] {
            let case = case(&specs, shape);
            let found = run(isa, &Workspace::new(), &case);
            let (mut x, mut shape) = (wide(&case.images), shape);
            let (mut inputs, mut passes) = (vec![], vec![]);
            for (spec, p) in specs.iter().zip(&case.params) {
                let f = twin::block(spec, p, &x, shape, None);
                let side = |x: usize| (x + 2 * spec.padding - 2) / if spec.pool { 2 } else { 1 };
                let y = f.y.clone();
                inputs.push((std::mem::replace(&mut x, y), shape));
                passes.push(f);
                shape = [shape[0], side(shape[1]), side(shape[2])];
            }
            assert_close("features", &found[0], &x, 1e-4);
            let mut dy = wide(&case.dfeatures);
            for i in (0..specs.len()).rev() {
                let (x, shape) = &inputs[i];
                let g = block_backward(&specs[i], &case.params[i], x, *shape, &passes[i], &dy);
                assert_close("weight", &found[1 + 3 * i], &g.weight, 1e-4);
                assert_close("gamma", &found[2 + 3 * i], &g.gamma, 1e-4);
                assert_close("beta", &found[3 + 3 * i], &g.beta, 1e-4);
                dy = g.x;
            }
            assert_close("images", found.last().unwrap(), &dy, 1e-4);
        }
    }
}

#[test]
fn the_same_bits_at_any_number_of_threads_and_with_used_memory() {
    for channels in [1, 3] {
        let case = case(&conv4(channels, 32), [21, 36, 33]);
        let workspace = Workspace::new();
        let with = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| run(Isa::detect(), &workspace, &case))
        };
        let one = with(1);
        assert_eq!(one, with(2));
        assert_eq!(one, with(3));
        assert_eq!(one, with(1));
    }
}

#[test]
fn evaluation_of_a_stack_equals_its_blocks_by_definition() {
    let case = case(&conv4(3, 16), [2, 17, 20]);
    let stack = Stack::new(&case.specs).unwrap();
    let params: Vec<BlockParams> = case.params.iter().map(Params::borrow).collect();
    let mut rng = stream(4);
    let stats: Vec<(Vec<f32>, Vec<f32>)> = (0..4)
        .map(|_| (numbers(&mut rng, 16, 0.5), numbers(&mut rng, 16, 0.5).iter().map(|v| 1.0 + v).collect()))
        .collect();
    let running: Vec<RunningStats> = stats.iter().map(|(mean, var)| RunningStats { mean, var }).collect();
    let mut features = vec![f32::NAN; case.dfeatures.len()];
    stack
        .forward_eval(
            &Workspace::new(),
            &params,
            &running,
            Batch::new(&case.images, case.shape),
            &mut features,
        )
        .unwrap();
    let (mut x, mut shape) = (wide(&case.images), case.shape);
    for ((spec, p), (mean, var)) in case.specs.iter().zip(&case.params).zip(&stats) {
        x = twin::block(spec, p, &x, shape, Some((mean, var))).y;
        shape = [shape[0], shape[1] / 2, shape[2] / 2];
    }
    assert_close("features", &features, &x, 1e-5);
}

#[test]
fn what_does_not_fit_is_refused() {
    let mut specs = conv4(3, 16);
    specs[2].c_in = 8;
    assert_eq!(Stack::new(&specs).unwrap_err(), Error::Channels { block: 2, expected: 16, found: 8 });
    assert!(matches!(Stack::new(&[]), Err(Error::Unsupported { .. })));
    let stack = Stack::new(&conv4(3, 16)).unwrap();
    assert_eq!(stack.output_shape(84, 84), Ok([16, 5, 5]));
    assert_eq!(stack.output_shape(15, 84), Err(Error::TooSmall { block: 3, h: 1, w: 10 }));
    let result = stack.forward_train(&Workspace::new(), &[], Batch::new(&[], [1, 84, 84]), &mut []);
    assert!(matches!(result, Err(Error::Blocks { name: "params", expected: 4, found: 0 })));
}
