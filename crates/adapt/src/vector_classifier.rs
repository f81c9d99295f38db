//! A classifier of many vectors with the names of their classes, as a file: what `siskin fit` makes. Few vectors, with "none of
//! these" and nearest examples, are a task ([`crate::TaskClassifier::adapt_vectors`]).

use crate::answer::NamedAnswer;
use crate::error::{Error, Result};
use crate::sealed::Kind;
use crate::suggest::{Advice, NextLabel};
use serde::{Deserialize, Serialize};
use siskin_data::Embeddings;
use siskin_gp::active::Criterion;
use siskin_gp::classifier::{GpClassifier, KernelByName, Learned, balanced};
use siskin_gp::faer::{Mat, MatRef};
use siskin_gp::left_out::LeaveOneOut;
use siskin_methods::{Features, matrix};
use std::path::Path;

const KIND: Kind = Kind { key: "siskin-vectors", version: 1, made_by: "siskin fit VECTORS" };

/// A classifier of vectors that knows what its classes are called.
#[derive(Debug, Clone)]
pub struct VectorClassifier {
    about: About,
    classifier: GpClassifier,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct About {
    classes: Vec<String>,
    counts: Vec<usize>,
    width: usize,
}

/// How it is fitted.
#[derive(Debug, Clone, Default)]
pub struct VectorSettings {
    /// The kernel.
    pub kernel: KernelByName,
    /// Every class the same part.
    pub balanced: bool,
    /// How often each row of the file counts.
    pub weights: Option<Vec<f64>>,
}

/// How it answers.
#[derive(Debug, Clone)]
pub struct VectorRules {
    /// The chance with which a set holds the true class.
    pub level: f64,
    /// Whether that holds for the rows of each class.
    pub by_class: bool,
    /// The shares of the classes where it is used, if they are not those of the rows it has learned from.
    pub class_prior: Option<Vec<f64>>,
}

impl VectorClassifier {
    /// Fits `classifier` (its settings, its progress, its flag that ends it) to labelled vectors.
    pub fn fit(
        mut classifier: GpClassifier,
        vectors: &Embeddings,
        settings: &VectorSettings,
    ) -> Result<VectorClassifier> {
        let used: Vec<_> = vectors.classes.iter().filter(|class| !class.images.is_empty()).collect();
        let y: Vec<usize> =
            used.iter().enumerate().flat_map(|(c, class)| class.images.clone().map(move |_| c)).collect();
        let x = Mat::from_fn(vectors.len(), vectors.dim(), |i, j| f64::from(vectors.vector(i)[j]));
        let weights = weights(settings, vectors, &y)?;
        classifier.fit_named(&settings.kernel, x.as_ref(), &y, weights.as_deref())?;
        let about = About {
            classes: used.iter().map(|class| class.name.clone()).collect(),
            counts: used.iter().map(|class| class.images.len()).collect(),
            width: vectors.dim(),
        };
        Ok(VectorClassifier { about, classifier })
    }

    /// What is said of vectors, row by row.
    pub fn answer(&self, queries: &Features, rules: &VectorRules) -> Result<Vec<NamedAnswer>> {
        let x: MatRef<'_, f64> = matrix(queries);
        let at = self.classifier.predictions(x)?;
        // Only sets by class hold whatever the shares of the classes are.
        let by_class = rules.by_class || rules.class_prior.is_some();
        let sets = self.classifier.sets_of(&at, rules.level, by_class)?;
        let at = match &rules.class_prior {
            Some(prior) => self.classifier.under(at, prior)?,
            None => at,
        };
        let (best, classes) = (at.classes(), self.about.classes.len());
        let one = |(i, set): (usize, Vec<usize>)| NamedAnswer {
            label: Some(self.about.classes[best[i]].clone()),
            none_of_these: false,
            probability: Some(at.probs[(i, best[i])]),
            probabilities: (0..classes).map(|c| (self.about.classes[c].clone(), at.probs[(i, c)])).collect(),
            set: set.into_iter().map(|c| self.about.classes[c].clone()).collect(),
            entropy: at.entropy[i],
            latent_variance: (0..classes).map(|c| at.var[(i, c)]).sum::<f64>() / classes as f64,
            strangers_found: None,
            nearest: Vec::new(),
        };
        Ok(sets.into_iter().enumerate().map(one).collect())
    }

    /// At most `count` vectors of a pool whose labels would tell the most, unlike each other.
    pub fn suggest(&self, pool: &Features, count: usize, by: Criterion) -> Result<Vec<NextLabel>> {
        let found = self.classifier.suggest(matrix(pool), count, by)?;
        Ok(found.iter().map(|s| NextLabel { index: s.row, score: s.score }).collect())
    }

    /// Whether more labels would change little; `None` where a class has one row. An error where there are inducing points.
    pub fn advice(&self) -> Result<Option<Advice>> {
        Ok(self.classifier.stopping()?.map(Advice::from))
    }

    /// Names of the classes, and how many rows each had.
    pub fn classes(&self) -> impl Iterator<Item = (&str, usize)> {
        self.about.classes.iter().map(String::as_str).zip(self.about.counts.iter().copied())
    }

    /// Length of a vector.
    pub fn width(&self) -> usize {
        self.about.width
    }

    /// What was learned.
    pub fn learned(&self) -> Result<&Learned> {
        Ok(self.classifier.learned()?)
    }

    /// The name of its kernel.
    pub fn kernel(&self) -> Result<String> {
        Ok(self.classifier.fitted_kernel()?.form.name().to_string())
    }

    /// How rows came off that were left out.
    pub fn leave_one_out(&self) -> Result<Option<LeaveOneOut>> {
        Ok(self.classifier.leave_one_out()?)
    }

    /// Writes it to a file: the old one or the new one, never a part.
    pub fn save(&self, path: &Path) -> Result<()> {
        KIND.save(path, &self.about, &self.classifier.to_bytes()?)
    }

    /// Reads such a file; `None` if it is of another kind.
    pub fn load(path: &Path) -> Result<Option<VectorClassifier>> {
        let Some((about, bytes)) = KIND.load::<About>(path)? else { return Ok(None) };
        let classifier = GpClassifier::from_bytes(&bytes, path)?;
        let known = classifier.learned()?.shares.len();
        if known != about.classes.len() {
            let why = format!("it names {} classes and knows {known}", about.classes.len());
            return Err(Error::Task { name: path.display().to_string(), why });
        }
        Ok(Some(VectorClassifier { about, classifier }))
    }
}

/// How often each vector counts, in the order of the classes; none: once.
fn weights(settings: &VectorSettings, vectors: &Embeddings, y: &[usize]) -> Result<Option<Vec<f64>>> {
    let own = match &settings.weights {
        None => None,
        Some(given) if given.len() == vectors.len() => {
            Some((0..vectors.len()).map(|i| given[vectors.source_row(i)]).collect::<Vec<f64>>())
        }
        Some(given) => {
            let why = format!("there are {} weights for {} vectors", given.len(), vectors.len());
            return Err(Error::Support(why));
        }
    };
    if !settings.balanced {
        return Ok(own);
    }
    let mut all = balanced(y)?;
    if let Some(own) = own {
        all.iter_mut().zip(own).for_each(|(weight, own)| *weight *= own);
    }
    Ok(Some(all))
}
