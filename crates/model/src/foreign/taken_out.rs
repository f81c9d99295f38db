//! Cubic `Resize` in an ONNX file: such operators are taken out, what they give becomes an input and what they take an output.

use super::cubic::{By, Coordinates, Cubic};
use super::operators::name;
use super::protobuf::{Content, Unreadable, fields, number, varint, written};

/// Why a cubic `Resize` cannot be computed.
#[derive(Debug, PartialEq)]
pub(super) enum Trouble {
    Unreadable,
    Setting(String),
}

impl From<Unreadable> for Trouble {
    fn from(_: Unreadable) -> Self {
        Trouble::Unreadable
    }
}

/// Whether a node is a cubic `Resize`.
pub(super) fn is_cubic(node: &[u8]) -> Result<bool, Unreadable> {
    if name(node)? != b"Resize" {
        return Ok(false);
    }
    let mut cubic = false;
    for attribute in attributes(node) {
        let attribute = attribute?;
        cubic |= attribute.name == b"mode" && attribute.text == b"cubic";
    }
    Ok(cubic)
}

/// A file without the cubic `Resize` of its graph.
pub(super) struct TakenOut {
    pub(super) file: Vec<u8>,
    /// Those it had, in order.
    pub(super) cubics: Vec<Cubic>,
    /// Outputs that were added, behind all others.
    pub(super) outputs: usize,
}

/// Nothing where the file has none.
pub(super) fn taken_out(file: &[u8]) -> Result<Option<TakenOut>, Trouble> {
    let mut found = TakenOut { file: Vec::with_capacity(file.len()), cubics: vec![], outputs: 0 };
    for field in fields(file) {
        let field = field?;
        match (field.number, field.content) {
            (number::GRAPH, Content::Bytes(graph)) => {
                let graph = without(graph, &mut found)?;
                found.file.extend(written(number::GRAPH, &graph));
            }
            _ => found.file.extend_from_slice(field.all),
        }
    }
    Ok((!found.cubics.is_empty()).then_some(found))
}

fn without(graph: &[u8], found: &mut TakenOut) -> Result<Vec<u8>, Trouble> {
    let (mut out, mut outputs) = (Vec::with_capacity(graph.len()), vec![]);
    for field in fields(graph) {
        let field = field?;
        match (field.number, field.content) {
            (number::NODE, Content::Bytes(node)) if is_cubic(node)? => {
                found.cubics.push(Cubic::read(node)?);
                continue;
            }
            (number::GRAPH_OUTPUT, Content::Bytes(output)) => outputs.push(first_text(output, number::NAME)?),
            _ => {}
        }
        out.extend_from_slice(field.all);
    }
    for cubic in &found.cubics {
        out.extend(written(number::GRAPH_INPUT, &port(&cubic.output, 1)));
        // What nobody takes any more may be left out of the graph, unless it is an output.
        for (name, kind) in cubic.takes() {
            if !outputs.iter().any(|other| other == name) {
                out.extend(written(number::GRAPH_OUTPUT, &port(name, kind)));
                outputs.push(name.to_owned());
                found.outputs += 1;
            }
        }
    }
    Ok(out)
}

/// An input or output of some type and of any shape.
fn port(name: &str, kind: u8) -> Vec<u8> {
    let tensor = [8, kind];
    [written(number::NAME, name.as_bytes()), written(2, &written(1, &tensor))].concat()
}

fn first_text(message: &[u8], wanted: u64) -> Result<String, Unreadable> {
    for field in fields(message) {
        let field = field?;
        if let (true, Content::Bytes(text)) = (field.number == wanted, field.content) {
            return text_of(text);
        }
    }
    Ok(String::new())
}

fn text_of(bytes: &[u8]) -> Result<String, Unreadable> {
    String::from_utf8(bytes.to_vec()).map_err(|_| Unreadable)
}

#[derive(Default)]
pub(super) struct Attribute<'a> {
    pub(super) name: &'a [u8],
    text: &'a [u8],
    float: f32,
    pub(super) whole: u64,
    wholes: Vec<i64>,
}

pub(super) fn attributes(node: &[u8]) -> impl Iterator<Item = Result<Attribute<'_>, Unreadable>> {
    fields(node).filter_map(|field| match field {
        Ok(field) => match (field.number, field.content) {
            (number::ATTRIBUTE, Content::Bytes(bytes)) => Some(attribute(bytes)),
            _ => None,
        },
        Err(why) => Some(Err(why)),
    })
}

fn attribute(bytes: &[u8]) -> Result<Attribute<'_>, Unreadable> {
    let mut of = Attribute::default();
    for field in fields(bytes) {
        let field = field?;
        match (field.number, field.content) {
            (number::NAME, Content::Bytes(name)) => of.name = name,
            (number::TEXT, Content::Bytes(text)) => of.text = text,
            (number::FLOAT, Content::Float(float)) => of.float = float,
            (number::WHOLE, Content::Whole(whole)) => of.whole = whole,
            (number::WHOLES, Content::Whole(whole)) => of.wholes.push(whole as i64),
            (number::WHOLES, Content::Bytes(mut packed)) => {
                while !packed.is_empty() {
                    of.wholes.push(varint(&mut packed)? as i64);
                }
            }
            _ => {}
        }
    }
    Ok(of)
}

impl Cubic {
    fn read(node: &[u8]) -> Result<Cubic, Trouble> {
        let mut inputs = vec![];
        for field in fields(node) {
            let field = field?;
            if let (number::INPUT, Content::Bytes(name)) = (field.number, field.content) {
                inputs.push(text_of(name)?);
            }
        }
        // Data, region, scales, sizes; what is not given has no name, or is not there.
        inputs.resize(4, String::new());
        let [data, _, scales, sizes] = <[String; 4]>::try_from(inputs).map_err(|_| Trouble::Unreadable)?;
        let by = match (scales.is_empty(), sizes.is_empty()) {
            (_, false) => By::Sizes(sizes),
            (false, true) => By::Scales(scales),
            (true, true) => return Err(Trouble::Setting("says neither scales nor sizes".into())),
        };
        let mut cubic = Cubic {
            data,
            by,
            output: first_text(node, number::OUTPUT)?,
            coordinates: Coordinates::HalfPixel,
            coefficient: -0.75,
            inside_only: false,
            axes: vec![],
        };
        for attribute in attributes(node) {
            cubic.set(&attribute?)?;
        }
        Ok(cubic)
    }

    fn set(&mut self, of: &Attribute<'_>) -> Result<(), Trouble> {
        let refused = || {
            let [name, text] = [of.name, of.text].map(String::from_utf8_lossy);
            Err(Trouble::Setting(format!(
                "has {name} = {}",
                if text.is_empty() { of.whole.to_string() } else { text.into() }
            )))
        };
        match of.name {
            b"coordinate_transformation_mode" => {
                self.coordinates = match of.text {
                    b"half_pixel" => Coordinates::HalfPixel,
                    b"pytorch_half_pixel" => Coordinates::PytorchHalfPixel,
                    b"asymmetric" => Coordinates::Asymmetric,
                    b"align_corners" => Coordinates::AlignCorners,
                    _ => return refused(),
                };
            }
            b"cubic_coeff_a" => self.coefficient = of.float,
            b"exclude_outside" => self.inside_only = of.whole != 0,
            b"axes" => self.axes.clone_from(&of.wholes),
            b"antialias" if of.whole != 0 => return refused(),
            b"keep_aspect_ratio_policy" if of.text != b"stretch" => return refused(),
            _ => {}
        }
        Ok(())
    }
}
