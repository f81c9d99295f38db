//! Precomputed vectors: a .safetensors with the tensors `features` `[N, D]` and `labels` `[N]`, or `features.npy` beside
//! `labels.npy`. Names of the classes: the metadata entry `classes` (a JSON list), or `x_classes.txt` or
//! `classes.txt` beside the file `x.npy`, one per line; without them a class is named by its label.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};

use super::name_of;
use super::npy::{self, Values, half};
use crate::{Embeddings, Error, Result, files};

/// Most bytes of a file of vectors.
const MOST_BYTES: u64 = 8 << 30;

/// Whether a path is a file of vectors, by its ending.
pub fn is_embeddings(path: &Path) -> bool {
    path.extension().is_some_and(|e| e.eq_ignore_ascii_case("safetensors") || e.eq_ignore_ascii_case("npy"))
}

/// Reads vectors and labels.
pub fn read(path: &Path) -> Result<Embeddings> {
    let bytes = files::read(path, MOST_BYTES).map_err(|source| Error::io("read", path, source))?;
    let safetensors = path.extension().is_some_and(|e| e.eq_ignore_ascii_case("safetensors"));
    let parts = if safetensors { from_safetensors(&bytes, path)? } else { from_npy(&bytes, path)? };
    let (labels, names) = name_labels(&parts.labels, parts.names, path)?;
    Embeddings::new(name_of(path), names, parts.dim, &parts.vectors, &labels)
}

/// Vectors whose rows have any number of labels.
#[derive(Debug, Clone, PartialEq)]
pub struct VectorsWithSets {
    /// Length of a vector.
    pub dim: usize,
    /// All values, row by row.
    pub vectors: Vec<f32>,
    /// The labels of each row, by their places among the names.
    pub sets: Vec<Vec<usize>>,
    /// What the labels are called.
    pub names: Vec<String>,
}

/// Reads `x.npy` whose `x_labels.npy` (or `labels.npy`) is a table `[N, L]` of 0 and 1, a column for each label; `None` where it has one
/// label for each row, and for .safetensors.
pub fn read_label_sets(path: &Path) -> Result<Option<VectorsWithSets>> {
    if path.extension().is_none_or(|e| !e.eq_ignore_ascii_case("npy")) {
        return Ok(None);
    }
    let (labels_path, array) = npy_labels(path)?;
    let [rows, width] = array.shape[..] else { return Ok(None) };
    let Values::Integers(table) = array.values else {
        return Err(fail(&labels_path, "labels must be whole numbers"));
    };
    let (dim, vectors) = read_vectors(path)?;
    if rows != vectors.len() / dim || width == 0 {
        let expected = vectors.len() / dim;
        return Err(fail(
            &labels_path,
            format!("its shape is {:?}, expected [{expected}, labels]", array.shape),
        ));
    }
    if let Some(place) = table.iter().position(|v| !(0..=1).contains(v)) {
        let why =
            format!("row {} has {} for a label; a table of labels has 0 and 1", place / width, table[place]);
        return Err(fail(&labels_path, why));
    }
    let of_row = |row: &[i64]| (0..width).filter(|&l| row[l] == 1).collect();
    let names = names_beside(path)?.unwrap_or_else(|| (0..width).map(|l| l.to_string()).collect());
    if names.len() != width {
        return Err(fail(path, format!("there are {} names for {width} columns of labels", names.len())));
    }
    Ok(Some(VectorsWithSets { dim, vectors, sets: table.chunks_exact(width).map(of_row).collect(), names }))
}

/// Reads vectors without labels: the length of one, and all values row by row.
pub fn read_vectors(path: &Path) -> Result<(usize, Vec<f32>)> {
    let bytes = files::read(path, MOST_BYTES).map_err(|source| Error::io("read", path, source))?;
    if path.extension().is_some_and(|e| e.eq_ignore_ascii_case("npy")) {
        npy_vectors(&bytes, path)
    } else {
        let tensors = SafeTensors::deserialize(&bytes).map_err(|e| fail(path, e.to_string()))?;
        features(&tensors, path)
    }
}

struct Parts {
    dim: usize,
    vectors: Vec<f32>,
    labels: Vec<i64>,
    names: Option<Vec<String>>,
}

