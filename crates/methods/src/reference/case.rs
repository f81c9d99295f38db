//! A case of a golden file, and the comparison of numbers.

use super::reads::Reads;
use crate::{EpisodeRows, Features, Images};
use serde_json::Value;

/// What does not agree, or cannot be compared.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Mismatch {
    /// No check is known for a file of this name.
    #[error("there is no check for a file of this name")]
    UnknownFile,
    /// The file is not JSON.
    #[error("it is not JSON: {0}")]
    NoJson(String),
    /// A field is not there, or of another type.
    #[error("field `{field}` is missing or of a wrong type")]
    Missing {
        /// The field.
        field: String,
    },
    /// A field has a value that this check does not know.
    #[error("field `{field}` is `{value}`, which this check does not know")]
    Unknown {
        /// The field.
        field: String,
        /// Its value.
        value: String,
    },
    /// A field that no check has looked at.
    #[error("field `{field}` is not part of this check")]
    Unread {
        /// The field.
        field: String,
    },
    /// A nested list of another shape.
    #[error("field `{field}` is {found:?} and not {wanted:?}")]
    Shape {
        /// The field.
        field: String,
        /// The lengths of the nested list.
        found: Vec<usize>,
        /// What the counts of the case ask for.
        wanted: Vec<usize>,
    },
    /// The check itself broke off.
    #[error("the check broke off: {0}")]
    Panicked(String),
    /// Arrays of different sizes.
    #[error("`{field}`: {found} numbers computed, {wanted} in the file")]
    Length {
        /// The field.
        field: String,
        /// Numbers computed.
        found: usize,
        /// Numbers in the file.
        wanted: usize,
    },
    /// A number that is not the file's.
    #[error("`{field}`[{index}]: computed {found}, in the file {wanted}; allowed {allowed:e}")]
    Value {
        /// The field.
        field: String,
        /// Its place in the flat array.
        index: usize,
        /// What was computed.
        found: f64,
        /// What the file has.
        wanted: f64,
        /// The allowed deviation.
        allowed: f64,
    },
    /// The method itself refused.
    #[error("the method refuses: {0}")]
    Refused(String),
}

impl From<crate::Error> for Mismatch {
    fn from(error: crate::Error) -> Self {
        Mismatch::Refused(error.to_string())
    }
}

impl From<siskin_gp::Error> for Mismatch {
    fn from(error: siskin_gp::Error) -> Self {
        Mismatch::Refused(error.to_string())
    }
}

impl From<siskin_nn::Error> for Mismatch {
    fn from(error: siskin_nn::Error) -> Self {
        Mismatch::Refused(error.to_string())
    }
}

/// Compares arrays and remembers the largest relative deviation.
#[derive(Debug, Clone, Copy, Default)]
pub struct Comparison {
    worst: f64,
}

impl Comparison {
    /// The largest deviation so far, relative to the largest entry of its array.
    pub(crate) fn worst(&self) -> f64 {
        self.worst
    }

    /// Refuses numbers that differ by more than `tolerance` times the largest entry of the array, or of 1e-3 where that is
    /// larger.
    pub fn close(
        &mut self,
        field: &str,
        found: &[f64],
        wanted: &[f64],
        tolerance: f64,
    ) -> Result<(), Mismatch> {
        if found.len() != wanted.len() {
            return Err(Mismatch::Length { field: field.into(), found: found.len(), wanted: wanted.len() });
        }
        let largest = wanted.iter().fold(1e-3f64, |m, w| m.max(w.abs()));
        for (index, (&found, &wanted)) in found.iter().zip(wanted).enumerate() {
            let (apart, allowed) = ((found - wanted).abs(), tolerance * largest);
            // A NaN is not close to anything.
            if apart <= allowed {
                self.worst = self.worst.max(apart / largest);
            } else {
                return Err(Mismatch::Value { field: field.into(), index, found, wanted, allowed });
            }
        }
        Ok(())
    }
}

/// A case, or a part of one. It remembers which fields were looked at.
#[derive(Debug, Clone, Copy)]
pub struct Case<'a> {
    json: &'a Value,
    reads: &'a Reads,
}

