//! Rows as a table for people. Its columns are as wide as the first batch needs.

use super::printer::{Printer, Row};
use super::{Out, shortened};
use crate::out::{Visible, name};
use siskin_adapt::{NamedAnswer, Neighbour, percent};
use std::io::Write;

/// Widest path and answer shown.
const WIDEST: usize = 40;
/// Classes whose probabilities are shown.
const SHOWN: usize = 5;

/// The table.
pub(super) struct Table<'a> {
    out: Visible<Out<'a>>,
    level: f64,
    /// Whether entropy and latent variance are shown.
    explain: bool,
    widths: Option<[usize; 3]>,
}

impl<'a> Table<'a> {
    pub(super) fn new(out: Out<'a>, level: f64, explain: bool) -> Table<'a> {
        Table { out: Visible(out), level, explain, widths: None }
    }

    fn begin(&mut self, rows: &[Row]) -> std::io::Result<[usize; 3]> {
        let possible = format!("possible ({} %)", percent(self.level));
        let widest = |title: &str, of: &dyn Fn(&Row) -> usize| {
            rows.iter().map(of).max().unwrap_or(0).clamp(title.chars().count(), WIDEST)
        };
        let of_row = |f: fn(&NamedAnswer) -> usize| move |(_, row): &Row| row.as_ref().map_or(0, f);
        let widths = [
            widest("image", &|(path, _)| path.chars().count()),
            widest("answer", &of_row(|row| answer(row).chars().count())),
            widest(&possible, &of_row(|row| row.set.join(", ").chars().count())),
        ];
        let [w0, w1, w2] = widths;
        let more =
            if self.explain { format!("{:>7}  {:>8}  ", "entropy", "variance") } else { String::new() };
        writeln!(
            self.out,
            "{:w0$}  {:w1$}  {:>6}  {possible:w2$}  {more}probabilities",
            "image", "answer", "sure"
        )?;
        Ok(widths)
    }
}

impl Printer for Table<'_> {
    fn batch(&mut self, rows: &[Row]) -> anyhow::Result<()> {
        let [w0, w1, w2] = match self.widths {
            Some(widths) => widths,
            None => self.begin(rows)?,
        };
        self.widths = Some([w0, w1, w2]);
        for (path, row) in rows {
            let path = name(&shortened(path, w0)).into_owned();
            let row = match row {
                Ok(row) => row,
                Err(error) => {
                    writeln!(self.out, "{path:w0$}  error: {error}")?;
                    continue;
                }
            };
            let set = row.set.join(", ");
            let more = match self.explain {
                true => format!("{:>7.3}  {:>8.3}  ", row.entropy, row.latent_variance),
                false => String::new(),
            };
            writeln!(
                self.out,
                "{path:w0$}  {:w1$}  {:>6}  {:w2$}  {more}{}",
                answer(row),
                row.probability.map_or("-".into(), |p| format!("{:.1}%", 100.0 * p)),
                if row.none_of_these { "-".into() } else { clipped(&set, w2) },
                probabilities(row)
            )?;
            for Neighbour { example, class, kernel, .. } in &row.nearest {
                writeln!(self.out, "{:w0$}    kernel {kernel:.3}  {}  {}", "", name(class), name(example))?;
            }
        }
        Ok(self.out.flush()?)
    }

    fn end(&mut self) -> anyhow::Result<()> {
        if self.widths.is_none() {
            writeln!(self.out, "No image was found.")?;
        }
        Ok(self.out.flush()?)
    }
}

fn answer(row: &NamedAnswer) -> String {
    row.label.clone().unwrap_or_else(|| "none of these".into())
}

fn clipped(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.into();
    }
    text.chars().take(width - 1).chain(['…']).collect()
}

/// The largest probabilities, falling; in brackets where it is none of the classes.
fn probabilities(row: &NamedAnswer) -> String {
    let mut all = row.probabilities.clone();
    all.sort_by(|a, b| b.1.total_cmp(&a.1));
    let shown: Vec<String> = all.iter().take(SHOWN).map(|(class, p)| format!("{class} {p:.3}")).collect();
    let rest = if all.len() > SHOWN { format!(", {} more", all.len() - SHOWN) } else { String::new() };
    let text = shown.join(", ") + &rest;
    if row.none_of_these { format!("(were it one of them: {text})") } else { text }
}
