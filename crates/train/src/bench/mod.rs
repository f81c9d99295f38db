//! How long a training and a test episode of CDKT take on this machine, and where the time goes.

mod work;

pub use work::Work;

use serde::Serialize;
use siskin_cpu::{Isa, Seconds, multiply_adds, time};
use siskin_methods::gp::cdkt::{Cdkt, CdktSettings};
use siskin_methods::{Method, Pace, Purpose, Rates, Setup, TaskRows};
use siskin_nn::{Architecture, DeviceChoice, HeadLoss, Network, Step};

use crate::error::Result;
use crate::synthetic::Drawn;

/// The learning rates of the paper: what is timed is a real step.
const RATES: Rates = Rates { network: Pace { learning_rate: 1e-3, weight_decay: 0.0 }, kernel: 1e-2 };

/// What to time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Case {
    /// The network.
    pub architecture: Architecture,
    /// Side of the square images in pixels.
    pub side: usize,
    /// Classes of an episode.
    pub way: usize,
    /// Support images of each class.
    pub shot: usize,
    /// Queries of each class in training.
    pub train_query: usize,
    /// Queries of each class at test.
    pub test_query: usize,
}

impl Case {
    /// Five classes with so many support images, and the queries of the paper: 16 in training, 15 at test. The network is Conv4S
    /// on 28 pixels, and Conv4 on any other side.
    pub fn paper(side: usize, shot: usize) -> Case {
        let architecture = if side == 28 { Architecture::Conv4S } else { Architecture::Conv4 };
        Case { architecture, side, way: 5, shot, train_query: 16, test_query: 15 }
    }

    fn drawn(&self, query: usize) -> Drawn {
        Drawn::new(self.way, self.shot, query, [self.architecture.channels(), self.side, self.side])
    }

    fn setup(&self, device: DeviceChoice) -> Setup {
        let Case { architecture, side: image_size, .. } = *self;
        Setup { architecture, image_size, way: self.way, base_classes: Some(self.way), seed: 0, device }
    }
}

/// Median times of one piece of work, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Times {
    /// By the clock on the wall.
    pub wall: f64,
    /// On all cores together; absent where the system does not tell.
    pub cpu: Option<f64>,
}

/// An episode as a whole and its two parts, each timed by itself.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Parts {
    /// Images of the episode.
    pub images: usize,
    /// The whole episode; in training with the optimiser's step.
    pub whole: Times,
    /// The network alone; in training forward, backward and the optimiser's step.
    pub backbone: Times,
    /// The Gaussian process alone; in training with its gradients, at test with the class probabilities.
    pub gp: Times,
    /// Images per second of the whole episode, by wall time.
    pub images_per_second: f64,
    /// Operations of the network's convolutions by their definition, in units of 1e9.
    pub gflop: f64,
    /// These operations per second of CPU time (where known, else of wall time) of the network alone, to be set beside the
    /// peak of one core. Winograd makes fewer operations than the definition, so this can exceed the peak.
    pub gflop_per_core_second: f64,
}

/// The times of one case.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CaseReport {
    /// The network's name.
    pub backbone: String,
    /// Side of the images.
    pub side: usize,
    /// Classes of an episode.
    pub way: usize,
    /// Support images of each class.
    pub shot: usize,
    /// Queries of each class in training.
    pub train_query: usize,
    /// Queries of each class at test.
    pub test_query: usize,
    /// A training episode.
    pub train: Parts,
    /// What the Gaussian process does in it; absent for objectives whose parts cannot be done alone.
    pub work: Option<Work>,
    /// A test episode.
    pub test: Parts,
}

/// Everything `siskin bench` says.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BenchReport {
    /// The vector instructions of the CPU kernels.
    pub instructions: String,
    /// The hardware and the precision of the network.
    pub device: String,
    /// `f32`, `bf16` or `bf16-emulated`.
    pub precision: String,
    /// Threads used.
    pub threads: usize,
    /// Multiply-adds in registers, two operations each, 1e9 a second of CPU time of one core: the f32 peak.
    pub peak_gflop_per_core_second: f64,
    /// Repeats each median is taken over.
    pub repeats: usize,
    /// One entry for each case.
    pub cases: Vec<CaseReport>,
}

