//! The fused CPU path against the plain composition of Burn operations, and its bits at one and two threads.

use siskin_nn::{
    Architecture, Backbone, DeviceChoice, Error, Features, HeadLoss, Images, NamedTensor, Network, Step,
};

/// Reproducible pixels without a generator.
fn pixels(shape: [usize; 4]) -> Vec<f32> {
    let n: usize = shape.iter().product();
    (0..n).map(|i| (i * 7919 % 2003) as f32 / 1001.5 - 1.0 + (i / 97 % 7) as f32 * 0.1).collect()
}

fn network(architecture: Architecture, width: usize, fused: bool) -> Network {
    let backbone = Backbone::with_width(architecture, width, 11, &DeviceChoice::Cpu.open().unwrap());
    Network::of(if fused { backbone } else { backbone.unfused() })
}

/// A head whose gradient has both signs and depends on the features.
fn head(f: &Features) -> Result<HeadLoss, Error> {
    let sign = |i: usize| if i.is_multiple_of(3) { 1.0 } else { -0.5 };
    let dfeatures: Vec<f64> = f.values.iter().enumerate().map(|(i, v)| sign(i) * (v + 0.1)).collect();
    let loss = f.values.iter().enumerate().map(|(i, v)| sign(i) * (v * v / 2.0 + 0.1 * v)).sum();
    Ok(HeadLoss { loss, dfeatures, dhyper: vec![], accuracy: None })
}

/// One step: loss, features and everything the step changed. Adam's first moment is 0.1 times the gradient.
fn step(network: &mut Network, shape: [usize; 4]) -> (f64, Vec<f64>, Vec<NamedTensor>) {
    let pixels = pixels(shape);
    let mut step = Step::default();
    let mut features = Vec::new();
    let watched = |f: &Features| {
        features.clone_from(&f.values);
        head(f)
    };
    let out = network.episode(Images::new(&pixels, shape).unwrap(), &mut step, watched).unwrap();
    network.apply(step, 1e-3);
    let state = network.state();
    (out.loss, features, [state.model, state.moments].concat())
}

/// Largest difference relative to the largest value.
fn distance(a: impl Iterator<Item = f64> + Clone, b: impl Iterator<Item = f64> + Clone) -> f64 {
    let largest = b.clone().fold(1e-9, |m: f64, x| m.max(x.abs()));
    a.zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max) / largest
}

#[test]
fn features_gradients_and_statistics_equal_the_plain_composition() {
    let cases = [
        (Architecture::Conv4, 8, [7, 3, 42, 42]),
        (Architecture::Conv4, 5, [3, 3, 21, 37]),
        (Architecture::Conv4S, 64, [10, 1, 28, 28]),
        (Architecture::Conv4NP, 6, [4, 3, 31, 22]),
        (Architecture::Conv4SNP, 8, [5, 1, 28, 28]),
        (Architecture::Conv6, 12, [4, 3, 33, 20]),
    ];
    for (architecture, width, shape) in cases {
        let (mut fused, mut plain) =
            (network(architecture, width, true), network(architecture, width, false));
        assert_eq!(fused.state(), plain.state());
        let (_, f_fused, s_fused) = step(&mut fused, shape);
        let (_, f_plain, s_plain) = step(&mut plain, shape);
        let d = distance(f_fused.into_iter(), f_plain.into_iter());
        assert!(d < 1e-5, "{architecture} {shape:?}: features differ by {d}");
        for (a, b) in s_fused.iter().zip(&s_plain) {
            // Only what is linear in the gradient or the statistics: Adam's first step itself is its sign.
            if !a.name.starts_with("adam.m.") && !a.name.contains("running") {
                continue;
            }
            let values = |t: &NamedTensor| t.values.clone().into_iter().map(f64::from);
            let d = distance(values(a), values(b));
            assert!(d < 1e-4, "{architecture} {shape:?}: {} differs by {d}", a.name);
        }

        // Evaluation folds the batch-norm into the convolution.
        plain.load_state(fused.state()).unwrap();
        let pixels = pixels(shape);
        let images = Images::new(&pixels, shape).unwrap();
        let (a, b) = (fused.features(images).unwrap(), plain.features(images).unwrap());
        let d = distance(a.values.into_iter(), b.values.into_iter());
        assert!(d < 1e-4, "{architecture} {shape:?}: evaluation differs by {d}");
    }
}

#[test]
fn the_bits_do_not_depend_on_the_number_of_threads() {
    for (architecture, width, shape) in
        [(Architecture::Conv4, 16, [13, 3, 36, 36]), (Architecture::ResNet12, 4, [5, 3, 20, 20])]
    {
        let run = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| {
                let mut network = network(architecture, width, true);
                let steps: Vec<_> = (0..3).map(|_| step(&mut network, shape)).collect();
                let pixels = pixels(shape);
                (steps, network.features(Images::new(&pixels, shape).unwrap()).unwrap())
            })
        };
        assert_eq!(run(1), run(2), "{architecture}");
    }
}

#[test]
fn one_network_serves_several_threads() {
    let network = network(Architecture::Conv4S, 8, true);
    let shape = [4, 1, 28, 28];
    let pixels = pixels(shape);
    let features = || network.features(Images::new(&pixels, shape).unwrap()).unwrap();
    let alone = features();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(features)).collect();
        for thread in threads {
            assert_eq!(thread.join().unwrap(), alone);
        }
    });
}
