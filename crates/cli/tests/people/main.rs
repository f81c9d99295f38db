//! `siskin adapt`, `predict` and `serve` as a person or a program meets them, with the embedded model.

mod attacked;
mod changes;
mod drawings;
mod folders;
mod hostile;
mod kinds;
mod labels;
mod networks;
mod served;
mod server;
#[path = "../support/mod.rs"]
mod support;
mod tables;
mod traps;
