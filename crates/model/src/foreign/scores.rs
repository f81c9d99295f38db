//! Whether an output gives scores of the classes that a network was trained on: poor features, for what lies before them says more.

use super::completed::{constants, parts};
use super::operators::name;
use super::protobuf::{Unreadable, number};
use super::taken_out::attributes;
use std::collections::HashMap;

/// A last layer with so many columns sorts into classes; features are rarely so many after a plain product.
const MANY: u64 = 1_000;
/// Classes of ImageNet, of 1,000 and of 21,000, with and without a background: of convolutions, whose channels may be features as well.
const IMAGENET: [u64; 4] = [1_000, 1_001, 21_841, 21_843];
/// Nodes looked at from the output backwards, at most.
const STEPS: usize = 12;

/// What looks like scores of classes.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Scores {
    /// The output.
    pub(super) output: String,
    /// How many classes.
    pub(super) classes: u64,
    /// What they are computed from.
    pub(super) from: String,
}

/// A node: its operator, what it takes and what it gives.
struct Node<'a> {
    operator: &'a [u8],
    takes: Vec<&'a [u8]>,
    gives: Vec<&'a [u8]>,
    /// Whether its second input stands as [columns, rows].
    turned: bool,
}

/// The outputs of a file that look like scores of classes.
pub(super) fn scores(file: &[u8]) -> Result<Vec<Scores>, Unreadable> {
    let Some(graph) = parts(file, number::GRAPH)?.into_iter().next() else { return Ok(vec![]) };
    let constants: HashMap<&[u8], Vec<u64>> = constants(graph)?.into_iter().collect();
    let node = |bytes| -> Result<Node<'_>, Unreadable> {
        let (takes, gives) = (parts(bytes, number::INPUT)?, parts(bytes, number::OUTPUT)?);
        let mut turned = false;
        for attribute in attributes(bytes) {
            let attribute = attribute?;
            turned |= attribute.name == b"transB" && attribute.whole != 0;
        }
        Ok(Node { operator: name(bytes)?, takes, gives, turned })
    };
    let nodes = parts(graph, number::NODE)?.into_iter().map(node).collect::<Result<Vec<_>, _>>()?;
    let mut found = vec![];
    for output in parts(graph, number::GRAPH_OUTPUT)? {
        for output in parts(output, number::NAME)? {
            found.extend(scores_of(output, &nodes, &constants));
        }
    }
    Ok(found)
}

fn scores_of(output: &[u8], nodes: &[Node<'_>], constants: &HashMap<&[u8], Vec<u64>>) -> Option<Scores> {
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    let mut value = output;
    for _ in 0..STEPS {
        let node = nodes.iter().find(|node| node.gives.contains(&value))?;
        // What is not constant among the inputs: one value, or this is no plain layer.
        let mut flows = node.takes.iter().copied().filter(|name| !constants.contains_key(name));
        let before = flows.next().filter(|_| flows.next().is_none())?;
        let sides = node.takes.get(1).and_then(|name| constants.get(name)).map_or(&[][..], Vec::as_slice);
        let classes = match (node.operator, sides) {
            (b"Gemm", &[a, b]) => Some(if node.turned { a } else { b }).filter(|&n| n >= MANY),
            (b"MatMul", &[.., b]) => Some(b).filter(|&n| n >= MANY),
            (b"Conv", &[channels, _, 1, 1]) => Some(channels).filter(|n| IMAGENET.contains(n)),
            _ => None,
        };
        if let Some(classes) = classes {
            let from = text(without_identities(before, nodes));
            return Some(Scores { output: text(output), classes, from });
        }
        match node.operator {
            b"Softmax" | b"LogSoftmax" | b"Sigmoid" | b"Add" | b"Identity" | b"Flatten" | b"Reshape"
            | b"Squeeze" | b"Relu" | b"GlobalAveragePool" | b"AveragePool" | b"ReduceMean" | b"Cast"
            | b"Dropout" => value = before,
            _ => return None,
        }
    }
    None
}

/// The value that another one is a copy of: copies may be gone from a network that is ready to run.
fn without_identities<'a>(mut value: &'a [u8], nodes: &[Node<'a>]) -> &'a [u8] {
    for _ in 0..STEPS {
        let copy = nodes.iter().find(|node| {
            node.gives.first() == Some(&value) && [&b"Identity"[..], b"Dropout"].contains(&node.operator)
        });
        match copy.and_then(|node| node.takes.first()) {
            Some(original) => value = original,
            None => break,
        }
    }
    value
}
