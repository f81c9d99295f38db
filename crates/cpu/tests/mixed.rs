//! Mixed precision: products of bf16 numbers, sums in f32. The twin rounds its operands and adds in f64.

mod twin;

use siskin_cpu::{
    Batch, BlockGrads, BlockParams, BlockSpec, Conv, ConvGrads, ConvSpec, Error, Precision, RunningStats,
    Stack, StackGrads, Workspace,
};
use twin::*;

/// To the nearest number with eight bits of fraction, by arithmetic instead of bits.
fn rounded(values: &[f32]) -> Vec<f64> {
    let one = |x: &f32| {
        let x = f64::from(*x);
        let unit = 2f64.powi(x.abs().max(1e-30).log2().floor() as i32 - 7);
        (x / unit).round_ties_even() * unit
    };
    values.iter().map(one).collect()
}

/// Every precision this CPU has beside f32.
fn mixed() -> Vec<Precision> {
    let spec = ConvSpec { c_in: 1, c_out: 1, kernel: 1, stride: 1, padding: 0 };
    match Conv::new(spec).unwrap().at(Precision::Bf16) {
        Ok(_) => vec![Precision::Bf16Emulated, Precision::Bf16],
        Err(error) => {
            assert!(matches!(error, Error::NoBf16 { .. }) && error.to_string().contains("bf16-emulated"));
            println!("skipped: {error}");
            vec![Precision::Bf16Emulated]
        }
    }
}

#[test]
fn convolutions_multiply_rounded_numbers_and_add_exactly_enough() {
    for precision in mixed() {
        for (c_in, c_out) in [(1, 8), (3, 64), (16, 5), (19, 33), (64, 64)] {
            for (kernel, stride, padding) in [(3, 1, 1), (3, 1, 0), (3, 2, 1), (1, 1, 0), (1, 2, 0)] {
                for shape in [[1, 10, 10], [2, 5, 7], [3, 21, 6]] {
                    let spec = ConvSpec { c_in, c_out, kernel, stride, padding };
                    compare(precision, spec, shape);
                }
            }
        }
    }
}

fn compare(precision: Precision, spec: ConvSpec, shape: [usize; 3]) {
    let mut rng = stream(9);
    let [n, h, w] = shape;
    let x = numbers(&mut rng, n * spec.c_in * h * w, 1.0);
    let weight = numbers(&mut rng, spec.c_out * spec.c_in * spec.kernel * spec.kernel, 0.3);
    let dout = numbers(&mut rng, out_len(&spec, shape), 1.0);
    let what = format!("{precision} {spec:?} {shape:?}");
    let (conv, workspace) = (Conv::new(spec).unwrap().at(precision).unwrap(), Workspace::new());
    let mut out = vec![f32::NAN; dout.len()];
    let images = Batch::new(&x, shape);
    conv.forward(&workspace, &weight, None, images, &mut out).unwrap();
    let (x16, w16, d16) = (rounded(&x), rounded(&weight), rounded(&dout));
    let zeros = vec![0.0; spec.c_out];
    assert_close(&format!("{what} forward"), &out, &twin::conv(&spec, &w16, &zeros, &x16, shape), 1e-5);
    let (mut dw, mut dx) = (vec![f32::NAN; weight.len()], vec![f32::NAN; x.len()]);
    let grads = ConvGrads { weight: &mut dw, bias: None, images: Some(&mut dx) };
    conv.backward(&workspace, &weight, images, &dout, grads).unwrap();
    let (tw, _, tx) = conv_backward(&spec, &w16, &x16, shape, &d16);
    assert_close(&format!("{what} dweight"), &dw, &tw, 1e-5);
    assert_close(&format!("{what} dx"), &dx, &tx, 1e-5);
}

/// Features in training and in evaluation, and the gradients of the filters, of a small Conv4.
fn run(precision: Precision, threads: usize) -> Vec<Vec<f32>> {
    let spec = |c_in| BlockSpec { c_in, c_out: 32, padding: 1, pool: true };
    let specs = [spec(3), spec(32), spec(32)];
    let mut rng = stream(31);
    let owned: Vec<Params> = specs.iter().map(|s| Params::new(&mut rng, s)).collect();
    let params: Vec<BlockParams> = owned.iter().map(Params::borrow).collect();
    let shape @ [n, h, w] = [10, 20, 23];
    let images = numbers(&mut rng, n * 3 * h * w, 1.0);
    let stack = Stack::new(&specs).unwrap().at(precision).unwrap();
    let size: usize = stack.output_shape(h, w).unwrap().iter().product();
    let dfeatures = numbers(&mut rng, n * size, 1.0);
    let (mut features, mut evaluated) = (vec![0.0; n * size], vec![0.0; n * size]);
    let mut grads = owned.clone();
    let workspace = Workspace::new();
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
    pool.install(|| {
        let saved =
            stack.forward_train(&workspace, &params, Batch::new(&images, shape), &mut features).unwrap();
        let mut places: Vec<_> = grads
            .iter_mut()
            .map(|Params { weight, bias, gamma, beta }| BlockGrads { weight, bias, gamma, beta })
            .collect();
        let grads = StackGrads { blocks: &mut places, images: None };
        stack.backward(&workspace, &params, &saved, &dfeatures, grads).unwrap();
        let stats: Vec<_> = (saved.blocks().iter())
            .map(|b| RunningStats { mean: b.batch_mean(), var: b.batch_var() })
            .collect();
        stack.forward_eval(&workspace, &params, &stats, Batch::new(&images, shape), &mut evaluated).unwrap();
    });
    let mut all = vec![features, evaluated];
    all.extend(grads.into_iter().map(|g| g.weight));
    all
}

#[test]
fn a_stack_has_the_same_bits_at_any_number_of_threads_and_stays_near_f32() {
    let single = run(Precision::F32, 1);
    for precision in mixed() {
        let one = run(precision, 1);
        assert_eq!(one, run(precision, 2), "{precision}");
        for (i, (mixed, single)) in one.iter().zip(&single).enumerate() {
            let size = (single.iter().map(|v| v * v).sum::<f32>() / single.len() as f32).sqrt();
            let apart = mixed.iter().zip(single).map(|(a, b)| (a - b).powi(2)).sum::<f32>();
            let apart = (apart / single.len() as f32).sqrt() / size;
            println!("{precision}, {i}: {apart:.1e} of the root mean square");
            // Not so near that nothing was rounded. Features move by a few roundings of 2^-9; gradients by more, since a
            // pool whose two largest values are close hands its gradient to the other pixel.
            let most = if i < 2 { 0.02 } else { 0.3 };
            assert!((1e-4..most).contains(&apart), "{precision}, {i}: {apart}");
        }
    }
}

#[test]
fn names_parse_and_unknown_names_are_refused() {
    for precision in Precision::ALL {
        assert_eq!(precision.name().parse(), Ok(precision));
    }
    let error = "fp16".parse::<Precision>().unwrap_err().to_string();
    assert!(error.contains("`fp16`") && error.contains("f32, bf16 or bf16-emulated"));
}