/// Times `cases` on synthetic images (a pattern for each class under noise). Decoding and augmenting images is not
/// part of it: in training another thread does that ahead of time.
pub fn run(
    cases: &[Case],
    cdkt: &CdktSettings,
    device: DeviceChoice,
    repeats: usize,
    progress: &mut dyn FnMut(&CaseReport),
) -> Result<BenchReport> {
    siskin_gp::keep_freed_memory();
    let peak = peak(repeats);
    let mut reports = Vec::new();
    for case in cases {
        // Inside the pool, as training and tests are.
        let (train, work) = rayon::scope(|_| train(case, cdkt, device, repeats))?;
        let test = rayon::scope(|_| test(case, cdkt, device, repeats))?;
        let &Case { architecture, side, way, shot, train_query, test_query } = case;
        let backbone = architecture.name().into();
        let report = CaseReport { backbone, side, way, shot, train_query, test_query, train, work, test };
        progress(&report);
        reports.push(report);
    }
    Ok(BenchReport {
        instructions: Isa::detect().name().into(),
        device: device.name().into(),
        precision: device.precision().name().into(),
        threads: rayon::current_num_threads(),
        peak_gflop_per_core_second: peak,
        repeats,
        cases: reports,
    })
}

/// The best of some rounds of one core: other programs can only take from it.
fn peak(repeats: usize) -> f64 {
    (0..3 * repeats).fold(0.0_f64, |best, _| {
        let ((flops, sum), seconds) = time(|| multiply_adds(Isa::detect(), 10_000_000));
        std::hint::black_box(sum);
        best.max(flops * 1e-9 / seconds.busy())
    })
}

fn train(
    case: &Case,
    cdkt: &CdktSettings,
    device: DeviceChoice,
    repeats: usize,
) -> Result<(Parts, Option<Work>)> {
    let drawn = case.drawn(case.train_query);
    let episode = drawn.episode()?;
    let mut method = Cdkt::new(cdkt, case.setup(device))?;
    let mut network = Network::new(case.architecture, 0, device).map_err(siskin_methods::Error::from)?;
    let [mut whole, mut backbone, mut gp] = [const { Vec::new() }; 3];
    // The first round fills the buffers and is not counted.
    for _ in 0..=repeats {
        let (report, seconds) = time(|| method.train_step(&[episode], RATES));
        report?;
        whole.push(seconds);
        let (loss, seconds) = time(|| -> siskin_methods::Result<()> {
            let mut step = Step::default();
            network.episode(episode.images, &mut step, |features| {
                let dfeatures = vec![1e-3; features.values.len()];
                siskin_methods::Result::Ok(HeadLoss { loss: 0.0, dfeatures, dhyper: vec![], accuracy: None })
            })?;
            network.apply(step, RATES.network);
            Ok(())
        });
        loss?;
        backbone.push(seconds);
        let features = method.embed(episode.images)?.into_features()?;
        let (loss, seconds) = time(|| method.loss(&features, &episode));
        loss?;
        gp.push(seconds);
    }
    let work = Work::measure(&method, &method.embed(episode.images)?.into_features()?, &episode, repeats)?;
    // The gradient of the images is not computed, so the first convolution has two passes and the others three.
    let gflop = |first: f64, rest: f64| 2.0 * first + 3.0 * rest;
    Ok((parts(case, drawn.labels.len(), [&whole, &backbone, &gp], gflop), work))
}

fn test(case: &Case, cdkt: &CdktSettings, device: DeviceChoice, repeats: usize) -> Result<Parts> {
    let drawn = case.drawn(case.test_query);
    let episode = drawn.episode()?;
    let method = Cdkt::new(cdkt, case.setup(device))?;
    let labels: Vec<usize> = drawn.support.iter().map(|&row| drawn.labels[row]).collect();
    let [mut whole, mut backbone, mut gp] = [const { Vec::new() }; 3];
    for _ in 0..=repeats {
        let mut parts = [Seconds { wall: 0.0, cpu: None }; 2];
        let (outcome, seconds) = time(|| -> Result<()> {
            let (features, embedding) = time(|| method.embed(episode.images));
            let features = features?;
            let (support, query) = (features.select(&drawn.support), features.select(&drawn.query));
            let task = TaskRows {
                support: &support,
                labels: &labels,
                way: case.way,
                query: &query,
                index: 0,
                purpose: Purpose::Test,
            };
            let (prediction, predicting) = time(|| method.predict(&task));
            prediction?;
            parts = [embedding, predicting];
            Ok(())
        });
        outcome?;
        whole.push(seconds);
        backbone.push(parts[0]);
        gp.push(parts[1]);
    }
    Ok(parts(case, drawn.labels.len(), [&whole, &backbone, &gp], |first, rest| first + rest))
}

