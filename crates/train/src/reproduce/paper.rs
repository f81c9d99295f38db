//! The tables of the paper with their figures, from `paper.toml`.

use crate::error::{Result, unknown};
use serde::Deserialize;
use std::sync::LazyLock;

/// What the figures of a table are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Measure {
    /// Percent: mean and standard deviation over groups of test episodes.
    Accuracy,
    /// ECE and MCE after tuning on validation episodes.
    Calibration,
}

/// A table (or the figure of accuracy against steps).
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PaperTable {
    /// On the command line.
    pub name: String,
    /// For people.
    pub title: String,
    /// What it shows.
    pub about: String,
    /// Its label in the source of the paper.
    pub label: String,
    /// Where its configs are, below `configs/paper`.
    pub folder: String,
    /// How a cell is named: `{row}` and `{column}` stand for keys.
    cells: String,
    /// What its figures are.
    pub measure: Measure,
    /// What to know about the paper's figures.
    pub note: Option<String>,
    /// The columns.
    pub columns: Vec<Column>,
    /// The rows.
    pub rows: Vec<PaperRow>,
}

/// A column.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Column {
    /// In names of cells.
    pub key: String,
    /// For people.
    pub name: String,
}

/// A row.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PaperRow {
    /// In names of cells.
    pub key: String,
    /// For people.
    pub name: String,
    /// The paper's figures, one pair for each column; none where it prints none.
    #[serde(default)]
    pub figures: Vec<[f64; 2]>,
}

/// One cell of a table.
#[derive(Debug, Clone)]
pub struct Cell {
    /// Its table.
    pub table: &'static PaperTable,
    /// Its row.
    pub row: usize,
    /// Its column.
    pub column: usize,
    /// Its name, e.g. `cub-1shot-dkt`.
    pub name: String,
}

impl Cell {
    /// Its config below `configs/paper`, without the extension.
    pub fn path(&self) -> String {
        format!("{}/{}", self.table.folder, self.name)
    }

    /// The key of its row.
    pub(crate) fn row_key(&self) -> &'static str {
        &self.table.rows[self.row].key
    }

    /// The key of its column.
    pub(crate) fn column_key(&self) -> &'static str {
        &self.table.columns[self.column].key
    }

    /// The paper's figures.
    pub fn figures(&self) -> Option<[f64; 2]> {
        self.table.rows[self.row].figures.get(self.column).copied()
    }
}

impl PaperTable {
    /// Its cells, row by row.
    pub fn cells(&'static self) -> Vec<Cell> {
        let places =
            (0..self.rows.len()).flat_map(|row| (0..self.columns.len()).map(move |column| (row, column)));
        let cell = |(row, column): (usize, usize)| {
            let (r, c) = (&self.rows[row].key, &self.columns[column].key);
            let name = self.cells.replace("{row}", r).replace("{column}", c);
            Cell { table: self, row, column, name }
        };
        places.map(cell).collect()
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    table: Vec<PaperTable>,
}

/// Tables 1 to 4 and the figure of accuracy against steps.
pub fn tables() -> &'static [PaperTable] {
    static TABLES: LazyLock<Vec<PaperTable>> = LazyLock::new(|| {
        let file: File =
            toml::from_str(include_str!("paper.toml")).expect("paper.toml is part of the program");
        file.table
    });
    &TABLES
}

/// The table of this name.
pub fn table(name: &str) -> Result<&'static PaperTable> {
    tables().iter().find(|table| table.name == name).ok_or_else(|| {
        let names: Vec<&str> = tables().iter().map(|table| table.name.as_str()).collect();
        unknown("table", name, &names, &names)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_stand_where_the_paper_has_them() {
        let figure = |table_name: &str, cell: &str| {
            let cells = table(table_name).unwrap().cells();
            cells.into_iter().find(|c| c.name == cell).unwrap().figures()
        };
        assert_eq!(figure("table1", "cub-1shot-ml-low-tau"), Some([65.21, 0.45]));
        assert_eq!(figure("table1", "cross-5shot-baseline-plus-plus"), Some([57.31, 0.11]));
        assert_eq!(figure("table2", "mini-5shot-ml-low-tau"), Some([0.009, 0.015]));
        assert_eq!(figure("table3", "cross-rbf"), Some([39.69, 0.18]));
        assert_eq!(figure("table4", "cub-5shot-tau1.5"), Some([72.13, 0.20]));
        assert_eq!(figure("steps", "cub-7steps"), None);
    }

    #[test]
    fn every_row_has_all_its_figures_or_none() {
        for table in tables() {
            for row in &table.rows {
                let count = row.figures.len();
                assert!(count == 0 || count == table.columns.len(), "{} {}", table.name, row.key);
            }
        }
        let cells: Vec<usize> = tables().iter().map(|table| table.cells().len()).collect();
        assert_eq!(cells, [108, 42, 12, 10, 14]);
    }

    #[test]
    fn a_wrong_table_gets_the_nearest() {
        let error = table("tabel1").unwrap_err().to_string();
        assert!(error.contains("did you mean `table1`?") && error.contains("steps"), "{error}");
    }
}
