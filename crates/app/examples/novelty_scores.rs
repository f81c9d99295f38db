//! Which score says best that a query is of none of a task's classes? On validation classes of a run.
//!
//! `cargo run --release -p siskin-app --example novelty_scores runs/omniglot`

use siskin_data::{Cache, OnBadImage, Opener, Silent};
use std::path::PathBuf;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let run = PathBuf::from(std::env::args().nth(1).ok_or("give a run folder")?);
    let folder = std::env::var_os("SISKIN_CACHE").map(PathBuf::from).or_else(Cache::default_folder);
    let cache = Cache::new(folder.ok_or("set SISKIN_CACHE")?);
    let opener = Opener {
        cache: &cache,
        on_bad: OnBadImage::Error,
        shorter_side: Some(siskin_data::open::SHORTER_SIDE),
        progress: &Silent,
    };
    for (way, shot) in [(2, 1), (5, 1), (5, 2), (5, 5), (10, 5), (20, 1)] {
        println!("{way} classes, {shot} each");
        for score in siskin_app::export::compare_novelty(&run, (way, shot), &opener)?.unwrap_or_default() {
            println!(
                "  {:30} AUROC {:.3}   95 % of members below {:7.3}",
                score.name, score.auroc, score.limit
            );
        }
    }
    Ok(())
}
