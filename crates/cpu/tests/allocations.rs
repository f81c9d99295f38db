//! A training loop in its steady state allocates next to nothing: buffers come back from the workspace.
#![allow(unsafe_code)]

mod twin;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use siskin_cpu::{
    Batch, BlockGrads, BlockParams, BlockSpec, Conv, ConvGrads, ConvSpec, Precision, RunningStats, Stack,
    StackGrads, TangentGrads, TangentNorm, Workspace,
};
use twin::*;

static BYTES: AtomicUsize = AtomicUsize::new(0);
static LARGEST: AtomicUsize = AtomicUsize::new(0);

struct Counting;

// SAFETY: every call is handed to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        BYTES.fetch_add(layout.size(), Ordering::Relaxed);
        LARGEST.fetch_max(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, p: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(p, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Bytes allocated by one call of `step`, and the largest piece of them.
fn allocated(mut step: impl FnMut()) -> (usize, usize) {
    LARGEST.store(0, Ordering::Relaxed);
    let before = BYTES.load(Ordering::Relaxed);
    step();
    (BYTES.load(Ordering::Relaxed) - before, LARGEST.load(Ordering::Relaxed))
}

/// Training and evaluation of a stack. What remains are lists with an entry for each layer, chunk or block of pixels.
fn stack(precision: Precision, c_in: usize, most: usize) {
    let spec = |c_in| BlockSpec { c_in, c_out: 32, padding: 1, pool: true };
    let specs = [spec(c_in), spec(32), spec(32)];
    let mut rng = stream(2);
    let owned: Vec<Params> = specs.iter().map(|s| Params::new(&mut rng, s)).collect();
    let params: Vec<BlockParams> = owned.iter().map(Params::borrow).collect();
    let (n, side) = (20, 26);
    let images = numbers(&mut rng, n * c_in * side * side, 1.0);
    let stack = Stack::new(&specs).unwrap().at(precision).unwrap();
    let size: usize = stack.output_shape(side, side).unwrap().iter().product();
    let (mut features, dfeatures) = (vec![0.0; n * size], numbers(&mut rng, n * size, 1.0));
    let (mean, var) = (vec![0.0; 32], vec![1.0; 32]);
    let running = [RunningStats { mean: &mean, var: &var }; 3];
    let mut grads = owned.clone();
    let workspace = Workspace::new();

    let mut step = || {
        let saved = stack
            .forward_train(&workspace, &params, Batch::new(&images, [n, side, side]), &mut features)
            .unwrap();
        let mut places: Vec<_> = grads
            .iter_mut()
            .map(|Params { weight, bias, gamma, beta }| BlockGrads { weight, bias, gamma, beta })
            .collect();
        let grads = StackGrads { blocks: &mut places, images: None };
        stack.backward(&workspace, &params, &saved, &dfeatures, grads).unwrap();
        drop(saved);
        stack
            .forward_eval(&workspace, &params, &running, Batch::new(&images, [n, side, side]), &mut features)
            .unwrap();
    };
    let first = allocated(&mut step).0 + allocated(&mut step).0;
    assert!(first > 1 << 20, "the first steps should fill the workspace, but allocated only {first} bytes");
    for _ in 0..3 {
        let (bytes, largest) = allocated(&mut step);
        assert!(bytes < most && largest < 4 << 10, "{precision}: {bytes} bytes, {largest} at once");
    }
}

/// Both passes of a convolution alone.
fn conv(precision: Precision, spec: ConvSpec) {
    let mut rng = stream(3);
    let shape = [20, 26, 26];
    let x = numbers(&mut rng, 20 * spec.c_in * 26 * 26, 1.0);
    let weight = numbers(&mut rng, spec.c_out * spec.c_in * spec.kernel.pow(2), 0.3);
    let bias = numbers(&mut rng, spec.c_out, 0.3);
    let dout = numbers(&mut rng, out_len(&spec, shape), 1.0);
    let (mut out, mut dx) = (dout.clone(), x.clone());
    let (mut dweight, mut dbias) = (weight.clone(), bias.clone());
    let (conv, workspace) = (Conv::new(spec).unwrap().at(precision).unwrap(), Workspace::new());
    let mut step = || {
        conv.forward(&workspace, &weight, Some(&bias), Batch::new(&x, shape), &mut out).unwrap();
        let (dbias, dx) = (Some(&mut dbias[..]), Some(&mut dx[..]));
        let grads = ConvGrads { weight: &mut dweight, bias: dbias, images: dx };
        conv.backward(&workspace, &weight, Batch::new(&x, shape), &dout, grads).unwrap();
    };
    let first = allocated(&mut step).0 + allocated(&mut step).0;
    assert!(first > 1 << 17, "the first steps should fill the workspace, but allocated only {first} bytes");
    for _ in 0..3 {
        let (_, largest) = allocated(&mut step);
        assert!(largest < 4 << 10, "{precision} {spec:?}: {largest} bytes at once");
    }
}

/// Both passes of the part between the convolutions of a tangent pass.
fn tangent() {
    let mut rng = stream(4);
    let shape = [4, 8, 84, 84];
    let len = shape.iter().product();
    let (z, z_dot) = (numbers(&mut rng, len, 1.0), numbers(&mut rng, len, 1.0));
    let [gamma, gamma_dot, beta, beta_dot] = [(); 4].map(|()| numbers(&mut rng, 8, 1.0));
    let norm =
        TangentNorm { gamma: &gamma, gamma_dot: &gamma_dot, beta: &beta, beta_dot: &beta_dot, pool: true };
    let mut out = vec![0.0; len / 2];
    let (mut dz, mut dz_dot, mut dgamma, mut dbeta) = (z.clone(), z.clone(), gamma.clone(), beta.clone());
    for _ in 0..3 {
        let (_, largest) = allocated(|| {
            norm.forward(&z, &z_dot, shape, &mut out).unwrap();
            let grads = TangentGrads { z: &mut dz, z_dot: &mut dz_dot, gamma: &mut dgamma, beta: &mut dbeta };
            norm.backward(&z, &z_dot, shape, &out, grads).unwrap();
        });
        assert!(largest < 4 << 10, "{largest} bytes at once");
    }
}

/// One test, since the counters are those of the whole program.
#[test]
fn steps_after_the_first_use_the_same_memory_again() {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    pool.install(|| {
        stack(Precision::F32, 3, 16 << 10);
        stack(Precision::F32, 1, 16 << 10);
        stack(Precision::Bf16Emulated, 3, 128 << 10);
        let spec = ConvSpec { c_in: 32, c_out: 32, kernel: 3, stride: 1, padding: 1 };
        for precision in [Precision::F32, Precision::Bf16Emulated] {
            conv(precision, spec);
            conv(precision, ConvSpec { stride: 2, ..spec });
            conv(precision, ConvSpec { c_in: 3, ..spec });
        }
        tangent();
    });
}
