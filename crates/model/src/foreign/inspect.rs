//! From an ONNX file and what was asked for to a spec: inputs and outputs are read, and the network is tried on two images.

use super::fault::ForeignFault;
use super::network::{Graph, MOST_FEATURES, Port, features_of, one_line};
use super::scores::{Scores, scores};
use super::spec::{ForeignSpec, Layout, Pool, Wishes};
use rten::ThreadPool;
use rten_tensor::{Layout as _, NdTensor};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Side of an input that leaves it free, where nobody says it.
const SIDE: u32 = 224;
/// Outputs that are features by their names, in the order of preference; else the first output is taken.
const FEATURES: [&str; 3] = ["image_embeds", "pooler_output", "embeddings"];

/// What was found in a file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Inspected {
    /// What is kept of it.
    pub spec: ForeignSpec,
    /// Its inputs, for people.
    pub inputs: Vec<String>,
    /// Its outputs, for people.
    pub outputs: Vec<String>,
    /// What else could give the features, where nobody chose the output and it looks like scores of classes.
    #[serde(default)]
    pub scores: Option<ClassScores>,
}

/// An output that looks like scores of classes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClassScores {
    /// How many classes.
    pub classes: u64,
    /// The value that they are computed from, where it can be asked for.
    pub features: Option<String>,
}

/// Reads and tries a file.
pub fn inspect(bytes: Vec<u8>, wishes: &Wishes) -> Result<Inspected, ForeignFault> {
    let (file, length) = (blake3::hash(&bytes).to_hex().to_string(), bytes.len() as u64);
    wishes.check()?;
    // What cannot be read is said below.
    let scores = scores(&bytes).unwrap_or_default();
    let graph = Graph::load(bytes)?;
    let (inputs, outputs) = (graph.inputs(), graph.outputs());
    let (input, layout, fixed) = image_input(&inputs)?;
    let size = match (fixed, wishes.size) {
        (Some((height, width)), wanted) => {
            let side = wanted.unwrap_or(height as u32);
            if (height, width) != (side as usize, side as usize) {
                return Err(ForeignFault::Size { height, width, wanted: side });
            }
            side
        }
        (None, wanted) => wanted.unwrap_or(SIDE),
    };
    let output = wanted_output(&graph, &outputs, wishes.output.as_deref())?;
    let preprocessing = wishes.preprocessing(size);
    preprocessing.check()?;
    let mut spec =
        ForeignSpec { file, bytes: length, input, layout, preprocessing, output, pool: Pool::None, dim: 0 };
    try_out(&graph, &mut spec, wishes.pool)?;
    let chosen_by_nobody = wishes.output.is_none() && !FEATURES.contains(&spec.output.as_str());
    let mut scores = scores.into_iter().filter(|of| chosen_by_nobody && of.output == spec.output);
    let scores = scores.next().map(|Scores { classes, from, .. }| ClassScores {
        classes,
        features: Some(from).filter(|from| graph.knows(from)),
    });
    let words = |ports: &[Port]| ports.iter().map(ToString::to_string).collect();
    Ok(Inspected { spec, inputs: words(&inputs), outputs: words(&outputs), scores })
}

fn list(ports: &[Port]) -> String {
    match ports {
        [] => "none".into(),
        _ => one_line(&ports.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")),
    }
}

/// The input that takes the image: its name, where the channels stand, and its height and width where they are fixed.
type ImageInput = (String, Layout, Option<(usize, usize)>);

fn image_input(inputs: &[Port]) -> Result<ImageInput, ForeignFault> {
    let none = || ForeignFault::NoImageInput { inputs: list(inputs) };
    let input = match inputs {
        [] => return Err(none()),
        [one] => one,
        _ => return Err(ForeignFault::MoreInputs { inputs: list(inputs) }),
    };
    if !input.floats {
        return Err(none());
    }
    let shape = match input.shape.as_deref() {
        None => return Ok((input.name.clone(), Layout::Nchw, None)),
        Some(&[n, a, b, c]) => [n, a, b, c],
        Some(_) => return Err(none()),
    };
    if let Some(images) = shape[0].filter(|&n| n != 1) {
        return Err(ForeignFault::Batch { images });
    }
    let (layout, height, width) = match (shape[1], shape[3]) {
        (Some(3) | None, _) => (Layout::Nchw, shape[2], shape[3]),
        (_, Some(3)) => (Layout::Nhwc, shape[1], shape[2]),
        _ => return Err(none()),
    };
    Ok((input.name.clone(), layout, height.zip(width)))
}

fn wanted_output(graph: &Graph, outputs: &[Port], wanted: Option<&str>) -> Result<String, ForeignFault> {
    if let Some(wanted) = wanted {
        return match graph.knows(wanted) {
            true => Ok(wanted.to_owned()),
            false => Err(ForeignFault::NoOutput { wanted: wanted.into(), outputs: list(outputs) }),
        };
    }
    let named = FEATURES.iter().find_map(|name| outputs.iter().find(|port| port.name == *name));
    match named.or(outputs.first()) {
        Some(port) => Ok(port.name.clone()),
        None => Err(ForeignFault::NoOutput { wanted: String::new(), outputs: list(outputs) }),
    }
}

/// Runs the network on two images that have nothing in common; fills in how its output becomes a vector, and its length.
fn try_out(graph: &Graph, spec: &mut ForeignSpec, wanted: Option<Pool>) -> Result<(), ForeignFault> {
    let pool = Arc::new(ThreadPool::with_num_threads(1));
    let side = spec.preprocessing.size as usize;
    let shape = match spec.layout {
        Layout::Nchw => [1, 3, side, side],
        Layout::Nhwc => [1, side, side, 3],
    };
    let output = graph.run((&spec.input, &spec.output), NdTensor::zeros(shape), &pool)?;
    spec.pool = match (output.shape().len(), wanted) {
        (3, Some(pool)) => pool,
        (3, None) => Pool::First,
        (4, _) => Pool::Mean,
        _ => Pool::None,
    };
    let stripes: Vec<u8> =
        (0..side * side).flat_map(|i| [(i % 7 * 40) as u8, (i / side % 200) as u8, 30]).collect();
    let first = features_of(graph, spec, &vec![200; 3 * side * side], &pool)?;
    let second = features_of(graph, spec, &stripes, &pool)?;
    if first == second {
        return Err(ForeignFault::Constant);
    }
    spec.dim = first.len();
    match (2..=MOST_FEATURES).contains(&spec.dim) && second.len() == spec.dim {
        true => Ok(()),
        false => Err(ForeignFault::OutputShape {
            output: spec.output.clone(),
            shape: output.shape().to_vec(),
            most: MOST_FEATURES,
        }),
    }
}
