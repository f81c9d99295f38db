//! Statistics of images, to choose the thresholds of "drawing" and "photo" by.
//!
//! `cargo run --release -p siskin-adapt --example looks FOLDER...`

use siskin_adapt::{Look, decode};
use std::path::{Path, PathBuf};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    for folder in std::env::args().skip(1) {
        let mut files = Vec::new();
        collect(Path::new(&folder), &mut files)?;
        files.sort();
        let step = files.len().div_ceil(2000).max(1);
        let mut looks = Vec::new();
        for path in files.iter().step_by(step) {
            match decode(&std::fs::read(path)?) {
                Ok(image) => looks.push(Look::of(&image.as_ref())),
                Err(why) => eprintln!("{}: {why}", path.display()),
            }
        }
        let photos = looks.iter().filter(|l| l.is_photo()).count();
        println!("{folder}: {} images, {photos} look like photos", looks.len());
        for (name, of) in [
            ("coloured", (|l| l.coloured) as fn(&Look) -> f64),
            ("mid_grey", |l| l.mid_grey),
            ("background", |l| l.background),
            ("its level", |l| l.background_level),
        ] {
            let mut values: Vec<f64> = looks.iter().map(of).collect();
            values.sort_by(f64::total_cmp);
            let at = |share: f64| values[((values.len() - 1) as f64 * share) as usize];
            let quantiles =
                [0.0, 0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 1.0].map(|q| format!("{:.3}", at(q)));
            println!("  {name:10} 0 1 5 25 50 75 95 99 100 %: {}", quantiles.join(" "));
        }
    }
    Ok(())
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else if path
            .extension()
            .is_some_and(|e| ["png", "jpg", "jpeg", "pgm"].contains(&e.to_string_lossy().as_ref()))
        {
            files.push(path);
        }
    }
    Ok(())
}
