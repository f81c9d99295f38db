//! The checkers of golden values, one for each file of a folder.

mod arrays;
mod blocks;
mod collapsed;
mod comparators;
mod direct;
mod gradients;
mod integrals;
mod kernels;
mod likelihood;
mod meanfield;
mod pipeline;
mod pl_gradient;
mod polya_gamma;
mod predict;
mod problem;
pub(crate) mod report;
mod special;

use std::path::Path;

use report::Report;

/// Checks one file; an error means that the file does not follow its schema.
pub(crate) type Checker = fn(&str, &mut Report) -> Result<(), serde_json::Error>;

/// The checkers of a file, by the file's name without `.json`.
fn checkers(stem: &str) -> &'static [Checker] {
    match stem {
        "blocks" => &[blocks::check],
        "comparators" => &[comparators::check],
        "gradients" => &[gradients::check],
        "kernels" => &[kernels::check],
        "likelihood" => &[likelihood::check],
        "meanfield" => &[meanfield::check],
        "pipeline" => &[pipeline::check],
        "pl_gradient" => &[pl_gradient::check],
        "polya_gamma" => &[polya_gamma::check],
        "predict" => &[predict::check],
        "special" => &[special::check],
        "tight_bounds" => &[collapsed::check, integrals::check, direct::check, pl_gradient::check_tight],
        _ => &[],
    }
}

/// Checks every `.json` file of a folder; `more` knows files of other crates.
pub(crate) fn check_folder(folder: &Path, more: &[(&str, Checker)]) -> Report {
    let mut report = Report::default();
    match json_files(folder) {
        Ok(files) if !files.is_empty() => files.iter().for_each(|file| check_file(file, more, &mut report)),
        Ok(_) => report.failure(&format!("{}: no .json file in this folder", folder.display())),
        Err(error) => report.failure(&format!("{}: {error}", folder.display())),
    }
    report
}

fn json_files(folder: &Path) -> std::io::Result<Vec<std::path::PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|e| e == "json") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn check_file(path: &Path, more: &[(&str, Checker)], report: &mut Report) {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let mut checkers = checkers(&stem).to_vec();
    checkers.extend(more.iter().filter(|(name, _)| *name == stem).map(|(_, check)| *check));
    if checkers.is_empty() {
        report.unknown(&path.display().to_string());
        return;
    }
    match std::fs::read_to_string(path) {
        Ok(text) => {
            for check in checkers {
                if let Err(error) = check(&text, report) {
                    report.failure(&format!("{stem}: the file does not follow its schema: {error}"));
                }
            }
        }
        Err(error) => report.failure(&format!("{}: {error}", path.display())),
    }
}