impl<'a> Case<'a> {
    /// The fields of a JSON object.
    pub fn new(json: &'a Value, reads: &'a Reads) -> Case<'a> {
        Case { json, reads }
    }

    fn get<T>(&self, field: &str, read: impl FnOnce(&'a Value) -> Option<T>) -> Result<T, Mismatch> {
        let value = self.json.get(field);
        value.into_iter().for_each(|value| self.reads.add(value));
        value.and_then(read).ok_or_else(|| Mismatch::Missing { field: field.into() })
    }

    /// Fields that say how the file was made and are compared with nothing.
    pub fn for_information(&self, fields: &[&str]) {
        fields.iter().filter_map(|field| self.json.get(field)).for_each(|value| self.reads.add(value));
    }

    /// Whether there is such a field.
    pub fn has(&self, field: &str) -> bool {
        self.json.get(field).is_some_and(|value| !value.is_null())
    }

    /// A number.
    pub fn number(&self, field: &str) -> Result<f64, Mismatch> {
        self.get(field, Value::as_f64)
    }

    /// A number of things.
    pub fn count(&self, field: &str) -> Result<usize, Mismatch> {
        self.get(field, |value| value.as_u64().map(|count| count as usize))
    }

    /// A word.
    pub fn text(&self, field: &str) -> Result<&'a str, Mismatch> {
        self.get(field, Value::as_str)
    }

    /// Yes or no.
    pub(crate) fn flag(&self, field: &str) -> Result<bool, Mismatch> {
        self.get(field, Value::as_bool)
    }

    /// All numbers of a nested list, row-major.
    pub fn values(&self, field: &str) -> Result<Vec<f64>, Mismatch> {
        self.get(field, |value| {
            let mut all = Vec::new();
            flatten(value, &mut all).then_some(all)
        })
    }

    /// The lengths of a nested list, from the outside in.
    pub(crate) fn nested_shape(&self, field: &str) -> Result<Vec<usize>, Mismatch> {
        self.get(field, |value| {
            let (mut at, mut lengths) = (value, Vec::new());
            while let Value::Array(list) = at {
                lengths.push(list.len());
                at = list.first()?;
            }
            Some(lengths)
        })
    }

    /// All numbers of a nested list that must have this shape.
    pub fn shaped(&self, field: &str, wanted: &[usize]) -> Result<Vec<f64>, Mismatch> {
        let (values, found) = (self.values(field)?, self.nested_shape(field)?);
        match found == wanted && values.len() == wanted.iter().product::<usize>() {
            true => Ok(values),
            false => Err(Mismatch::Shape { field: field.into(), found, wanted: wanted.to_vec() }),
        }
    }

    /// A list of counts.
    pub fn counts(&self, field: &str) -> Result<Vec<usize>, Mismatch> {
        self.get(field, |value| serde_json::from_value(value.clone()).ok())
    }

    /// A list of lists of counts.
    pub(crate) fn lists(&self, field: &str) -> Result<Vec<Vec<usize>>, Mismatch> {
        self.get(field, |value| serde_json::from_value(value.clone()).ok())
    }

    /// A part with fields of its own.
    pub fn part(&self, field: &str) -> Result<Case<'a>, Mismatch> {
        self.get(field, |value| value.is_object().then_some(Case { json: value, reads: self.reads }))
    }

    /// A list of parts.
    pub fn list(&self, field: &str) -> Result<Vec<Case<'a>>, Mismatch> {
        self.get(field, |value| {
            Some(value.as_array()?.iter().map(|json| Case { json, reads: self.reads }).collect())
        })
    }

    /// A value of a field that no check knows.
    pub fn unknown(&self, field: &str) -> Mismatch {
        let value = self.json.get(field).map_or(String::new(), Value::to_string);
        Mismatch::Unknown { field: field.into(), value }
    }

    /// The episode of the field `features [way][shot + query][dim]`: class by class, in each class the support first.
    pub fn episode(&self) -> Result<Laid, Mismatch> {
        self.episode_of("features")
    }

    /// The same from another field.
    pub(crate) fn episode_of(&self, field: &str) -> Result<Laid, Mismatch> {
        self.episode_from(self, field)
    }

    /// The same from a field of a part that has its way, shot and query here.
    pub(crate) fn episode_from(&self, part: &Case<'_>, field: &str) -> Result<Laid, Mismatch> {
        let (way, shot, query) = (self.count("way")?, self.count("shot")?, self.count("query")?);
        let (each, rows) = (shot + query, way * (shot + query));
        let mut wanted = part.nested_shape(field)?;
        let outer = wanted.len().min(2);
        wanted[..outer].copy_from_slice(&[way, each][..outer]);
        if let (3, true) = (wanted.len(), self.has("dim")) {
            wanted[2] = self.count("dim")?;
        }
        let values = part.shaped(field, &wanted)?;
        let features = Features { rows, dim: values.len() / rows.max(1), values };
        let labels = (0..rows).map(|row| row / each).collect();
        let (support, query) = (0..rows).partition(|row| row % each < shot);
        Ok(Laid { features, labels, support, query, way })
    }
}

/// Adds the numbers below a value; false where there is something else.
fn flatten(value: &Value, all: &mut Vec<f64>) -> bool {
    match value {
        Value::Number(number) => number.as_f64().map(|number| all.push(number)).is_some(),
        Value::Bool(flag) => {
            all.push(f64::from(u8::from(*flag)));
            true
        }
        Value::Array(list) => list.iter().all(|item| flatten(item, all)),
        _ => false,
    }
}

/// An episode laid out as the released programs do.
#[derive(Debug, Clone)]
pub struct Laid {
    /// All rows.
    pub features: Features,
    /// Their classes.
    pub labels: Vec<usize>,
    /// Rows of the support.
    pub support: Vec<usize>,
    /// Rows of the queries.
    pub query: Vec<usize>,
    /// Number of classes.
    pub way: usize,
}

impl Laid {
    /// The episode, without its images.
    pub(crate) fn episode(&self) -> Result<EpisodeRows<'_>, Mismatch> {
        let images = Images::new(&[], [0, 1, 1, 1])?;
        let Laid { labels, support, query, way, .. } = self;
        Ok(EpisodeRows { images, labels, support, query, way: *way })
    }

    /// Features and labels of the given rows.
    pub(crate) fn rows(&self, rows: &[usize]) -> (Features, Vec<usize>) {
        (crate::select(&self.features, rows), rows.iter().map(|&row| self.labels[row]).collect())
    }
}

/// The tolerance of arithmetic in double precision.
pub(crate) const DOUBLE: f64 = 1e-8;
/// The tolerance of arithmetic in single precision.
pub(crate) const SINGLE: f64 = 1e-4;
