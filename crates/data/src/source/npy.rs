//! NumPy's .npy files: a header in the form of a Python dict, then the values.

use std::path::Path;

use crate::{Error, Result};

/// Values of an array, as floats and as whole numbers, whichever it holds.
#[derive(Debug, Clone, PartialEq)]
pub enum Values {
    /// f2, f4 or f8, as f32.
    Floats(Vec<f32>),
    /// Any whole number, as i64.
    Integers(Vec<i64>),
}

/// An array in C order.
#[derive(Debug, Clone, PartialEq)]
pub struct Array {
    /// Its dimensions.
    pub shape: Vec<usize>,
    /// Its values, row-major.
    pub values: Values,
}

/// Reads an array from the bytes of a .npy file.
pub fn parse(bytes: &[u8], path: &Path) -> Result<Array> {
    let bad =
        |problem: &str| Error::List { path: path.display().to_string(), line: None, problem: problem.into() };
    let rest = bytes.strip_prefix(b"\x93NUMPY").ok_or_else(|| bad("it does not begin as a .npy file"))?;
    let (length, start) = match rest {
        [1, _, a, b, ..] => (u64::from(u16::from_le_bytes([*a, *b])), 4),
        [2 | 3, _, a, b, c, d, ..] => (u64::from(u32::from_le_bytes([*a, *b, *c, *d])), 6),
        _ => return Err(bad("its .npy version is not 1, 2 or 3")),
    };
    let end =
        usize::try_from(length).ok().and_then(|l| l.checked_add(start)).filter(|end| *end <= rest.len());
    let end = end.ok_or_else(|| bad("it is cut short within the header"))?;
    let header = std::str::from_utf8(&rest[start..end]).map_err(|_| bad("its header is not text"))?;
    if !header.contains("'fortran_order': False") {
        return Err(bad("it is in Fortran order; save it with numpy.ascontiguousarray"));
    }
    let descr = between(header, "'descr': '", "'").ok_or_else(|| bad("its header names no plain type"))?;
    let shape = between(header, "'shape': (", ")").ok_or_else(|| bad("its header names no shape"))?;
    let shape: Option<Vec<usize>> =
        shape.split(',').map(str::trim).filter(|s| !s.is_empty()).map(|s| s.parse().ok()).collect();
    let shape = shape.ok_or_else(|| bad("its shape cannot be read"))?;
    let count = shape
        .iter()
        .try_fold(1usize, |n, d| n.checked_mul(*d))
        .ok_or_else(|| bad("its shape is too large"))?;
    let values = decode(descr, &rest[end..], count).map_err(|problem| bad(&problem))?;
    Ok(Array { shape, values })
}

/// The values of a type, of which there must be `count`.
fn decode(descr: &str, data: &[u8], count: usize) -> std::result::Result<Values, String> {
    fn each<const N: usize, T>(data: &[u8], f: impl Fn([u8; N]) -> T) -> Vec<T> {
        data.as_chunks::<N>().0.iter().map(|c| f(*c)).collect()
    }
    let width: usize = match descr.trim_start_matches(['<', '|', '=']) {
        "i1" | "u1" | "b1" => 1,
        "f2" | "i2" | "u2" => 2,
        "f4" | "i4" | "u4" => 4,
        "f8" | "i8" | "u8" => 8,
        _ => {
            return Err(format!(
                "its type {descr} is not read; save it as float32 (vectors) or int64 (labels)"
            ));
        }
    };
    if count.checked_mul(width) != Some(data.len()) {
        return Err(format!(
            "it should hold {count} values of {width} bytes, but holds {} bytes",
            data.len()
        ));
    }
    Ok(match descr.trim_start_matches(['<', '|', '=']) {
        "f2" => Values::Floats(each(data, |b| half(u16::from_le_bytes(b)))),
        "f4" => Values::Floats(each(data, f32::from_le_bytes)),
        "f8" => Values::Floats(each(data, |b| f64::from_le_bytes(b) as f32)),
        "i1" => Values::Integers(each(data, |b| i64::from(i8::from_le_bytes(b)))),
        "i2" => Values::Integers(each(data, |b| i64::from(i16::from_le_bytes(b)))),
        "u2" => Values::Integers(each(data, |b| i64::from(u16::from_le_bytes(b)))),
        "i4" => Values::Integers(each(data, |b| i64::from(i32::from_le_bytes(b)))),
        "u4" => Values::Integers(each(data, |b| i64::from(u32::from_le_bytes(b)))),
        "i8" => Values::Integers(each(data, i64::from_le_bytes)),
        "u8" => Values::Integers(each(data, |b| u64::from_le_bytes(b).cast_signed())),
        _ => Values::Integers(each(data, |[b]: [u8; 1]| i64::from(b))),
    })
}