/// Medians and rates. `gflop`: passes over the first convolution and over the others.
fn parts(
    case: &Case,
    images: usize,
    [whole, backbone, gp]: [&[Seconds]; 3],
    gflop: impl Fn(f64, f64) -> f64,
) -> Parts {
    let (first, rest) = convolutions(case.architecture.channels(), case.side);
    let gflop = images as f64 * 1e-9 * gflop(first, rest);
    let (whole, backbone, gp) = (median(whole), median(backbone), median(gp));
    Parts {
        images,
        images_per_second: images as f64 / whole.wall,
        gflop,
        gflop_per_core_second: gflop / backbone.cpu.unwrap_or(backbone.wall),
        whole,
        backbone,
        gp,
    }
}

/// Operations of the convolutions of Conv4 on one image by their definition: of the first, and of the other three.
fn convolutions(channels: usize, side: usize) -> (f64, f64) {
    let operations = |c_in: usize, side: usize| (side * side * 18 * c_in * 64) as f64;
    (operations(channels, side), (1..4).map(|block| operations(64, side >> block)).sum())
}

/// The median over all rounds but the first.
fn median(rounds: &[Seconds]) -> Times {
    let middle = |mut values: Vec<f64>| {
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    let cpu: Option<Vec<f64>> = rounds[1..].iter().map(|s| s.cpu).collect();
    Times { wall: middle(rounds[1..].iter().map(|s| s.wall).collect()), cpu: cpu.map(middle) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use siskin_methods::gp::cdkt::{InferenceName, ObjectiveName};

    #[test]
    fn every_part_is_timed_and_the_operations_are_those_of_the_definition() {
        let case = Case::paper(28, 1);
        let mut seen = 0;
        let report =
            run(&[case], &CdktSettings::default(), DeviceChoice::Cpu, 1, &mut |_| seen += 1).unwrap();
        assert_eq!((seen, report.cases.len()), (1, 1));
        assert!(report.peak_gflop_per_core_second > 0.1);
        let CaseReport { train, test, work, .. } = &report.cases[0];
        let work = work.expect("the default objective has parts");
        assert_eq!((work.steps, work.evaluations >= work.steps), (8, true));
        assert!([work.kernel, work.quadrature, work.algebra].iter().all(|share| (0.0..=1.0).contains(share)));
        assert!((work.kernel + work.quadrature + work.algebra - 1.0).abs() < 1e-9);
        assert_eq!((train.images, test.images), (85, 80));
        for parts in [train, test] {
            for times in [parts.whole, parts.backbone, parts.gp] {
                assert!(times.wall > 0.0 && times.cpu.is_none_or(|cpu| cpu >= 0.0));
            }
            assert!(parts.images_per_second > 0.0 && parts.gflop_per_core_second > 0.0);
        }
        // 28 x 28, 1 -> 64; 14, 7, 3: 64 -> 64.
        let (first, rest) = (784.0 * 1152.0, (196.0 + 49.0 + 9.0) * 73728.0);
        assert!((train.gflop - 85e-9 * (2.0 * first + 3.0 * rest)).abs() < 1e-9);
        assert!((test.gflop - 80e-9 * (first + rest)).abs() < 1e-9);
    }

    #[test]
    fn any_shape_and_objective_is_timed() {
        let case = Case { way: 3, shot: 2, train_query: 4, test_query: 2, ..Case::paper(28, 1) };
        let mut settings = CdktSettings { steps: 3, ..CdktSettings::default() };
        for (objective, inference, steps) in [
            (ObjectiveName::Predictive, InferenceName::Joint, Some(3)),
            (ObjectiveName::Direct, InferenceName::Collapsed, Some(3)),
            (ObjectiveName::Elbo, InferenceName::Paper, None),
        ] {
            (settings.objective, settings.inference) = (objective, inference);
            let report = run(&[case], &settings, DeviceChoice::Cpu, 1, &mut |_| {}).unwrap();
            let CaseReport { train, test, work, way, .. } = &report.cases[0];
            assert_eq!((train.images, test.images, *way), (18, 12, 3));
            assert_eq!(work.map(|work| work.steps), steps, "{objective:?}");
        }
    }
}