fn fail(path: &Path, problem: impl Into<String>) -> Error {
    Error::List { path: path.display().to_string(), line: None, problem: problem.into() }
}

/// Length of a vector, and the values, of a .npy file.
fn npy_vectors(bytes: &[u8], path: &Path) -> Result<(usize, Vec<f32>)> {
    let array = npy::parse(bytes, path)?;
    let [_, dim] = array.shape[..] else {
        return Err(fail(path, format!("its shape is {:?}, expected [rows, features]", array.shape)));
    };
    match array.values {
        _ if dim == 0 => Err(fail(path, "its vectors have no numbers")),
        Values::Floats(vectors) => Ok((dim, vectors)),
        Values::Integers(_) => Err(fail(path, "it holds whole numbers; expected vectors of float32")),
    }
}

/// Length of a vector, and the values, of the tensor `features`.
fn features(tensors: &SafeTensors<'_>, path: &Path) -> Result<(usize, Vec<f32>)> {
    let features = find(tensors, ["features", "embeddings", "x"], path)?;
    let &[_, dim] = features.shape() else {
        return Err(fail(
            path,
            format!("`features` has the shape {:?}, expected [rows, features]", features.shape()),
        ));
    };
    if dim == 0 {
        return Err(fail(path, "its vectors have no numbers"));
    }
    let data = features.data();
    let vectors = match features.dtype() {
        Dtype::F32 => data.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect(),
        Dtype::F64 => data.as_chunks().0.iter().map(|b| f64::from_le_bytes(*b) as f32).collect(),
        Dtype::F16 => data.as_chunks().0.iter().map(|b| half(u16::from_le_bytes(*b))).collect(),
        Dtype::BF16 => {
            let widen = |b: &[u8; 2]| f32::from_bits(u32::from(u16::from_le_bytes(*b)) << 16);
            data.as_chunks().0.iter().map(widen).collect()
        }
        other => return Err(fail(path, format!("`features` is of type {other:?}; expected F32"))),
    };
    Ok((dim, vectors))
}

/// The first tensor that bears one of the names.
fn find<'a>(tensors: &SafeTensors<'a>, names: [&str; 3], path: &Path) -> Result<TensorView<'a>> {
    let found = || tensors.names().into_iter().map(String::from).collect::<BTreeSet<_>>();
    let list = |names: BTreeSet<String>| names.into_iter().collect::<Vec<_>>().join(", ");
    names
        .iter()
        .find_map(|n| tensors.tensor(n).ok())
        .ok_or_else(|| fail(path, format!("it has no tensor `{}`; it has {}", names[0], list(found()))))
}

fn from_npy(bytes: &[u8], path: &Path) -> Result<Parts> {
    let (dim, vectors) = npy_vectors(bytes, path)?;
    let rows = vectors.len() / dim;
    let (labels_path, array) = npy_labels(path)?;
    let Values::Integers(labels) = array.values else {
        return Err(fail(&labels_path, "labels must be whole numbers"));
    };
    if array.shape != [rows] {
        return Err(fail(&labels_path, format!("its shape is {:?}, expected [{rows}]", array.shape)));
    }
    Ok(Parts { dim, vectors, labels, names: None })
}

/// The labels of a .npy file of vectors, and where they are.
fn npy_labels(path: &Path) -> Result<(PathBuf, npy::Array)> {
    let beside = labels_beside(path)?;
    let bytes = files::read(&beside, MOST_BYTES).map_err(|source| Error::io("read", &beside, source))?;
    let array = npy::parse(&bytes, &beside)?;
    Ok((beside, array))
}

/// `x.npy` goes with `x_labels.npy`, or with `labels.npy`.
fn labels_beside(path: &Path) -> Result<PathBuf> {
    let stem = path.file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
    let names = [format!("{stem}_labels.npy"), "labels.npy".to_owned()];
    let found = names.iter().map(|name| path.with_file_name(name)).find(|p| p.is_file());
    found.ok_or_else(|| fail(path, format!("neither {} nor {} is beside it", names[0], names[1])))
}

