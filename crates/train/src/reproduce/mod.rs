//! The paper's tables as plans: which runs a table needs, what they cost, what became of them, and the table itself with the
//! paper's figures beside ours.
//!
//! `paper.toml` has the paper's figures. [`configs`] makes the config files of `configs/paper`; a test compares them, and
//! `siskin reproduce --write-configs configs/paper` writes them.

mod cdkt_row;
mod cell_text;
mod cost;
mod csv;
mod generate;
mod methods;
mod paper;
mod plan;
mod record;
mod scenario;
mod state;
mod table;

pub use cost::{Cost, PhaseCost, Times, Timing, predict};
pub use generate::{PaperConfig, configs};
pub use paper::{Cell, Column, Measure, PaperRow, PaperTable, table, tables};
pub use plan::{Plan, PlanOptions, PlannedRun, shell_word};
pub use record::{Finished, Record};
pub use state::State;
