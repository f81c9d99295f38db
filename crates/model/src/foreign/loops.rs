//! Whether an ONNX file loops. How long such a network takes may depend on the image: trying it on two images would bound nothing.
//!
//! The file is a protocol buffer. Of it only the names of the operators are looked at, also within branches.

/// Operators that run a part of the network again and again.
const LOOPS: [&[u8]; 2] = [b"Loop", b"Scan"];
/// Branches within branches, at most.
const DEEPEST: usize = 32;

/// Numbers of the fields that lead to operators.
mod field {
    pub(super) const GRAPH: u64 = 7;
    pub(super) const FUNCTION: u64 = 25;
    pub(super) const NODE: u64 = 1;
    pub(super) const FUNCTION_NODE: u64 = 7;
    pub(super) const OPERATOR: u64 = 4;
    pub(super) const ATTRIBUTE: u64 = 5;
    pub(super) const BRANCH: u64 = 6;
    pub(super) const BRANCHES: u64 = 11;
}

/// The file is no protocol buffer, or too deep.
#[derive(Debug, PartialEq)]
pub(super) struct Unreadable;

/// Whether a network has an operator that loops.
pub(super) fn has_loop(file: &[u8]) -> Result<bool, Unreadable> {
    any(file, |number, part| match number {
        field::GRAPH => graph(part, field::NODE, DEEPEST),
        field::FUNCTION => graph(part, field::FUNCTION_NODE, DEEPEST),
        _ => Ok(false),
    })
}

fn graph(bytes: &[u8], nodes: u64, deeper: usize) -> Result<bool, Unreadable> {
    any(bytes, |number, part| if number == nodes { node(part, deeper) } else { Ok(false) })
}

fn node(bytes: &[u8], deeper: usize) -> Result<bool, Unreadable> {
    any(bytes, |number, part| match number {
        field::OPERATOR => Ok(LOOPS.contains(&part)),
        field::ATTRIBUTE => any(part, |number, branch| match (number, deeper.checked_sub(1)) {
            (field::BRANCH | field::BRANCHES, None) => Err(Unreadable),
            (field::BRANCH | field::BRANCHES, Some(deeper)) => graph(branch, field::NODE, deeper),
            _ => Ok(false),
        }),
        _ => Ok(false),
    })
}

/// Whether `found` holds for a field of bytes, by its number and content.
fn any(
    mut bytes: &[u8],
    mut found: impl FnMut(u64, &[u8]) -> Result<bool, Unreadable>,
) -> Result<bool, Unreadable> {
    while !bytes.is_empty() {
        let key = varint(&mut bytes)?;
        let length = match key & 7 {
            0 => {
                varint(&mut bytes)?;
                continue;
            }
            1 => 8,
            2 => usize::try_from(varint(&mut bytes)?).map_err(|_| Unreadable)?,
            5 => 4,
            _ => return Err(Unreadable),
        };
        let (part, rest) = bytes.split_at_checked(length).ok_or(Unreadable)?;
        bytes = rest;
        if key & 7 == 2 && found(key >> 3, part)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn varint(bytes: &mut &[u8]) -> Result<u64, Unreadable> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::foreign::tiny;

    fn part(number: u64, bytes: &[u8]) -> Vec<u8> {
        let mut out = vec![(number << 3 | 2) as u8];
        let mut length = bytes.len();
        while length > 127 {
            out.push((length & 127) as u8 | 128);
            length >>= 7;
        }
        out.push(length as u8);
        [out, bytes.to_vec()].concat()
    }

    /// A file whose one operator lies within so many branches.
    fn within(depth: usize, operator: &[u8]) -> Vec<u8> {
        let mut node = part(field::OPERATOR, operator);
        for _ in 0..depth {
            let branch = part(field::ATTRIBUTE, &part(field::BRANCH, &part(field::NODE, &node)));
            node = [part(field::OPERATOR, b"If"), branch].concat();
        }
        part(field::GRAPH, &part(field::NODE, &node))
    }

    #[test]
    fn loops_are_found_wherever_they_are() {
        assert_eq!(has_loop(&tiny::network(Some(16))), Ok(false));
        for depth in [0, 1, DEEPEST] {
            assert_eq!(has_loop(&within(depth, b"Loop")), Ok(true));
            assert_eq!(has_loop(&within(depth, b"Scan")), Ok(true));
            assert_eq!(has_loop(&within(depth, b"Conv")), Ok(false));
        }
        assert_eq!(has_loop(&within(DEEPEST + 1, b"Conv")), Err(Unreadable));
        assert_eq!(has_loop(b"no network"), Err(Unreadable));
        assert_eq!(has_loop(&[0xff; 20]), Err(Unreadable));
    }
}
