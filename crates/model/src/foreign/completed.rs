//! What ONNX lets a file leave out and rten wants to be told: steps of 1, no padding; and `Dropout`, which changes nothing but in training.

use super::operators::{DEEPEST, has, name};
use super::protobuf::{Content, Field, Unreadable, fields, number, varint, written};
use std::collections::HashMap;

/// Axes of an image beside batch and channels, where nothing says how many a convolution has.
const AXES: usize = 2;

/// How many axes the constants of a graph have, by name.
type Ranks<'a> = HashMap<&'a [u8], usize>;

/// The file with all of it written; nothing where it lacks nothing.
pub(super) fn completed(file: &[u8]) -> Result<Option<Vec<u8>>, Unreadable> {
    // With no ranks known a convolution may seem to lack what it does not: that costs a copy, no more.
    if !has(file, |node| Ok(attributes(node, &Ranks::new())?.is_some()))? {
        return Ok(None);
    }
    let ranks = ranks(file)?;
    rewritten(file, |field, part| match field {
        number::GRAPH => graph(part, number::NODE, &ranks, DEEPEST + 1).map(Some),
        number::FUNCTION => graph(part, number::FUNCTION_NODE, &ranks, DEEPEST + 1).map(Some),
        _ => Ok(None),
    })
    .map(Some)
}

/// The message with some of its fields of bytes replaced, by their number and content.
fn rewritten(
    bytes: &[u8],
    mut new: impl FnMut(u64, &[u8]) -> Result<Option<Vec<u8>>, Unreadable>,
) -> Result<Vec<u8>, Unreadable> {
    let mut out = Vec::with_capacity(bytes.len());
    for field in fields(bytes) {
        let Field { number, content, all } = field?;
        let replaced = match content {
            Content::Bytes(part) => new(number, part)?,
            _ => None,
        };
        match replaced {
            Some(part) => out.extend(written(number, &part)),
            None => out.extend_from_slice(all),
        }
    }
    Ok(out)
}

fn graph(bytes: &[u8], nodes: u64, ranks: &Ranks<'_>, deeper: usize) -> Result<Vec<u8>, Unreadable> {
    rewritten(bytes, |field, part| match field == nodes {
        true => node(part, ranks, deeper).map(Some),
        false => Ok(None),
    })
}

fn node(bytes: &[u8], ranks: &Ranks<'_>, deeper: usize) -> Result<Vec<u8>, Unreadable> {
    let deeper = deeper.checked_sub(1).ok_or(Unreadable)?;
    if name(bytes)? == b"Dropout" {
        return identity(bytes);
    }
    let mut out = rewritten(bytes, |field, attribute| match field {
        number::ATTRIBUTE => rewritten(attribute, |field, branch| match field {
            number::BRANCH | number::BRANCHES => graph(branch, number::NODE, ranks, deeper).map(Some),
            _ => Ok(None),
        })
        .map(Some),
        _ => Ok(None),
    })?;
    out.extend(attributes(bytes, ranks)?.unwrap_or_default());
    Ok(out)
}

/// A node that gives its first input as its first output.
fn identity(node: &[u8]) -> Result<Vec<u8>, Unreadable> {
    let first = |wanted: u64| {
        let found = fields(node).find(|field| field.as_ref().map_or(true, |field| field.number == wanted));
        match found {
            Some(Ok(field)) => Ok(field.all.to_vec()),
            _ => Err(Unreadable),
        }
    };
    Ok([first(number::INPUT)?, first(number::OUTPUT)?, written(number::OPERATOR, b"Identity")].concat())
}

