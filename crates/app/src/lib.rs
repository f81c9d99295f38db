//! A classifier from a handful of labelled images: a trained model, adapted to a task, asked for probabilities.
//!
//! ```no_run
//! use siskin_app::{Intake, Model, Rules, Support, Task};
//!
//! let model = Model::open("omniglot-conv4s")?; // embedded; or a run folder, or an exported file
//! let intake = Intake::default(); // bounds on pixels and memory
//! let support = Support::read("letters".as_ref(), siskin_data::OnBadImage::Error, &model, &intake)?;
//! let task = Task::adapt(&model, &support, "letters")?;
//! println!("{}", task.calibration().said());
//! task.save("letters.task".as_ref())?;
//!
//! let view = intake.view_file(&model, "what.png".as_ref()).unwrap();
//! let answer = &task.predict(&model.embed(&[view])?)?[0];
//! let decision = task.rules(&Rules::default())?.decide(answer);
//! println!("{} {:.2} {:?}", task.classes()[answer.label], answer.probability(), decision.set);
//! # Ok::<(), siskin_app::Error>(())
//! ```
//!
//! | question | file |
//! | --- | --- |
//! | What is a model, and where from? | [`Model`], [`Card`], [`export`] |
//! | From labelled images to a classifier? | [`Support`], [`Task::adapt`], [`Task::adapt_vectors`] |
//! | How sure may it be? | [`Calibration`] |
//! | What is this image? | [`Task::predict`], [`Answer`], [`Rules`], [`Decision`] |

mod answer;
mod calibration;
mod card;
mod error;
pub mod export;
mod head;
mod held_out;
mod inputs;
mod intake;
mod look;
mod model;
mod row;
mod store;
mod support;
mod task;
mod view;

pub use answer::{Answer, Decision, Neighbour, Rules, Ruling, percent};
pub use calibration::{Calibration, Origin};
pub use card::{Card, ShapeCalibration, TestFacts};
pub use error::{Error, Result};
pub use inputs::{Input, Inputs, decode, from_pixels};
pub use intake::Intake;
pub use look::{Look, Looks, Mismatch};
pub use model::{EMBEDDED, Model};
pub use row::{Near, Row};
pub use siskin_data::Image;
pub use siskin_methods::Features;
pub use support::{Example, Support, title_of};
pub use task::{ModelRef, Task};
pub use view::View;
