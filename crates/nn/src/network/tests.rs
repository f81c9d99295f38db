use super::*;
use crate::part::{SentPart, StepPart};

const SHAPE: [usize; 4] = [6, 3, 20, 20];

/// Reproducible pixels without a generator.
fn pixels(shape: [usize; 4]) -> Vec<f32> {
    let n: usize = shape.iter().product();
    (0..n).map(|i| ((i * 7919 % 2003) as f32 / 1001.5 - 1.0) * (1.0 + (i % 5) as f32)).collect()
}

fn small(seed: u64) -> Network {
    let device = DeviceChoice::Cpu.open().unwrap();
    Network::of(Backbone::with_width(Architecture::Conv4, 4, seed, &device))
}

/// A head with loss sum(features^2) / 2.
fn half_square(features: &Features) -> Result<HeadLoss, Error> {
    Ok(HeadLoss {
        loss: features.values.iter().map(|f| f * f).sum::<f64>() / 2.0,
        dfeatures: features.values.clone(),
        dhyper: vec![1.0, 2.0],
        accuracy: None,
    })
}

fn train(network: &mut Network, steps: usize) -> Vec<f64> {
    let pixels = pixels(SHAPE);
    let images = Images::new(&pixels, SHAPE).unwrap();
    let mut losses = Vec::new();
    for _ in 0..steps {
        let mut step = Step::default();
        let out = network.episode(images, &mut step, half_square).unwrap();
        assert_eq!(out.dhyper, [1.0, 2.0]);
        assert_eq!(step.non_finite(), 0);
        network.apply(step, 1e-2);
        losses.push(out.loss);
    }
    losses
}

#[test]
fn training_goes_down_and_resumes_to_the_same_bits() {
    let mut network = small(3);
    let losses = train(&mut network, 6);
    assert!(losses[5] < 0.8 * losses[0], "{losses:?}");

    let mut first = small(3);
    train(&mut first, 2);
    let state = first.state();
    let mut second = small(99);
    second.load_state(state).unwrap();
    assert_eq!(train(&mut second, 4), losses[2..]);
    assert_eq!(second.state(), network.state());
    assert_eq!(second.steps(), 6);
}

#[test]
fn a_seed_fixes_the_bytes() {
    assert_eq!(small(5).state(), small(5).state());
    assert_ne!(small(5).state(), small(6).state());
}

#[test]
fn several_episodes_average_and_absorb_in_order() {
    let pixels = pixels(SHAPE);
    let images = Images::new(&pixels, SHAPE).unwrap();
    let (mut once, mut twice) = (small(1), small(1));
    let mut step = Step::default();
    once.episode(images, &mut step, half_square).unwrap();
    once.apply(step, 1e-3);
    let mut step = Step::default();
    for _ in 0..2 {
        twice.episode(images, &mut step, half_square).unwrap();
    }
    assert_eq!(step.episodes(), 2);
    twice.apply(step, 1e-3);
    // The mean of two equal gradients is that gradient; the running statistics move twice.
    let all = |network: &Network| [network.state().model, network.state().moments].concat();
    for (a, b) in all(&once).iter().zip(&all(&twice)) {
        if a.name.contains("running") {
            assert_ne!(a.values, b.values, "{}", a.name);
        } else {
            assert_eq!(a.values, b.values, "{}", a.name);
        }
    }
}

#[test]
fn parts_that_were_sent_give_the_same_bits_as_one_pass_after_another() {
    let pixels = [0.0, 0.3, 0.7].map(|add| pixels(SHAPE).iter().map(|p| p + add).collect::<Vec<f32>>());
    let (mut here, mut mixed) = (small(1), small(1));
    let mut step = Step::default();
    let mut parts = Vec::new();
    for (index, pixels) in pixels.iter().enumerate() {
        let images = Images::new(pixels, SHAPE).unwrap();
        here.episode(images, &mut step, half_square).unwrap();
        let mut own = Step::default();
        mixed.episode(images, &mut own, half_square).unwrap();
        let part = StepPart::Recorded(own);
        parts.push(if index == 1 { part } else { StepPart::Sent(part.into_sent()) });
    }
    let joined = mixed.step_of(parts).unwrap();
    assert_eq!((joined.episodes(), joined.norm()), (3, step.norm()));
    here.apply(step, 1e-3);
    mixed.apply(joined, 1e-3);
    assert_eq!(here.state(), mixed.state());
    assert!(small(1).step_of([StepPart::Sent(SentPart::default())]).is_err(), "a part of another network");
}

#[test]
fn a_failing_or_dropped_step_leaves_no_trace() {
    let network = small(1);
    let before = network.state();
    let pixels = pixels(SHAPE);
    let images = Images::new(&pixels, SHAPE).unwrap();
    let mut step = Step::default();
    let bad = |f: &Features| {
        Ok::<_, Error>(HeadLoss {
            loss: f64::NAN,
            dfeatures: vec![f64::NAN; f.values.len()],
            dhyper: vec![],
            accuracy: None,
        })
    };
    network.episode(images, &mut step, bad).unwrap();
    assert!(step.non_finite() > 0);
    drop(step);
    let short = |_: &Features| {
        Ok::<_, Error>(HeadLoss { loss: 0.0, dfeatures: vec![0.0; 3], dhyper: vec![], accuracy: None })
    };
    let mut step = Step::default();
    let error = network.episode(images, &mut step, short).unwrap_err();
    assert!(matches!(error, Error::FeatureGradient { rows: 6, dim: 4, found: 3 }));
    assert_eq!(step.episodes(), 0);
    assert_eq!(network.state(), before);
}

