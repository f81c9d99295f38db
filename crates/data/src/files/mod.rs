//! Files that several processes may touch, and that may end at any moment: every crate above writes, locks and reads by these.
//!
//! | question | file |
//! | --- | --- |
//! | How is a file written so that it is there whole or not at all? | `draft.rs` |
//! | How do two processes keep off each other's folder? | `lock.rs` |
//! | How is a file opened where somebody else may have put a link or a pipe? | `open.rs` |
//! | How is a file read that somebody else named? | `read.rs` |

mod draft;
mod lock;
mod open;
mod read;

pub use draft::{Draft, sweep, write, write_private};
pub use lock::Lock;
pub use open::open;
pub use read::read;
