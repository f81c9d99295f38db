//! A classifier from a handful of labelled images: a trained model, adapted to a task, asked for calibrated answers.
//!
//! ```no_run
//! use siskin_adapt::{Intake, Model, Rules, LabelledImages, TaskClassifier};
//!
//! let model = Model::open("omniglot-conv4s")?; // embedded; or a run folder, or an exported file
//! let intake = Intake::default(); // bounds on pixels and memory
//! let support = LabelledImages::read("letters".as_ref(), siskin_data::OnBadImage::Error, &model, &intake)?;
//! let task = TaskClassifier::adapt(&model, &support, "letters")?;
//! println!("{}", task.calibration().sentence());
//! task.save("letters.task".as_ref())?;
//!
//! let view = intake.view_file(&model, "what.png".as_ref()).unwrap();
//! let thresholds = task.thresholds(&Rules::default())?;
//! let answer = &task.answer(&model.embed(&[view])?, &thresholds)?[0];
//! println!("{} {:.2} {:?}", task.classes()[answer.label], answer.probability(), answer.set);
//! # Ok::<(), siskin_adapt::Error>(())
//! ```
//!
//! | question | file |
//! | --- | --- |
//! | What images may come in? | `intake.rs`, `inputs.rs` |
//! | From labelled images to a classifier? | `labelled_images.rs`, `classifier.rs`, `fitted.rs` |
//! | How do classes and examples come and go? | `change.rs` |
//! | What will it cost? | `cost.rs` |
//! | How sure may it be? | `calibration.rs`, `held_out.rs`, `tempering.rs`, `measure.rs` |
//! | What if classes have unequal numbers of examples? | `balance.rs`, `unequal.rs` |
//! | Are the images like those the model was validated on? | `shift.rs` |
//! | Which classes are possible? | `sets.rs` |
//! | Is it none of these? | `none_of_these/` |
//! | Which images to label next? | `suggest.rs` |
//! | What is said of an image? | `answer.rs`, `rules.rs` |
//! | What if an image stands in several classes? | `label_sets.rs` |
//! | How is it kept? | `task_file.rs`, `former_task.rs` |
//! | From images to a file of vectors? | `vectors/` |

mod answer;
mod balance;
mod binomial;
mod calibration;
mod change;
mod choice;
mod classifier;
mod cost;
mod error;
mod fitted;
mod former_task;
mod held_out;
mod inputs;
mod intake;
mod label_sets;
mod labelled_images;
mod measure;
mod none_of_these;
mod rules;
mod sealed;
mod sets;
mod shift;
mod suggest;
mod task_file;
mod tempering;
pub mod unequal;
mod vector_classifier;
mod vectors;

/// For the fuzz targets.
#[doc(hidden)]
pub mod fuzzing {
    /// A task file as if its checksum were right.
    pub fn unsealed_task(bytes: &[u8]) -> crate::Result<crate::TaskClassifier> {
        crate::TaskClassifier::parse(bytes, "fuzz", false)
    }

    /// Whether a task file of label sets can be used; `sealed`: its checksum must fit.
    pub fn label_sets(bytes: &[u8], sealed: bool) -> crate::Result<bool> {
        crate::LabelSetTask::parse(bytes, "fuzz", sealed).map(|task| task.is_some())
    }
}

pub use answer::{Answer, NamedAnswer, Neighbour};
pub use calibration::{LeftOut, TaskCalibration};
pub use choice::{look_every, looks_of};
pub use classifier::{Examples, ModelRef, TaskClassifier};
pub use cost::{FitLimits, Shape};
pub use error::{Error, Result};
pub use inputs::{Input, Inputs, decode, from_pixels};
pub use intake::Intake;
pub use label_sets::{LabelSetTask, SetAnswer, label_sets};
pub use labelled_images::{Example, LabelledImages, title_of};
pub use measure::{Measured, ValidationEpisode};
pub use none_of_these::novelty::NoveltyScore;
pub use none_of_these::others::read_others;
pub use rules::{Rules, Thresholds, percent};
pub use shift::feature_facts;
pub use siskin_data::Image;
pub use siskin_gp::active::Criterion;
pub use siskin_methods::Features;
pub use siskin_model::Error as ModelError;
pub use siskin_model::foreign;
pub use siskin_model::{
    Card, DeviceChoice, EMBEDDED, FeatureFacts, Look, Looks, Mismatch, Model, ModelHead, ShapeFacts,
    TestFacts, View, unit,
};
pub use suggest::{Advice, NextLabel};
pub use vector_classifier::{VectorClassifier, VectorRules, VectorSettings};
pub use vectors::{EmbedDone, EmbedJob};
