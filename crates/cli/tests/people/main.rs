//! `siskin adapt`, `predict` and `serve` as a person or a program meets them, with the embedded model.

mod attacked;
mod folders;
mod helpers;
mod hostile;
mod kinds;
mod networks;
mod served;
mod server;
mod traps;
