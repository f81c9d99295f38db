//! Fields of a protocol buffer, which an ONNX file is.

/// The bytes are no protocol buffer, or too deep.
#[derive(Debug, PartialEq)]
pub(super) struct Unreadable;

/// What a field holds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Content<'a> {
    Whole(u64),
    Float(f32),
    Bytes(&'a [u8]),
    /// Eight bytes, which no part of an ONNX file has that is looked at.
    Eight,
}

/// A field by its number.
#[derive(Debug, Clone, Copy)]
pub(super) struct Field<'a> {
    pub(super) number: u64,
    pub(super) content: Content<'a>,
    /// The field as it stands in the file.
    pub(super) all: &'a [u8],
}

/// The fields of a message in order; the last one is an error where the message ends too early.
pub(super) fn fields(bytes: &[u8]) -> impl Iterator<Item = Result<Field<'_>, Unreadable>> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let read = field(&mut rest);
        if read.is_err() {
            rest = &[];
        }
        Some(read)
    })
}

fn field<'a>(bytes: &mut &'a [u8]) -> Result<Field<'a>, Unreadable> {
    let begin = *bytes;
    let key = varint(bytes)?;
    let content = match key & 7 {
        0 => Content::Whole(varint(bytes)?),
        1 => take(bytes, 8).map(|_| Content::Eight)?,
        2 => {
            let length = usize::try_from(varint(bytes)?).map_err(|_| Unreadable)?;
            Content::Bytes(take(bytes, length)?)
        }
        5 => take(bytes, 4)?
            .try_into()
            .map(|four| Content::Float(f32::from_le_bytes(four)))
            .map_err(|_| Unreadable)?,
        _ => return Err(Unreadable),
    };
    Ok(Field { number: key >> 3, content, all: &begin[..begin.len() - bytes.len()] })
}

fn take<'a>(bytes: &mut &'a [u8], length: usize) -> Result<&'a [u8], Unreadable> {
    let (part, rest) = bytes.split_at_checked(length).ok_or(Unreadable)?;
    *bytes = rest;
    Ok(part)
}

/// A whole number; `bytes` begins behind it afterwards.
pub(super) fn varint(bytes: &mut &[u8]) -> Result<u64, Unreadable> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (&first, rest) = bytes.split_first().ok_or(Unreadable)?;
        *bytes = rest;
        value |= u64::from(first & 127) << shift;
        if first < 128 {
            return Ok(value);
        }
    }
    Err(Unreadable)
}

/// A field of bytes as it stands in a file.
pub(super) fn written(number: u64, bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len() + 12);
    for mut value in [number << 3 | 2, bytes.len() as u64] {
        while value >= 128 {
            out.push((value & 127) as u8 | 128);
            value >>= 7;
        }
        out.push(value as u8);
    }
    out.extend_from_slice(bytes);
    out
}

/// Numbers of the fields of ONNX that are looked at.
pub(super) mod number {
    pub(crate) const GRAPH: u64 = 7;
    pub(crate) const FUNCTION: u64 = 25;
    /// Within a graph.
    pub(crate) const NODE: u64 = 1;
    pub(crate) const CONSTANT: u64 = 5;
    pub(crate) const GRAPH_INPUT: u64 = 11;
    pub(crate) const GRAPH_OUTPUT: u64 = 12;
    pub(crate) const FUNCTION_NODE: u64 = 7;
    /// Within a node.
    pub(crate) const INPUT: u64 = 1;
    pub(crate) const OUTPUT: u64 = 2;
    pub(crate) const OPERATOR: u64 = 4;
    pub(crate) const ATTRIBUTE: u64 = 5;
    /// Within a constant.
    pub(crate) const SIDE: u64 = 1;
    pub(crate) const CONSTANT_NAME: u64 = 8;
    /// Within an attribute, and of inputs and outputs.
    pub(crate) const NAME: u64 = 1;
    pub(crate) const FLOAT: u64 = 2;
    pub(crate) const WHOLE: u64 = 3;
    pub(crate) const TEXT: u64 = 4;
    pub(crate) const BRANCH: u64 = 6;
    pub(crate) const WHOLES: u64 = 8;
    pub(crate) const BRANCHES: u64 = 11;
}