#[test]
fn evaluation_does_not_depend_on_the_batch() {
    let mut network = small(2);
    train(&mut network, 2);
    let shape = [EVAL_BATCH + 3, 3, 16, 16];
    let pixels = pixels(shape);
    let all = network.features(Images::new(&pixels, shape).unwrap()).unwrap();
    assert_eq!((all.rows, all.dim), (EVAL_BATCH + 3, 4));
    let image = 3 * 16 * 16;
    for i in [0, EVAL_BATCH - 1, EVAL_BATCH, EVAL_BATCH + 2] {
        let one = &pixels[i * image..(i + 1) * image];
        let one = network.features(Images::new(one, [1, 3, 16, 16]).unwrap()).unwrap();
        for (a, b) in one.values.iter().zip(all.row(i)) {
            assert!((a - b).abs() <= 1e-5 * (1.0 + a.abs()), "{a} {b}");
        }
    }
}

#[test]
fn conv4s_reads_the_first_channel() {
    let network = Network::new(Architecture::Conv4S, 0, DeviceChoice::Cpu).unwrap();
    let shape = [2, 3, 28, 28];
    let colour = pixels(shape);
    let plane = 28 * 28;
    let first: Vec<f32> = colour.chunks(3 * plane).flat_map(|i| &i[..plane]).copied().collect();
    let a = network.features(Images::new(&colour, shape).unwrap()).unwrap();
    let b = network.features(Images::new(&first, [2, 1, 28, 28]).unwrap()).unwrap();
    assert_eq!(a, b);
    assert_eq!(a.dim, 64);
}

#[test]
fn bad_batches_are_refused_with_the_facts() {
    let network = small(0);
    let pixels = pixels([2, 3, 20, 20]);
    assert!(matches!(Images::new(&pixels, [2, 3, 20, 21]), Err(Error::PixelCount { .. })));
    let gray = Images::new(&pixels, [6, 1, 20, 20]).unwrap();
    assert!(matches!(network.features(gray), Err(Error::BatchShape { .. })));
    let tiny = Images::new(&pixels, [10, 3, 8, 10]).unwrap();
    let error = network.features(tiny).unwrap_err().to_string();
    assert!(error.contains("8 x 10") && error.contains("at least 16"), "{error}");
    let none = Images::new(&[], [0, 3, 20, 20]).unwrap();
    assert!(matches!(network.features(none), Err(Error::BatchShape { .. })));
}

#[test]
fn a_state_that_does_not_fit_changes_nothing() {
    let mut network = small(0);
    let before = network.state();
    let mut missing = before.clone();
    let gone = missing.model.remove(3);
    let error = network.load_state(missing.clone()).unwrap_err().to_string();
    assert!(error.contains(&gone.name), "{error}");
    let mut shape = before.clone();
    shape.model[0].shape.reverse();
    assert!(matches!(network.load_state(shape), Err(Error::TensorShape { .. })));
    let mut short = before.clone();
    short.model[0].values.pop();
    assert!(matches!(network.load_state(short), Err(Error::TensorLength { .. })));
    let mut extra = before.clone();
    extra.model.push(NamedTensor { name: "blocks.9.conv.weight".into(), ..gone.clone() });
    let error = network.load_state(extra).unwrap_err().to_string();
    assert!(error.contains("blocks.9.conv.weight"), "{error}");
    let mut twice = before.clone();
    twice.model.push(gone);
    assert!(matches!(network.load_state(twice), Err(Error::DuplicateTensor { .. })));
    let mut moment = before.clone();
    moment.moments.pop();
    assert!(matches!(network.load_state(moment), Err(Error::MissingTensor { .. })));
    assert_eq!(network.state(), before);
}

#[test]
fn parameters_stay_trainable_and_buffers_stay_buffers() {
    let mut network = small(0);
    train(&mut network, 2);
    let slots = crate::state::slots(network.backbone());
    for slot in slots {
        assert_eq!(slot.trained, !slot.name.contains("running"), "{}", slot.name);
    }
}

#[test]
fn weight_decay_shrinks_weights_and_leaves_biases() {
    let pixels = pixels(SHAPE);
    let images = Images::new(&pixels, SHAPE).unwrap();
    let step = |weight_decay: f64| {
        let mut network = small(4);
        let before = network.state().model;
        let mut step = Step::default();
        network.episode(images, &mut step, half_square).unwrap();
        network.apply(step, Pace { learning_rate: 1e-2, weight_decay });
        (before, network.state().model)
    };
    let ((before, plain), (_, decayed)) = (step(0.0), step(0.5));
    for ((before, plain), decayed) in before.iter().zip(&plain).zip(&decayed) {
        let share = if plain.shape.len() > 1 { 0.005 } else { 0.0 };
        for ((b, p), d) in before.values.iter().zip(&plain.values).zip(&decayed.values) {
            assert!((p - share * b - d).abs() < 1e-6, "{}: {p} {d}", plain.name);
        }
    }
}