/// IEEE half precision.
pub(super) fn half(bits: u16) -> f32 {
    let sign = if bits >> 15 == 1 { -1.0 } else { 1.0 };
    let (exponent, fraction) = (i32::from(bits >> 10 & 31), f32::from(bits & 1023));
    sign * match exponent {
        0 => fraction * 2f32.powi(-24),
        31 if fraction == 0.0 => f32::INFINITY,
        31 => f32::NAN,
        _ => (1024.0 + fraction) * 2f32.powi(exponent - 25),
    }
}

fn between<'a>(text: &'a str, before: &str, after: &str) -> Option<&'a str> {
    text.split_once(before)?.1.split_once(after).map(|(inside, _)| inside)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The bytes of a .npy file as NumPy writes it.
    pub(crate) fn bytes(descr: &str, shape: &str, data: &[u8]) -> Vec<u8> {
        let mut header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}");
        while (10 + header.len() + 1) % 64 != 0 {
            header.push(' ');
        }
        header.push('\n');
        let mut out = b"\x93NUMPY\x01\x00".to_vec();
        out.extend((header.len() as u16).to_le_bytes());
        out.extend(header.as_bytes());
        out.extend(data);
        out
    }

    #[test]
    fn floats_halves_and_labels() {
        let data: Vec<u8> = [1.5f32, -2.0].iter().flat_map(|v| v.to_le_bytes()).collect();
        let array = parse(&bytes("<f4", "(1, 2)", &data), Path::new("x.npy")).unwrap();
        assert_eq!(array, Array { shape: vec![1, 2], values: Values::Floats(vec![1.5, -2.0]) });
        // NumPy: float16 1.5 = 0x3e00, -2 = 0xc000, 2^-24 = 0x0001, 65504 = 0x7bff.
        let data: Vec<u8> = [0x3e00u16, 0xc000, 1, 0x7bff].iter().flat_map(|v| v.to_le_bytes()).collect();
        let array = parse(&bytes("<f2", "(4,)", &data), Path::new("x.npy")).unwrap();
        assert_eq!(array.values, Values::Floats(vec![1.5, -2.0, 2f32.powi(-24), 65504.0]));
        let data: Vec<u8> = [3i64, 1].iter().flat_map(|v| v.to_le_bytes()).collect();
        let array = parse(&bytes("<i8", "(2,)", &data), Path::new("y.npy")).unwrap();
        assert_eq!(array.values, Values::Integers(vec![3, 1]));
    }

    #[test]
    fn malformed_files_are_refused_with_their_path() {
        let good = bytes("<f4", "(1, 2)", &[0; 8]);
        for (data, expected) in [
            (b"hello".to_vec(), "does not begin as a .npy file"),
            (good[..9].to_vec(), "version"),
            (good[..40].to_vec(), "cut short within the header"),
            (good[..good.len() - 1].to_vec(), "should hold 2 values of 4 bytes, but holds 7 bytes"),
            (bytes("<c8", "(1,)", &[0; 8]), "its type <c8 is not read"),
            (bytes(">f4", "(1,)", &[0; 4]), "its type >f4 is not read"),
            (bytes("<f4", "(99999999999, 99999999999)", &[0; 4]), "its shape is too large"),
            (bytes("<f4", "(x,)", &[0; 4]), "its shape cannot be read"),
        ] {
            let error = parse(&data, Path::new("features.npy")).unwrap_err().to_string();
            assert!(error.contains(expected) && error.starts_with("features.npy"), "{error}");
        }
        let fortran = String::from_utf8_lossy(&good).replace("False", "True ").into_bytes();
        assert!(parse(&fortran, Path::new("x")).is_err());
    }
}
