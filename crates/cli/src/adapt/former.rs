//! What stands where a task shall be written: what would be lost with it is not replaced without being asked to.

use anyhow::bail;
use siskin_adapt::{LabelSetTask, Model, TaskClassifier};
use siskin_data::shell::quoted;
use std::path::Path;

/// Names listed at most.
const NAMED: usize = 5;

/// The task that is about to be written.
pub(super) struct New<'a> {
    /// What it is made of, as it was given.
    pub examples: &'a Path,
    /// Names of its classes or labels.
    pub classes: &'a [String],
    /// Its model; none for vectors.
    pub model: Option<&'a Model>,
    /// Whether somebody named the model.
    pub model_named: bool,
    /// Whether it has label sets.
    pub sets: bool,
    /// Whether others of the same kind stand beside it.
    pub others: bool,
}

/// What should be said of the file that is replaced; an error where something would be lost that the new task does not have.
pub(super) fn replaced(file: &Path, new: &New<'_>) -> anyhow::Result<Option<String>> {
    if !file.exists() {
        return Ok(None);
    }
    let shown = file.display();
    let cure = "--replace replaces it all the same, --out FILE writes elsewhere";
    match (LabelSetTask::load(file), TaskClassifier::load(file)) {
        (Ok(Some(old)), _) => {
            if !new.sets {
                bail!("{shown} is a task of label sets: with --label-sets it stays one; {cure}.");
            }
            lost(file, new, &old.labels().map(|(name, _)| name.to_owned()).collect::<Vec<_>>(), cure)?;
            Ok(None)
        }
        (_, Ok(old)) => {
            lost(file, new, old.classes(), cure)?;
            if old.others() > 0 && !new.others {
                bail!(
                    "{shown} has {} other images beside its classes (--others), which would be lost. Give them again; {cure}.",
                    old.others()
                );
            }
            other_model(file, new, &old, cure)
        }
        (_, Err(why)) => bail!("{shown} is there, and is nothing that can be made again: {why}. {cure}."),
    }
}

/// Refuses to lose classes.
fn lost(file: &Path, new: &New<'_>, old: &[String], cure: &str) -> anyhow::Result<()> {
    let lost: Vec<&str> =
        old.iter().filter(|class| !new.classes.contains(class)).map(String::as_str).collect();
    if lost.is_empty() {
        return Ok(());
    }
    let more = if lost.len() > NAMED { format!(" and {} more", lost.len() - NAMED) } else { String::new() };
    let (shown, examples) = (file.display(), new.examples.display());
    let add = match new.sets {
        true => String::new(),
        false => format!("To add to it: siskin adapt --add {} --to {}; ", quoted(new.examples), quoted(file)),
    };
    bail!(
        "{shown} knows classes that {examples} does not have and that would be lost: {}{more}. {add}{cure}.",
        lost[..lost.len().min(NAMED)].join(", ")
    )
}

/// Refuses another model that nobody named; of one that was named it is said.
fn other_model(
    file: &Path,
    new: &New<'_>,
    old: &TaskClassifier,
    cure: &str,
) -> anyhow::Result<Option<String>> {
    let before = match (old.model(), new.model) {
        (Some(old), Some(new)) if !new.has_hash(&old.hash) => old,
        _ => return Ok(None),
    };
    let (shown, now) = (file.display(), new.model.map_or("", Model::name));
    match new.model_named {
        true => Ok(Some(format!("{shown} was made with {} before", before.name))),
        false => bail!(
            "{shown} was made with the model {}, and now it would be {now}: name the model, --model {} or --model {now}; {cure}.",
            before.name,
            quoted(&before.origin)
        ),
    }
}
