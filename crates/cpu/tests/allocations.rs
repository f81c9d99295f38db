//! A training loop in its steady state allocates next to nothing: buffers come back from the workspace.
#![allow(unsafe_code)]

mod twin;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use siskin_cpu::{BlockGrads, BlockParams, BlockSpec, RunningStats, Stack, Workspace};
use twin::*;

static BYTES: AtomicUsize = AtomicUsize::new(0);

struct Counting;

// SAFETY: every call is handed to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        BYTES.fetch_add(layout.size(), Ordering::Relaxed);
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

#[test]
fn steps_after_the_first_use_the_same_memory_again() {
    let spec = |c_in| BlockSpec { c_in, c_out: 32, padding: 1, pool: true };
    let specs = [spec(3), spec(32), spec(32)];
    let mut rng = stream(2);
    let owned: Vec<Params> = specs.iter().map(|s| Params::new(&mut rng, s)).collect();
    let params: Vec<BlockParams> = owned.iter().map(Params::borrow).collect();
    let (n, side) = (20, 26);
    let images = numbers(&mut rng, n * 3 * side * side, 1.0);
    let stack = Stack::new(&specs).unwrap();
    let size: usize = stack.output_shape(side, side).unwrap().iter().product();
    let (mut features, dfeatures) = (vec![0.0; n * size], numbers(&mut rng, n * size, 1.0));
    let (mean, var) = (vec![0.0; 32], vec![1.0; 32]);
    let running = [RunningStats { mean: &mean, var: &var }; 3];
    let mut grads = owned.clone();
    let workspace = Workspace::new();

    let mut step = || {
        let before = BYTES.load(Ordering::Relaxed);
        let saved =
            stack.forward_train(&workspace, &params, &images, [n, side, side], &mut features).unwrap();
        let mut places: Vec<_> = grads
            .iter_mut()
            .map(|Params { weight, bias, gamma, beta }| BlockGrads { weight, bias, gamma, beta })
            .collect();
        stack.backward(&workspace, &params, &saved, &dfeatures, &mut places, None).unwrap();
        drop(saved);
        stack.forward_eval(&workspace, &params, &running, &images, [n, side, side], &mut features).unwrap();
        BYTES.load(Ordering::Relaxed) - before
    };
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    let (first, later) = pool.install(|| (step() + step(), [step(), step(), step()]));
    assert!(first > 1 << 20, "the first steps should fill the workspace, but allocated only {first} bytes");
    // What remains are lists with an entry for each layer or chunk.
    assert!(later.iter().all(|&bytes| bytes < 16 << 10), "{later:?} bytes allocated by later steps");
}
