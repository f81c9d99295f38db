//! Variational inference of the latent functions of one task.

mod sites;

pub use sites::{Map, MarginalsBar, Sites, SitesBar};
