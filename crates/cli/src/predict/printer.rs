//! How rows are printed; JSON lines and CSV.

use super::Out;
use serde::Serialize;
use siskin_adapt::{NamedAnswer, Neighbour};
use std::io::Write;

/// A path and the answer to it, or why there is none.
pub(super) type Row = (String, Result<NamedAnswer, String>);

/// A way to print rows as they come.
pub(super) trait Printer {
    fn batch(&mut self, rows: &[Row]) -> anyhow::Result<()>;
    fn end(&mut self) -> anyhow::Result<()>;
}

/// One JSON object per line.
pub(super) struct JsonLines<'a>(pub Out<'a>);

impl Printer for JsonLines<'_> {
    fn batch(&mut self, rows: &[Row]) -> anyhow::Result<()> {
        for (path, row) in rows {
            let line = match row {
                Err(error) => serde_json::to_string(&Bad { path, error })?,
                Ok(answer) => serde_json::to_string(&Good { path, answer })?,
            };
            writeln!(self.0, "{line}")?;
        }
        Ok(self.0.flush()?)
    }

    fn end(&mut self) -> anyhow::Result<()> {
        Ok(self.0.flush()?)
    }
}

#[derive(Serialize)]
struct Good<'a> {
    path: &'a str,
    #[serde(flatten)]
    answer: &'a NamedAnswer,
}

#[derive(Serialize)]
struct Bad<'a> {
    path: &'a str,
    error: &'a str,
}

/// Comma-separated values. Sets and nearest examples are separated by `;` within their cell.
pub(super) struct Csv<'a> {
    out: csv::Writer<Out<'a>>,
    header: Vec<String>,
    begun: bool,
    explain: bool,
}

impl<'a> Csv<'a> {
    pub(super) fn new(out: Out<'a>, classes: &[String], explain: bool) -> Csv<'a> {
        let fixed = [
            "path",
            "error",
            "label",
            "none_of_these",
            "probability",
            "set",
            "entropy",
            "latent_variance",
            "strangers_found",
        ];
        let mut header: Vec<String> = fixed.map(String::from).to_vec();
        header.extend(explain.then(|| "nearest".to_string()));
        header.extend(classes.iter().map(|class| format!("p {class}")));
        Csv { out: csv::Writer::from_writer(out), header, begun: false, explain }
    }
}

impl Printer for Csv<'_> {
    fn batch(&mut self, rows: &[Row]) -> anyhow::Result<()> {
        if !self.begun {
            self.out.write_record(&self.header)?;
            self.begun = true;
        }
        for (path, row) in rows {
            let row = match row {
                Err(error) => {
                    let mut cells = vec![""; self.header.len()];
                    (cells[0], cells[1]) = (path, error);
                    self.out.write_record(&cells)?;
                    continue;
                }
                Ok(row) => row,
            };
            let mut cells = vec![
                path.clone(),
                String::new(),
                row.label.clone().unwrap_or_default(),
                row.none_of_these.to_string(),
                row.probability.map(|p| p.to_string()).unwrap_or_default(),
                row.set.join(";"),
                row.entropy.to_string(),
                row.latent_variance.to_string(),
                row.strangers_found.map(|share| share.to_string()).unwrap_or_default(),
            ];
            let near = |n: &Neighbour| format!("{} ({}) {}", n.example, n.class, n.kernel);
            cells.extend(self.explain.then(|| row.nearest.iter().map(near).collect::<Vec<_>>().join(";")));
            cells.extend(row.probabilities.iter().map(|(_, p)| p.to_string()));
            self.out.write_record(&cells)?;
        }
        Ok(self.out.flush()?)
    }

    fn end(&mut self) -> anyhow::Result<()> {
        Ok(self.out.flush()?)
    }
}
