//! Leaving labelled points out: what the others say of them.
//!
//! | way | what is left out | cost | who asks |
//! | --- | --- | --- | --- |
//! | cavity of a point (`one.rs`) | its site | nothing beyond the posterior | sets of classes, where the bound was climbed |
//! | cavity of a fold (`fold.rs`) | the sites of a few points together | one small solve for each fold and class | classifiers of images |
//! | refit (`classifier/learn/folds.rs`) | the points themselves | one inference for each fold | hyperparameters of vectors |
//!
//! Which points go together is chosen in `choice.rs`: a point whose class has no other member is never left out, for nothing could
//! predict it.

mod choice;
mod fold;
mod one;

pub(crate) use choice::dealt;
pub use choice::one_of_each_class;
pub use one::LeaveOneOut;
pub(crate) use one::{leave_one_out, leave_one_out_of};
