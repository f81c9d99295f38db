//! A task as one page: its classes with the examples as the network sees them, and how far its answers can be trusted.

use siskin_adapt::{EMBEDDED, LabelledImages, Rules, TaskClassifier};
use siskin_data::shell::quoted;
use siskin_train::plot::{EpisodePlot, PlotClass, Report, ReportBlock, Section, Thumbnail};
use std::path::Path;

/// The images that can be shown: a task keeps numbers, no photos.
pub(super) struct Photos<'a> {
    /// Examples, and the side of their images.
    of: Option<(&'a LabelledImages, u32)>,
    /// What is said of them.
    caption: &'static str,
}

impl<'a> Photos<'a> {
    /// All examples of a new task; none of vectors.
    pub(super) fn of(of: Option<(&'a LabelledImages, u32)>) -> Photos<'a> {
        Photos { of, caption: "The examples as the network sees them." }
    }

    /// Those that were added to a task.
    pub(super) fn added(of: Option<(&'a LabelledImages, u32)>) -> Photos<'a> {
        let caption = match of {
            Some(_) => {
                "The examples that were added, as the network sees them. Of those before there are no images here: a task keeps numbers, no photos."
            }
            None => "A task keeps numbers, no photos: where it was changed, its page has none.",
        };
        Photos { of, caption }
    }
}

/// Writes the page of `task`, which lies at `file`.
pub(super) fn write(
    page: &Path,
    file: &Path,
    task: &TaskClassifier,
    photos: Photos<'_>,
) -> anyhow::Result<()> {
    let mut sections = vec![in_short(task), classes(task, photos)?];
    sections.push(Section { heading: "Next".into(), blocks: vec![ReportBlock::Code(next(file, task))] });
    let subtitle = match task.model() {
        Some(model) => format!("{} classes by the model {}", task.classes().len(), model.name),
        None => format!("{} classes of vectors of {} numbers", task.classes().len(), task.width()),
    };
    let title = format!("Task {}", file.file_stem().unwrap_or_default().to_string_lossy());
    siskin_train::atomic::write(page, Report { title, subtitle, sections }.html().as_bytes())?;
    Ok(())
}

/// Commands that go on from here.
fn next(file: &Path, task: &TaskClassifier) -> String {
    let predict = format!("siskin predict {}", quoted(file));
    match task.model() {
        None => format!("{predict} VECTORS.npy"),
        // The server has the embedded models without being told.
        Some(model) if EMBEDDED.iter().any(|(name, _)| *name == model.name) => {
            format!("{predict} IMAGE...\nsiskin serve")
        }
        Some(model) => {
            format!("{predict} IMAGE...\nsiskin serve --model {}", quoted(Path::new(&model.origin)))
        }
    }
}

fn in_short(task: &TaskClassifier) -> Section {
    let known = task.calibration();
    let mut figures = vec![
        (task.classes().len().to_string(), "classes".into()),
        (task.labels().len().to_string(), "examples".into()),
    ];
    if let Some(left_out) = &known.left_out {
        let what = "left-out examples were recognised by the others".into();
        figures.push((format!("{} of {}", left_out.right, left_out.of), what));
    }
    let mut blocks = vec![ReportBlock::Figures(figures), ReportBlock::Text(known.sentence())];
    if let Ok(found) = task.thresholds(&Rules::default()) {
        let notes = found.notes().iter().map(String::as_str).chain(found.expectation());
        blocks.extend(notes.map(|note| ReportBlock::Text(note.into())));
    }
    Section { heading: "In short".into(), blocks }
}

fn classes(task: &TaskClassifier, photos: Photos<'_>) -> anyhow::Result<Section> {
    let count = |c: usize| task.labels().iter().filter(|&&label| label == c).count();
    let rows = task.classes().iter().enumerate().map(|(c, name)| vec![name.clone(), count(c).to_string()]);
    let head = ["class", "examples"].map(String::from).to_vec();
    let mut blocks = vec![ReportBlock::Table { head, rows: rows.collect() }];
    if let Some((support, side)) = photos.of {
        let of = |c: usize| {
            let images = support.examples().iter().filter(|e| e.class == c).map(|e| {
                let image = e.view.picture(side);
                Thumbnail { width: image.width, height: image.height, pixels: image.pixels }
            });
            PlotClass { name: support.classes()[c].clone(), support: images.collect() }
        };
        let classes = (0..support.classes().len()).map(of).collect();
        let plot = EpisodePlot { classes, queries: Vec::new() };
        blocks.push(ReportBlock::Charts { svgs: plot.classes()?, caption: photos.caption.into() });
    } else if task.model().is_some() {
        blocks.push(ReportBlock::Text(photos.caption.into()));
    }
    Ok(Section { heading: "Classes".into(), blocks })
}
