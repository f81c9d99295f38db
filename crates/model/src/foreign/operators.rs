//! Whether an ONNX file has an operator of some kind, also within branches and functions.

use super::protobuf::{Content, Unreadable, fields, number};

/// Operators that run a part of the network again and again. How long such a network takes may depend on the image: trying it on two
/// images would bound nothing.
const LOOPS: [&[u8]; 2] = [b"Loop", b"Scan"];
/// Branches within branches, at most.
pub(super) const DEEPEST: usize = 32;

/// Whether a node is one that is looked for.
type Wanted = fn(&[u8]) -> Result<bool, Unreadable>;

/// Whether a network has an operator that loops.
pub(super) fn has_loop(file: &[u8]) -> Result<bool, Unreadable> {
    has(file, |node| Ok(LOOPS.contains(&name(node)?)))
}

/// Whether a network has a wanted operator.
pub(super) fn has(file: &[u8], wanted: Wanted) -> Result<bool, Unreadable> {
    any(file, |number, part| match number {
        number::GRAPH => graph(part, number::NODE, DEEPEST, wanted),
        number::FUNCTION => graph(part, number::FUNCTION_NODE, DEEPEST, wanted),
        _ => Ok(false),
    })
}

/// Which operator a node is.
pub(super) fn name(node: &[u8]) -> Result<&[u8], Unreadable> {
    let mut found: &[u8] = b"";
    for field in fields(node) {
        let field = field?;
        if let (number::OPERATOR, Content::Bytes(name)) = (field.number, field.content) {
            found = name;
        }
    }
    Ok(found)
}

fn graph(bytes: &[u8], nodes: u64, deeper: usize, wanted: Wanted) -> Result<bool, Unreadable> {
    any(bytes, |number, part| if number == nodes { node(part, deeper, wanted) } else { Ok(false) })
}

fn node(bytes: &[u8], deeper: usize, wanted: Wanted) -> Result<bool, Unreadable> {
    let within = any(bytes, |number, part| match number {
        number::ATTRIBUTE => any(part, |number, branch| match (number, deeper.checked_sub(1)) {
            (number::BRANCH | number::BRANCHES, None) => Err(Unreadable),
            (number::BRANCH | number::BRANCHES, Some(deeper)) => graph(branch, number::NODE, deeper, wanted),
            _ => Ok(false),
        }),
        _ => Ok(false),
    });
    Ok(within? || wanted(bytes)?)
}

/// Whether `found` holds for a field of bytes, by its number and content.
fn any(
    bytes: &[u8],
    mut found: impl FnMut(u64, &[u8]) -> Result<bool, Unreadable>,
) -> Result<bool, Unreadable> {
    for field in fields(bytes) {
        let field = field?;
        if let Content::Bytes(part) = field.content
            && found(field.number, part)?
        {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::super::protobuf::written;
    use super::*;
    use crate::foreign::tiny;

    /// A file whose one operator lies within so many branches.
    fn within(depth: usize, operator: &[u8]) -> Vec<u8> {
        let mut node = written(number::OPERATOR, operator);
        for _ in 0..depth {
            let branch = written(number::ATTRIBUTE, &written(number::BRANCH, &written(number::NODE, &node)));
            node = [written(number::OPERATOR, b"If"), branch].concat();
        }
        written(number::GRAPH, &written(number::NODE, &node))
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
