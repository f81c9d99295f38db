//! Classes and examples come and go: the network sees only what is new, the head is fitted again.

use crate::classifier::{Examples, TaskClassifier};
use crate::error::{Error, Result};
use crate::labelled_images::LabelledImages;
use siskin_methods::{Features, select};
use siskin_model::Model;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

impl TaskClassifier {
    /// The task with more examples, of its classes or of new ones. An example of the same name and class takes the place of the
    /// old one.
    pub fn with_examples(
        &self,
        model: &Model,
        more: &LabelledImages,
        stop: &Arc<AtomicBool>,
    ) -> Result<TaskClassifier> {
        self.check_model(model)?;
        let new = model.embed_until(more.examples().iter().map(|e| &e.view), stop)?;
        self.with_embedded(model, more, new, stop)
    }

    /// [`TaskClassifier::with_examples`] whose features are known, by [`LabelledImages::features`].
    pub fn with_embedded(
        &self,
        model: &Model,
        more: &LabelledImages,
        new: Features,
        stop: &Arc<AtomicBool>,
    ) -> Result<TaskClassifier> {
        self.check_model(model)?;
        let mut all = self.labelled();
        all.other_kind |= model.mismatch(more.examples().iter().map(|e| &e.view.look)).is_some();
        for example in more.examples() {
            let class = &more.classes()[example.class];
            let label = all.classes.iter().position(|name| name == class).unwrap_or(all.classes.len());
            if label == all.classes.len() {
                all.classes.push(class.clone());
            }
            all.remove(|name, old| name == example.name && old == label);
            all.labels.push(label);
            all.names.push(example.name.clone());
            // Its features follow below: those of all new examples stand at the end.
        }
        all.features.values.extend(new.values);
        all.features.rows += new.rows;
        TaskClassifier::adapt_features(model, all, &self.title, stop)
    }

    /// The task without a class and its examples.
    pub fn without_class(
        &self,
        model: &Model,
        class: &str,
        stop: &Arc<AtomicBool>,
    ) -> Result<TaskClassifier> {
        self.check_model(model)?;
        let Some(gone) = self.classes.iter().position(|name| name == class) else {
            let there = self.classes.join(", ");
            return Err(Error::Support(format!("there is no class `{class}`; there are: {there}")));
        };
        let mut all = self.labelled();
        all.remove(|_, label| label == gone);
        all.classes.remove(gone);
        all.labels.iter_mut().filter(|label| **label > gone).for_each(|label| *label -= 1);
        TaskClassifier::adapt_features(model, all, &self.title, stop)
    }

    /// The task without one example, by its place. The last example of a class takes the class with it.
    pub fn without_example(
        &self,
        model: &Model,
        index: usize,
        stop: &Arc<AtomicBool>,
    ) -> Result<TaskClassifier> {
        self.check_model(model)?;
        let Some(&label) = self.labels.get(index) else {
            let count = self.labels.len();
            return Err(Error::Support(format!(
                "there is no example {index}; there are {count}, counted from 0"
            )));
        };
        if self.labels.iter().filter(|other| **other == label).count() == 1 {
            return self.without_class(model, &self.classes[label], stop);
        }
        let mut all = self.labelled();
        all.keep(|row| row != index);
        TaskClassifier::adapt_features(model, all, &self.title, stop)
    }

    fn labelled(&self) -> Examples {
        Examples {
            classes: self.classes.clone(),
            names: self.names.clone(),
            labels: self.labels.clone(),
            features: self.features.clone(),
            other_kind: self.calibration.other_kind,
            others: self.others.as_ref().map(|others| others.features.clone()),
        }
    }
}

impl Examples {
    /// Removes the examples that are meant, of those whose features are there.
    fn remove(&mut self, meant: impl Fn(&str, usize) -> bool) {
        let goes: Vec<bool> =
            self.names.iter().zip(&self.labels).map(|(n, &label)| meant(n, label)).collect();
        let known = self.features.rows;
        self.keep(|row| row >= known || !goes[row]);
    }

    /// Keeps some of the examples.
    fn keep(&mut self, stays: impl Fn(usize) -> bool) {
        let kept: Vec<usize> = (0..self.labels.len()).filter(|&row| stays(row)).collect();
        if kept.len() == self.labels.len() {
            return;
        }
        let with_features: Vec<usize> =
            kept.iter().copied().filter(|row| *row < self.features.rows).collect();
        self.names = kept.iter().map(|&row| self.names[row].clone()).collect();
        self.labels = kept.iter().map(|&row| self.labels[row]).collect();
        self.features = match with_features.is_empty() {
            true => Features { values: Vec::new(), rows: 0, dim: self.features.dim },
            false => select(&self.features, &with_features),
        };
    }
}