fn from_safetensors(bytes: &[u8], path: &Path) -> Result<Parts> {
    let tensors = SafeTensors::deserialize(bytes).map_err(|e| fail(path, e.to_string()))?;
    let (dim, vectors) = features(&tensors, path)?;
    let labels = find(&tensors, ["labels", "targets", "y"], path)?;
    let rows = vectors.len() / dim;
    if labels.shape() != [rows] {
        return Err(fail(path, format!("`labels` has the shape {:?}, expected [{rows}]", labels.shape())));
    }
    let data = labels.data();
    let labels = match labels.dtype() {
        Dtype::I64 => data.as_chunks().0.iter().map(|b| i64::from_le_bytes(*b)).collect(),
        Dtype::I32 => data.as_chunks().0.iter().map(|b| i64::from(i32::from_le_bytes(*b))).collect(),
        Dtype::U8 => data.iter().map(|b| i64::from(*b)).collect(),
        other => return Err(fail(path, format!("`labels` is of type {other:?}; expected I64"))),
    };
    let (_, metadata) = SafeTensors::read_metadata(bytes).map_err(|e| fail(path, e.to_string()))?;
    let names = metadata.metadata().as_ref().and_then(|m| m.get("classes")).map(|text| {
        serde_json::from_str(text)
            .map_err(|e| fail(path, format!("the metadata `classes` is no JSON list of names: {e}")))
    });
    Ok(Parts { dim, vectors, labels, names: names.transpose()? })
}

/// Labels as indices of names. With names a label must be one of their positions; without, each label met is a class.
fn name_labels(labels: &[i64], names: Option<Vec<String>>, path: &Path) -> Result<(Vec<usize>, Vec<String>)> {
    let names = match names {
        Some(names) => Some(names),
        None => names_beside(path)?,
    };
    if let Some(names) = names {
        let index = |(row, &label): (usize, &i64)| {
            usize::try_from(label).ok().filter(|l| *l < names.len()).ok_or_else(|| {
                fail(
                    path,
                    format!("row {row} has the label {label}, but there are {} class names", names.len()),
                )
            })
        };
        let labels = labels.iter().enumerate().map(index).collect::<Result<Vec<_>>>()?;
        return Ok((labels, names));
    }
    let distinct: Vec<i64> = labels.iter().copied().collect::<BTreeSet<_>>().into_iter().collect();
    let indices = labels.iter().map(|l| distinct.partition_point(|d| d < l)).collect();
    Ok((indices, distinct.iter().map(i64::to_string).collect()))
}

