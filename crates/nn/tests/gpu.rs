//! The same network on a graphics processor and on the CPU: features, gradients and ten training steps agree as far as f32
//! numbers can. How far that is, the CPU itself tells: its fused blocks and Burn's own operations are two roundings of the
//! same numbers, which choose another pixel of a pool or another side of a ReLU here and there. Needs the feature `wgpu` and a driver; scripts/gpu/run.py runs it on Mesa's software driver.

use siskin_nn::{
    Architecture, DeviceChoice, Error, Features, HeadLoss, Images, NamedTensor, Network, SentPart, Step,
    StepPart,
};

/// Steps of the training.
const STEPS: usize = 10;
const RATE: f64 = 1e-3;

/// Reproducible pixels without a generator; those of step `k` differ from the others.
fn pixels(shape: [usize; 4], k: usize) -> Vec<f32> {
    let n: usize = shape.iter().product();
    (0..n).map(|i| ((i + 31 * k) * 7919 % 2003) as f32 / 1001.5 - 1.0 + (i / 97 % 7) as f32 * 0.1).collect()
}

/// Pulls the features of image `i` towards 1 where they are of class `i mod 5`, else towards 0: a loss that falls.
fn head(f: &Features) -> Result<HeadLoss, Error> {
    let scale = 1.0 / f.values.len() as f64;
    let target = |i: usize| if (i % f.dim) % 5 == (i / f.dim) % 5 { 1.0 } else { 0.0 };
    let away: Vec<f64> = f.values.iter().enumerate().map(|(i, v)| v - target(i)).collect();
    let loss = away.iter().map(|d| scale * d * d / 2.0).sum();
    let dfeatures = away.iter().map(|d| scale * d).collect();
    Ok(HeadLoss { loss, dfeatures, dhyper: vec![], accuracy: None })
}

/// Loss, features and gradient of one episode, not yet taken.
fn episode(network: &Network, shape: [usize; 4], k: usize) -> (f64, Vec<f64>, Step) {
    let pixels = pixels(shape, k);
    let (mut step, mut features) = (Step::default(), Vec::new());
    let watched = |f: &Features| {
        features.clone_from(&f.values);
        head(f)
    };
    let out = network.episode(Images::new(&pixels, shape).unwrap(), &mut step, watched).unwrap();
    (out.loss, features, step)
}

/// Largest difference relative to the largest value.
fn distance(a: &[f64], b: &[f64]) -> f64 {
    assert_eq!(a.len(), b.len());
    let largest = b.iter().fold(1e-30, |m: f64, x| m.max(x.abs()));
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max) / largest
}

fn wide(values: &[f32]) -> Vec<f64> {
    values.iter().map(|&v| f64::from(v)).collect()
}

/// A distance of the GPU from the CPU may be this many times that of the CPU's two roundings.
const TIMES: f64 = 4.0;
/// Or this, where those two agree by luck.
const LEAST: f64 = 1e-5;

/// The network of an architecture on the GPU, on the CPU, and on the CPU by Burn's own operations, with the same weights.
fn three(architecture: Architecture) -> [Network; 3] {
    let of = |device| Network::new(architecture, 11, device).unwrap_or_else(|why| panic!("{why}"));
    let all = [DeviceChoice::Wgpu, DeviceChoice::Cpu, DeviceChoice::CpuUnfused].map(of);
    assert_eq!(all[0].state(), all[1].state(), "the first weights come from the same stream");
    all
}

/// The distance of the first from the second, and of the third from the second: the yardstick.
fn compared(what: &str, values: [Vec<f64>; 3]) -> String {
    let (d, yardstick) = (distance(&values[0], &values[1]), distance(&values[2], &values[1]));
    assert!(
        d <= (TIMES * yardstick).max(LEAST),
        "{what}: {d} from the CPU, whose own roundings differ by {yardstick}"
    );
    format!("{what} {d:.1e} ({yardstick:.1e})")
}

const CASES: [(Architecture, [usize; 4]); 5] = [
    (Architecture::Conv4, [5, 3, 84, 84]),
    (Architecture::Conv4S, [10, 1, 28, 28]),
    (Architecture::Conv4NP, [4, 3, 31, 22]),
    (Architecture::Conv6, [4, 3, 33, 20]),
    (Architecture::ResNet12, [2, 3, 20, 20]),
];

#[test]
fn features_and_gradients_are_those_of_the_cpu() {
    for (architecture, shape) in CASES {
        let all = three(architecture);
        let images = pixels(shape, 0);
        let eval = |n: &Network| n.features(Images::new(&images, shape).unwrap()).unwrap().values;
        let mut said = vec![compared("features", all.each_ref().map(eval))];
        let episodes = all.each_ref().map(|network| episode(network, shape, 0));
        said.push(compared("loss", episodes.each_ref().map(|(loss, ..)| vec![*loss])));
        said.push(compared(
            "features in training",
            episodes.each_ref().map(|(_, features, _)| features.clone()),
        ));
        let parts = episodes.map(|(.., step)| StepPart::Recorded(step).into_sent());
        said.push(compared("gradient", parts.each_ref().map(|part| wide(&part.gradient))));
        let statistics = |part: &SentPart| part.statistics.iter().flatten().flat_map(|v| wide(v)).collect();
        said.push(compared("batch statistics", parts.each_ref().map(statistics)));
        println!("{architecture} {shape:?}: {}", said.join(", "));
    }
}

#[test]
fn ten_steps_are_those_of_the_cpu() {
    for (architecture, shape) in [CASES[0], CASES[1]] {
        let mut all = three(architecture);
        let mut losses: [Vec<f64>; 3] = Default::default();
        for k in 0..STEPS {
            for (network, losses) in all.iter_mut().zip(&mut losses) {
                let (loss, _, step) = episode(network, shape, k);
                losses.push(loss);
                network.apply(step, RATE);
            }
        }
        assert!(losses[0][STEPS - 1] < losses[0][0], "{architecture}: the losses were {:?}", losses[0]);
        // One number may be near by luck, and is no yardstick: all ten together.
        let losses = compared("losses", losses);
        let [gpu, cpu, plain] = all.each_ref().map(Network::state);
        let apart =
            |a: &[NamedTensor]| a.iter().zip(&cpu.model).map(|(a, b)| moved_apart(a, b)).fold(0.0, f64::max);
        let (d, yardstick) = (apart(&gpu.model), apart(&plain.model));
        let images = pixels(shape, STEPS);
        let eval = |n: &Network| n.features(Images::new(&images, shape).unwrap()).unwrap().values;
        let features = compared("features", all.each_ref().map(eval));
        println!(
            "{architecture} after {STEPS} steps: {losses}, {features}, weights {d:.1e} ({yardstick:.1e}) of the way that Adam can go"
        );
        // Adam divides a gradient by its size: where it is rounding alone, a weight goes either way.
        assert!(
            d <= (TIMES * yardstick).max(LEAST),
            "{architecture}: weights {d} apart, on the CPU {yardstick}"
        );
    }
}

/// Root mean square difference of a tensor, relative to the way that Adam can go in all steps; of running statistics relative
/// to their largest value.
fn moved_apart(a: &NamedTensor, b: &NamedTensor) -> f64 {
    let (x, y) = (wide(&a.values), wide(&b.values));
    if a.name.contains("running") {
        return distance(&x, &y);
    }
    let squares = x.iter().zip(&y).map(|(x, y)| (x - y).powi(2)).sum::<f64>();
    (squares / x.len() as f64).sqrt() / (STEPS as f64 * RATE)
}
