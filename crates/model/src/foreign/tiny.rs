//! Small ONNX files made on the spot: protobuf by hand, so that no file and no Python is needed.

/// A protobuf field of bytes.
fn field(number: u64, bytes: &[u8]) -> Vec<u8> {
    [varint(number << 3 | 2), varint(bytes.len() as u64), bytes.to_vec()].concat()
}

/// A protobuf field of a whole number.
fn whole(number: u64, value: u64) -> Vec<u8> {
    [varint(number << 3), varint(value)].concat()
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    loop {
        let more = value >= 128;
        out.push((value & 127) as u8 | if more { 128 } else { 0 });
        value >>= 7;
        if !more {
            return out;
        }
    }
}

/// An input or output of floats; `None` is a free side.
pub fn value(name: &str, shape: &[Option<u64>]) -> Vec<u8> {
    let dim = |side: &Option<u64>| match side {
        Some(side) => field(1, &whole(1, *side)),
        None => field(1, &field(2, b"free")),
    };
    let shape: Vec<u8> = shape.iter().flat_map(dim).collect();
    let tensor = [whole(1, 1), field(2, &shape)].concat();
    [field(1, name.as_bytes()), field(2, &field(1, &tensor))].concat()
}

/// A constant of floats.
pub fn floats(name: &str, shape: &[u64], values: &[f32]) -> Vec<u8> {
    let raw: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    tensor(name, shape, 1, &raw)
}

/// A constant of whole numbers.
pub fn wholes(name: &str, values: &[i64]) -> Vec<u8> {
    let raw: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    tensor(name, &[values.len() as u64], 7, &raw)
}

fn tensor(name: &str, shape: &[u64], kind: u64, raw: &[u8]) -> Vec<u8> {
    let dims: Vec<u8> = shape.iter().flat_map(|&d| whole(1, d)).collect();
    [dims, whole(2, kind), field(8, name.as_bytes()), field(9, raw)].concat()
}

/// A node; `ints`: attributes that are lists of whole numbers.
pub fn node(op: &str, inputs: &[&str], output: &str, ints: &[(&str, &[u64])]) -> Vec<u8> {
    let mut out: Vec<u8> = inputs.iter().flat_map(|name| field(1, name.as_bytes())).collect();
    out.extend(field(2, output.as_bytes()));
    out.extend(field(3, format!("{op} for {output}").as_bytes()));
    out.extend(field(4, op.as_bytes()));
    for (name, values) in ints {
        let list: Vec<u8> = values.iter().flat_map(|&v| whole(8, v)).collect();
        out.extend(field(5, &[field(1, name.as_bytes()), list, whole(20, 7)].concat()));
    }
    out
}

/// An attribute of a node that is a text, to be put behind it.
pub fn text(name: &str, text: &str) -> Vec<u8> {
    field(5, &[field(1, name.as_bytes()), field(4, text.as_bytes()), whole(20, 3)].concat())
}

/// The same of a whole number.
pub fn number(name: &str, number: u64) -> Vec<u8> {
    field(5, &[field(1, name.as_bytes()), whole(3, number), whole(20, 2)].concat())
}

/// The same of a number.
pub fn float(name: &str, number: f32) -> Vec<u8> {
    let four = [varint(2 << 3 | 5), number.to_le_bytes().to_vec()].concat();
    field(5, &[field(1, name.as_bytes()), four, whole(20, 1)].concat())
}

/// A convolution. Every attribute is written, as exporters do: rten takes no default for them.
pub fn conv(inputs: &[&str], output: &str, stride: u64, pad: u64) -> Vec<u8> {
    let (strides, pads) = ([stride; 2], [pad; 4]);
    node("Conv", inputs, output, &[("dilations", &[1, 1]), ("pads", &pads), ("strides", &strides)])
}

/// A file: nodes, constants, inputs, outputs.
pub fn file(nodes: &[Vec<u8>], constants: &[Vec<u8>], inputs: &[Vec<u8>], outputs: &[Vec<u8>]) -> Vec<u8> {
    let part = |number: u64, parts: &[Vec<u8>]| -> Vec<u8> {
        parts.iter().flat_map(|part| field(number, part)).collect()
    };
    let graph =
        [part(1, nodes), field(2, b"tiny"), part(5, constants), part(11, inputs), part(12, outputs)].concat();
    [whole(1, 8), field(8, &whole(2, 17)), field(7, &graph)].concat()
}

/// A network that sees colours, edges and their places a little: convolution, ReLU, mean over a grid. Input `x`
/// [N, 3, side, side], outputs `features` [N, 8] (pooled) and `map` [N, 8, ., .].
pub fn network(side: Option<u64>) -> Vec<u8> {
    // Weights that look random and are the same everywhere.
    let weight = |i: u32| ((i.wrapping_mul(2_654_435_761) >> 16) % 2_001) as f32 / 1_000.0 - 1.0;
    let weights: Vec<f32> = (0..8 * 3 * 3 * 3).map(weight).collect();
    let bias: Vec<f32> = (0..8).map(|i| 0.1 * weight(1_000 + i)).collect();
    let nodes = [
        conv(&["x", "w", "b"], "c", 2, 1),
        node("Relu", &["c"], "map", &[]),
        node("GlobalAveragePool", &["map"], "p", &[]),
        node("Flatten", &["p"], "features", &[]),
    ];
    file(
        &nodes,
        &[floats("w", &[8, 3, 3, 3], &weights), floats("b", &[8], &bias)],
        &[value("x", &[None, Some(3), side, side])],
        &[value("features", &[None, Some(8)]), value("map", &[None, Some(8), None, None])],
    )
}
