//! The FMA peak of one core, and how near to it each pass of each block of Conv4 comes:
//! `cargo run --release -p siskin-cpu --example peak -- [images] [repeats] [precision]`. One thread; CPU time, the least of
//! all repeats, since other programs can only add to it.

use siskin_cpu::{
    Activations, Block, BlockGrads, BlockParams, BlockPass, BlockSpec, Isa, Precision, RunningStats,
    Workspace, multiply_adds, time,
};

fn main() {
    let mut words = std::env::args().skip(1);
    let mut number = |or| words.next().map_or(or, |a| a.parse::<usize>().expect("a whole number"));
    let (images, repeats) = (number(85), number(5));
    let precision = words.next().map_or(Precision::F32, |a| a.parse().expect("a precision"));
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("a thread");
    pool.install(|| run(images, repeats, precision));
}

fn run(images: usize, repeats: usize, precision: Precision) {
    let isa = Isa::detect();
    let peak = (0..3 * repeats).fold(0.0_f64, |best, _| {
        let ((flops, _), seconds) = time(|| multiply_adds(isa, 20_000_000));
        best.max(flops / seconds.busy() * 1e-9)
    });
    println!("{}: {peak:.1} GFLOP/s of multiply-adds, one core; {images} images, one thread", isa.name());
    println!(
        "`by definition` counts the convolution's 18·c_in·c_out operations a pixel; `made` those of the matrix"
    );
    println!(
        "products really made (Winograd: 2·c_in·c_out a point), as part of the peak. Times are of whole blocks."
    );
    println!("\n{:<16}{:<10}{:>9}{:>16}{:>10}", "block", "pass", "cpu ms", "by definition", "made");
    for (c_in, side) in [(3, 84), (64, 42), (64, 21), (64, 10), (1, 28), (64, 14), (64, 7), (64, 3)] {
        let definition = (images * side * side * 18 * c_in * 64) as f64 * 1e-9;
        // Two points more than outputs in each direction of a tile; evaluation makes no output outside the pools.
        let at_points = |side: usize| (side + 2 * side.div_ceil(4)).pow(2) as f64;
        let made = |side: usize| (images * 2 * c_in * 64) as f64 * 1e-9 * at_points(side);
        let made = if c_in < 16 { [definition; 3] } else { [made(side & !1), made(side), made(side)] };
        let passes = if c_in < 16 { [1.0, 1.0, 1.0] } else { [1.0, 1.0, 2.0] };
        let seconds = measure(precision, c_in, side, images, repeats);
        let names = ["eval", "forward", "backward"];
        for (((name, products), made), seconds) in names.iter().zip(passes).zip(made).zip(seconds) {
            println!(
                "{:<16}{name:<10}{:>9.2}{:>11.1} GF/s{:>9.0}%",
                format!("{c_in}->64, {side}x{side}"),
                seconds * 1e3,
                products * definition / seconds,
                100.0 * products * made / seconds / peak,
            );
        }
    }
}

/// Least seconds of evaluation, forward and backward pass of one block.
fn measure(precision: Precision, c_in: usize, side: usize, n: usize, repeats: usize) -> [f64; 3] {
    let block = Block::new(BlockSpec { c_in, c_out: 64, padding: 1, pool: true });
    let block = block.and_then(|block| block.at(precision)).expect("a valid block");
    let wave = |n: usize| -> Vec<f32> { (0..n).map(|i| (i as f32 * 0.37).sin()).collect() };
    let (weight, ones, zeros) = (wave(c_in * 64 * 9), vec![1.0; 64], vec![0.0; 64]);
    let params = BlockParams { weight: &weight, bias: &zeros, gamma: &ones, beta: &zeros };
    let running = RunningStats { mean: &zeros, var: &ones };
    let workspace = Workspace::new();
    let x = Activations::from_nchw(&workspace, &wave(n * c_in * side * side), [n, c_in, side, side])
        .expect("images");
    let dy = wave(n * 64 * (side / 2).pow(2));
    let (mut dweight, mut dbias, mut dgamma, mut dbeta) =
        (weight.clone(), zeros.clone(), zeros.clone(), zeros.clone());
    let mut best = [f64::INFINITY; 3];
    for _ in 0..=repeats {
        let (_, eval) = time(|| block.forward_eval(&workspace, &params, &running, &x).expect("evaluation"));
        let ((_, saved), forward) =
            time(|| block.forward_train(&workspace, &params, &x).expect("forward pass"));
        let dy = saved.gradient(&workspace, &dy).expect("gradient");
        let mut grads =
            BlockGrads { weight: &mut dweight, bias: &mut dbias, gamma: &mut dgamma, beta: &mut dbeta };
        let want_dx = c_in >= 16;
        let (_, backward) = time(|| {
            let pass = BlockPass { params, x: &x, saved: &saved, dy: &dy };
            block.backward(&workspace, pass, &mut grads, want_dx).expect("backward pass")
        });
        for (best, now) in best.iter_mut().zip([eval, forward, backward]) {
            *best = best.min(now.busy());
        }
    }
    best
}
