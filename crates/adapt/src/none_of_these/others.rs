//! Other images of the same kind, of no class and without labels: what surrounds the classes of a task.
//!
//! The examples alone say little about where their classes end, for what tells them from everything else is in all of them. Seen from the
//! mean of other images of the same kind, directions are those in which things of that kind differ, and strangers lie further from the
//! classes than seen from the mean of the examples (docs/photos.md compares).

use crate::classifier::TaskClassifier;
use crate::error::{Error, Result};
use crate::fitted::Raw;
use crate::inputs::Inputs;
use crate::intake::Intake;
use crate::none_of_these::strangeness::APART;
use rayon::prelude::*;
use siskin_data::OnBadImage;
use siskin_data::fault::BadFile;
use siskin_gp::left_out::one_of_each_class;
use siskin_methods::Features;
use siskin_model::{Model, View};
use std::path::PathBuf;

/// With fewer their mean is hardly known.
const LEAST: usize = 10;
/// More are not read: on validation classes 1,000 found no more strangers than 200.
const MOST: usize = 200;
/// Distances below this are as good as none.
const NEAR: f64 = 1e-9;

/// The others of a task, with the directions of its classes as seen from their mean.
#[derive(Debug, Clone)]
pub(crate) struct Others {
    pub features: Features,
    seen: Seen,
}

/// A place to look from, and the directions in which the classes lie, of length 1.
#[derive(Debug, Clone)]
struct Seen {
    from: Vec<f64>,
    classes: Vec<Vec<f64>>,
}

/// Labelled examples.
#[derive(Clone, Copy)]
pub(crate) struct Labelled<'a> {
    pub features: &'a Features,
    pub labels: &'a [usize],
    pub classes: usize,
}

impl Others {
    /// Of at least ten.
    pub(crate) fn new(features: Features, examples: Labelled<'_>) -> Result<Others> {
        if features.values.iter().any(|v| !v.is_finite()) {
            return Err(Error::Support("a feature of another image is not a finite number".into()));
        }
        if features.rows < LEAST {
            let why = format!("{} other images were given; at least {LEAST} are needed", features.rows);
            return Err(Error::Support(why));
        }
        let seen = Seen::new(mean(&features, |_| true), examples, &[]);
        Ok(Others { features, seen })
    }

    /// Completes the facts about queries.
    pub(crate) fn complete(&self, raw: &mut Raw, queries: &Features) {
        for (facts, x) in raw.facts.iter_mut().zip(queries.values.chunks_exact(queries.dim)) {
            facts[APART] = self.seen.apart(x);
        }
    }

    /// How strange the examples look, each without its fold.
    fn of_examples(&self, examples: Labelled<'_>) -> Vec<f64> {
        let folds = one_of_each_class(examples.labels, examples.classes);
        let of_fold = |fold: &Vec<usize>| {
            let seen = Seen::new(self.seen.from.clone(), examples, fold);
            fold.iter().map(|&i| seen.apart(row(examples.features, i))).collect::<Vec<f64>>()
        };
        folds.iter().flat_map(of_fold).collect()
    }

    /// How strange the others themselves look, each seen from the mean of the rest.
    fn of_themselves(&self, examples: Labelled<'_>) -> Vec<f64> {
        let one = |i: usize| {
            let seen = Seen::new(mean(&self.features, |other| other != i), examples, &[]);
            seen.apart(row(&self.features, i))
        };
        (0..self.features.rows).into_par_iter().map(one).collect()
    }
}

impl Seen {
    /// `without`: the examples that do not count.
    fn new(from: Vec<f64>, examples: Labelled<'_>, without: &[usize]) -> Seen {
        let of_class = |class: usize| {
            let own = |i: usize| examples.labels[i] == class && !without.contains(&i);
            let mean = mean(examples.features, own);
            direction(&mean, &from)
        };
        let classes = (0..examples.classes).map(of_class).collect();
        Seen { from, classes }
    }

    /// Minus the largest cosine with a class.
    fn apart(&self, x: &[f64]) -> f64 {
        let to = direction(x, &self.from);
        let cosines = self.classes.iter().map(|class| dot(class, &to));
        -cosines.fold(f64::NEG_INFINITY, f64::max)
    }
}

impl TaskClassifier {
    /// The task with `others` around it: features of images of the same kind that belong to none of its classes, as far as known. They
    /// carry no labels and change no probability; they say where the classes end, for "none of these", and how many strangers it finds.
    pub fn with_others(mut self, others: Features) -> Result<TaskClassifier> {
        self.check_width(&others)?;
        if self.calibration.validation.is_some() {
            let why = "other images are of no use to this model: its validation classes have said what strangers look like. They help an \
                       added network";
            return Err(Error::Support(why.into()));
        }
        let examples = self.as_labelled();
        let others = Others::new(others, examples)?;
        let (own, around) = (others.of_examples(examples), others.of_themselves(examples));
        self.calibration.beside_others(own, around);
        self.others = Some(others);
        Ok(self)
    }

    /// How many other images it has.
    pub fn others(&self) -> usize {
        self.others.as_ref().map_or(0, |others| others.features.rows)
    }

    pub(crate) fn as_labelled(&self) -> Labelled<'_> {
        Labelled { features: &self.features, labels: &self.labels, classes: self.classes.len() }
    }
}