/// The names in `x_classes.txt` or `classes.txt` beside `x.npy`, one per line.
fn names_beside(path: &Path) -> Result<Option<Vec<String>>> {
    let stem = path.file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
    let lists = [format!("{stem}_classes.txt"), "classes.txt".into()].map(|name| path.with_file_name(name));
    let Some(list) = lists.iter().find(|list| list.is_file()) else { return Ok(None) };
    let text = std::fs::read_to_string(list).map_err(|source| Error::io("read", list, source))?;
    Ok(Some(text.lines().map(str::trim).filter(|l| !l.is_empty()).map(str::to_owned).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    fn write_safetensors(path: &Path, rows: usize, labels: &[i64], names: Option<&str>) {
        let features: Vec<u8> = (0..rows * 2).flat_map(|v| (v as f32).to_le_bytes()).collect();
        let label_bytes: Vec<u8> = labels.iter().flat_map(|v| v.to_le_bytes()).collect();
        let tensors = [
            ("features", TensorView::new(Dtype::F32, vec![rows, 2], &features).unwrap()),
            ("labels", TensorView::new(Dtype::I64, vec![labels.len()], &label_bytes).unwrap()),
        ];
        let metadata = names.map(|n| HashMap::from([("classes".to_owned(), n.to_owned())]));
        std::fs::write(path, safetensors::serialize(tensors, metadata).unwrap()).unwrap();
    }

    #[test]
    fn safetensors_with_and_without_names() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("birds.safetensors");
        write_safetensors(&path, 3, &[7, 3, 7], None);
        let data = read(&path).unwrap();
        assert_eq!((data.name.as_str(), data.dim(), data.len()), ("birds", 2, 3));
        assert_eq!(data.classes.iter().map(|c| c.name.as_str()).collect::<Vec<_>>(), ["3", "7"]);
        assert_eq!(data.vector(0), [2.0, 3.0]);
        write_safetensors(&path, 3, &[1, 0, 1], Some(r#"["auk", "owl", "unused"]"#));
        let data = read(&path).unwrap();
        assert_eq!(data.classes.iter().map(|c| c.images.len()).collect::<Vec<_>>(), [1, 2, 0]);
        write_safetensors(&path, 3, &[1, 0, 9], Some(r#"["auk", "owl"]"#));
        let error = read(&path).unwrap_err().to_string();
        assert!(error.contains("row 2 has the label 9, but there are 2 class names"), "{error}");
    }

    #[test]
    fn npy_with_labels_beside() {
        let dir = tempfile::tempdir().unwrap();
        let features: Vec<u8> = (0..4).flat_map(|v| (v as f32).to_le_bytes()).collect();
        let path = dir.path().join("features.npy");
        std::fs::write(&path, npy::tests::bytes("<f4", "(2, 2)", &features)).unwrap();
        let error = read(&path).unwrap_err().to_string();
        assert!(error.contains("neither features_labels.npy nor labels.npy"), "{error}");
        let labels: Vec<u8> = [1i64, 0].iter().flat_map(|v| v.to_le_bytes()).collect();
        std::fs::write(dir.path().join("labels.npy"), npy::tests::bytes("<i8", "(2,)", &labels)).unwrap();
        std::fs::write(dir.path().join("classes.txt"), "auk\nowl\n").unwrap();
        let data = read(&path).unwrap();
        assert_eq!(data.classes[1].name, "owl");
        assert_eq!((data.vector(1), data.source_row(1)), ([0.0, 1.0].as_slice(), 0));
    }

    #[test]
    fn wrong_shapes_and_missing_tensors_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.safetensors");
        write_safetensors(&path, 3, &[1, 0], None);
        let error = read(&path).unwrap_err().to_string();
        assert!(error.contains("`labels` has the shape [2], expected [3]"), "{error}");
        let data = [0u8; 4];
        let only = [("z", TensorView::new(Dtype::F32, vec![1], &data).unwrap())];
        std::fs::write(&path, safetensors::serialize(only, None).unwrap()).unwrap();
        let error = read(&path).unwrap_err().to_string();
        assert!(error.contains("no tensor `features`; it has z"), "{error}");
        std::fs::write(&path, b"junk").unwrap();
        assert!(read(&path).unwrap_err().to_string().contains("x.safetensors"));
    }

    #[test]
    fn a_table_of_labels_gives_label_sets() {
        let dir = tempfile::tempdir().unwrap();
        let features: Vec<u8> = (0..6).flat_map(|v| (v as f32).to_le_bytes()).collect();
        let path = dir.path().join("x.npy");
        std::fs::write(&path, npy::tests::bytes("<f4", "(3, 2)", &features)).unwrap();
        let labels = |descr: &str, shape: &str, data: &[u8]| {
            std::fs::write(dir.path().join("x_labels.npy"), npy::tests::bytes(descr, shape, data)).unwrap();
            read_label_sets(&path)
        };
        assert_eq!(labels("|u1", "(3,)", &[0, 1, 1]).unwrap(), None);
        let found = labels("|b1", "(3, 2)", &[1, 1, 0, 0, 0, 1]).unwrap().unwrap();
        assert_eq!((found.dim, found.vectors.len()), (2, 6));
        assert_eq!(found.sets, [vec![0, 1], vec![], vec![1]]);
        assert_eq!(found.names, ["0", "1"]);
        let error = labels("|u1", "(3, 2)", &[1, 1, 0, 2, 0, 1]).unwrap_err().to_string();
        assert!(error.contains("row 1 has 2 for a label"), "{error}");
        let error = labels("|u1", "(2, 2)", &[1, 1, 0, 0]).unwrap_err().to_string();
        assert!(error.contains("its shape is [2, 2], expected [3, labels]"), "{error}");
        std::fs::write(dir.path().join("x_classes.txt"), "one\n").unwrap();
        let error = labels("|b1", "(3, 2)", &[1, 1, 0, 0, 0, 1]).unwrap_err().to_string();
        assert!(error.contains("1 names for 2 columns"), "{error}");
    }
}