/// The attributes that a node lacks; nothing where it lacks none. A `Dropout` lacks its other name.
fn attributes(node: &[u8], ranks: &Ranks<'_>) -> Result<Option<Vec<u8>>, Unreadable> {
    let slides = match name(node)? {
        b"Dropout" => return Ok(Some(vec![])),
        b"MaxPool" | b"AveragePool" | b"LpPool" => false,
        b"Conv" | b"ConvTranspose" | b"ConvInteger" => true,
        _ => return Ok(None),
    };
    let mut there: HashMap<&[u8], usize> = HashMap::new();
    let mut inputs: Vec<&[u8]> = vec![];
    for field in fields(node) {
        match field? {
            Field { number: number::INPUT, content: Content::Bytes(name), .. } => inputs.push(name),
            Field { number: number::ATTRIBUTE, content: Content::Bytes(attribute), .. } => {
                let (name, length) = whole_numbers(attribute)?;
                there.insert(name, length);
            }
            _ => {}
        }
    }
    let has = |name: &str| there.contains_key(name.as_bytes());
    let by = |name: &str| there.get(name.as_bytes()).copied().filter(|&length| length > 0);
    let axes = by("kernel_shape").or(by("strides")).or(by("dilations")).or(by("pads").map(|sides| sides / 2));
    let of_weights = || ranks.get(inputs.get(1)?).map(|rank| rank.saturating_sub(2));
    let axes = axes.or_else(of_weights).unwrap_or(AXES);
    let mut lacks = vec![];
    if !has("strides") {
        lacks.push(("strides", 1, axes));
    }
    // Without the shape of its kernel rten does not know how many axes a convolution has.
    if slides && !has("kernel_shape") {
        lacks.extend((!has("dilations")).then_some(("dilations", 1, axes)));
        lacks.extend((!has("pads") && !has("auto_pad")).then_some(("pads", 0, 2 * axes)));
    }
    let attribute = |(name, value, times)| written(number::ATTRIBUTE, &list(name, value, times));
    Ok((!lacks.is_empty()).then(|| lacks.into_iter().flat_map(attribute).collect()))
}

/// The name of an attribute, and how many whole numbers it holds.
fn whole_numbers(attribute: &[u8]) -> Result<(&[u8], usize), Unreadable> {
    let (mut name, mut length): (&[u8], usize) = (b"", 0);
    for field in fields(attribute) {
        match field? {
            Field { number: number::NAME, content: Content::Bytes(text), .. } => name = text,
            Field { number: number::WHOLES, content: Content::Whole(_), .. } => length += 1,
            Field { number: number::WHOLES, content: Content::Bytes(mut packed), .. } => {
                while !packed.is_empty() {
                    varint(&mut packed)?;
                    length += 1;
                }
            }
            _ => {}
        }
    }
    Ok((name, length))
}

/// An attribute that is a list of the same small number, each a field of its own: rten reads no packed lists here.
fn list(name: &str, value: u8, times: usize) -> Vec<u8> {
    let values = [(number::WHOLES << 3) as u8, value].repeat(times);
    // Field 20, the kind of an attribute: 7, a list of whole numbers.
    let kind = vec![0xa0, 0x01, 7];
    [written(number::NAME, name.as_bytes()), values, kind].concat()
}

/// Of the constants of the file's graph.
fn ranks(file: &[u8]) -> Result<Ranks<'_>, Unreadable> {
    let mut ranks = Ranks::new();
    for graph in parts(file, number::GRAPH)? {
        ranks.extend(constants(graph)?.into_iter().map(|(name, shape)| (name, shape.len())));
    }
    Ok(ranks)
}

/// The name and the shape of a constant.
pub(super) type Constant<'a> = (&'a [u8], Vec<u64>);

/// The constants of a graph.
pub(super) fn constants(graph: &[u8]) -> Result<Vec<Constant<'_>>, Unreadable> {
    let constant = |bytes| {
        let (mut name, mut shape): (&[u8], Vec<u64>) = (b"", vec![]);
        for field in fields(bytes) {
            match field? {
                Field { number: number::SIDE, content: Content::Whole(side), .. } => shape.push(side),
                Field { number: number::SIDE, content: Content::Bytes(mut packed), .. } => {
                    while !packed.is_empty() {
                        shape.push(varint(&mut packed)?);
                    }
                }
                Field { number: number::CONSTANT_NAME, content: Content::Bytes(text), .. } => name = text,
                _ => {}
            }
        }
        Ok((name, shape))
    };
    parts(graph, number::CONSTANT)?.into_iter().map(constant).collect()
}

/// The fields of bytes of one number.
pub(super) fn parts(bytes: &[u8], wanted: u64) -> Result<Vec<&[u8]>, Unreadable> {
    let mut found = vec![];
    for field in fields(bytes) {
        if let Field { number, content: Content::Bytes(part), .. } = field?
            && number == wanted
        {
            found.push(part);
        }
    }
    Ok(found)
}