/// What `model` sees of other images for [`TaskClassifier::with_others`]: files and folders, labels or not. Of many, 200 are taken from all
/// over. Those that cannot be read come second.
pub fn read_others(
    paths: &[PathBuf],
    on_bad: OnBadImage,
    model: &Model,
    intake: &Intake,
) -> Result<(Vec<View>, Vec<BadFile>)> {
    let all = Inputs::new(paths, None).all()?;
    let count = all.len().min(MOST);
    let some: Vec<_> = (0..count).map(|i| all[i * all.len() / count].clone()).collect();
    let read = some.into_par_iter().map(|(path, fault)| {
        let view = fault.map_or_else(|| intake.view_file(model, &path), Err);
        view.map_err(|fault| BadFile { path: path.display().to_string(), fault })
    });
    let (mut views, mut bad) = (Vec::new(), Vec::new());
    for one in read.collect::<Vec<_>>() {
        match one {
            Ok(view) => views.push(view),
            Err(file) if on_bad == OnBadImage::Error => {
                return Err(siskin_data::Error::BadFile { file }.into());
            }
            Err(file) => bad.push(file),
        }
    }
    Ok((views, bad))
}

fn row(features: &Features, i: usize) -> &[f64] {
    &features.values[i * features.dim..(i + 1) * features.dim]
}

/// The mean of some rows.
fn mean(features: &Features, meant: impl Fn(usize) -> bool) -> Vec<f64> {
    let (mut sum, mut count) = (vec![0.0; features.dim], 0.0);
    for i in (0..features.rows).filter(|&i| meant(i)) {
        sum.iter_mut().zip(row(features, i)).for_each(|(sum, v)| *sum += v);
        count += 1.0;
    }
    sum.iter_mut().for_each(|v| *v /= f64::max(count, 1.0));
    sum
}

/// From one point to another, with length 1.
fn direction(to: &[f64], from: &[f64]) -> Vec<f64> {
    let way: Vec<f64> = to.iter().zip(from).map(|(to, from)| to - from).collect();
    let length = dot(&way, &way).sqrt().max(NEAR);
    way.iter().map(|v| v / length).collect()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use siskin_data::Embeddings;

    const DIM: usize = 12;

    /// Vectors of length 1 that share a large part, as features of one kind of thing do: class `c` lies along axis `c`, none of the others.
    fn vectors(rows: &[usize], seed: usize) -> Vec<f32> {
        let noise =
            |i: usize, d: usize| (((i + 31 * seed) * 7919 + d * 104_729) % 1_009) as f32 / 1_009.0 - 0.5;
        let one = |(i, &axis): (usize, &usize)| {
            let raw: Vec<f32> = (0..DIM)
                .map(|d| {
                    f32::from(u8::from(d == axis))
                        + 3.0 * f32::from(u8::from(d == DIM - 1))
                        + 1.2 * noise(i, d)
                })
                .collect();
            let length = raw.iter().map(|v| v * v).sum::<f32>().sqrt();
            raw.into_iter().map(move |v| v / length)
        };
        rows.iter().enumerate().flat_map(one).collect()
    }

    fn features(rows: &[usize], seed: usize) -> Features {
        Features {
            values: vectors(rows, seed).into_iter().map(f64::from).collect(),
            rows: rows.len(),
            dim: DIM,
        }
    }

    fn task() -> TaskClassifier {
        let labels: Vec<usize> = (0..30).map(|i| i / 10).collect();
        let names = (0..3).map(|c| format!("class {c}")).collect();
        TaskClassifier::adapt_vectors(
            &Embeddings::new("task", names, DIM, &vectors(&labels, 1), &labels).unwrap(),
        )
        .unwrap()
    }

    /// Other images move no probability and find more strangers, at the rate that is said; the task file keeps them.
    #[test]
    fn others_say_where_the_classes_end() {
        let (alone, axes) =
            (task(), |from: usize, to: usize| (0..60).map(|i| from + i % (to - from)).collect::<Vec<_>>());
        let beside = alone.clone().with_others(features(&axes(3, 8), 2)).unwrap();
        let found = |task: &TaskClassifier, rows: &[usize], seed| {
            let thresholds = task.thresholds(&crate::Rules::default()).unwrap();
            let answers = task.answer(&features(rows, seed), &thresholds).unwrap();
            let none = answers.iter().filter(|a| a.none_of_these).count();
            (none, answers.into_iter().map(|a| a.probabilities).collect::<Vec<_>>(), thresholds)
        };
        let (members, before, _) = found(&beside, &axes(0, 3), 3);
        let (_, same, _) = found(&alone, &axes(0, 3), 3);
        assert_eq!(before, same);
        let (strangers, _, thresholds) = found(&beside, &axes(8, 11), 4);
        let (fewer, ..) = found(&alone, &axes(8, 11), 4);
        assert!(members <= 8 && strangers >= 50 && strangers > fewer, "{members} {strangers} {fewer}");
        let said = thresholds.strangers_found().unwrap();
        assert!(said > 0.8 && thresholds.expectation().unwrap().contains("60 other images"), "{said}");

        let bytes = beside.to_bytes().unwrap();
        let back = TaskClassifier::from_bytes(&bytes, "test").unwrap();
        assert_eq!((back.others(), back.to_bytes().unwrap() == bytes), (60, true));
        assert_eq!(found(&back, &axes(8, 11), 4).0, strangers);
    }

    #[test]
    fn too_few_or_broken_others_are_refused() {
        let refused = |others: Features| task().with_others(others).unwrap_err().to_string();
        assert!(refused(features(&[4; 9], 2)).contains("9 other images were given; at least 10"));
        assert!(refused(Features { values: vec![0.5; 20], rows: 10, dim: 2 }).contains("2 features"));
        let mut broken = features(&[4; 10], 2);
        broken.values[7] = f64::NAN;
        assert!(refused(broken).contains("not a finite number"));
    }
}
