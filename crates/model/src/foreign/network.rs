//! An ONNX network, loaded and run by rten, or by ONNX Runtime where its library is named: one image at a time on one thread each, so that the features of an image depend
//! neither on the other images nor on the number of threads.

use super::completed::completed;
use super::cubic::Cubic;
use super::fault::ForeignFault;
use super::operators::{has, has_loop};
use super::preprocess::Preprocessing;
use super::spec::{ForeignSpec, Layout, Pool};
use super::taken_out::{TakenOut, Trouble, is_cubic, taken_out};
use rten::{DataType, Dimension, ModelOptions, NodeId, RunOptions, ThreadPool, Value, ValueType};
use rten_tensor::{AsView as _, Layout as _, NdTensor, Tensor};
use siskin_data::files;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Most bytes of an ONNX file.
pub const MOST_BYTES: u64 = 1 << 30;
/// Most features of an image.
pub(crate) const MOST_FEATURES: usize = 65_536;

/// An input or output: name and shape, with `None` where the shape is free.
#[derive(Debug, Clone, PartialEq)]
pub struct Port {
    /// Its name.
    pub name: String,
    /// Its shape, where the file says it.
    pub shape: Option<Vec<Option<usize>>>,
    /// Whether it holds 32-bit floats (or the file does not say what).
    pub floats: bool,
}

impl std::fmt::Display for Port {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let side = |d: &Option<usize>| d.map_or("?".to_owned(), |n| n.to_string());
        match &self.shape {
            Some(shape) => {
                write!(f, "`{}` [{}]", self.name, shape.iter().map(side).collect::<Vec<_>>().join(", "))
            }
            None => write!(f, "`{}` of unknown shape", self.name),
        }
    }
}

/// A loaded ONNX file.
pub struct Graph(Engine);

/// What rten runs, and what it does not know.
struct Rten {
    model: rten::Model,
    cubics: Vec<Cubic>,
    /// Outputs that were added for them, behind all others.
    added: usize,
}

/// What runs it.
enum Engine {
    Rten(Box<Rten>),
    #[cfg(feature = "ort")]
    Runtime(super::runtime::Runtime),
}

impl Graph {
    /// Reads a file. What rten does not know is refused with its words; a panic inside it is an error like others. So are loops.
    pub fn load(bytes: Vec<u8>) -> Result<Graph, ForeignFault> {
        let loops = has_loop(&bytes);
        let graph = Graph::read(bytes)?;
        match loops {
            Ok(false) => Ok(graph),
            Ok(true) => Err(ForeignFault::Loops),
            Err(_) => Err(ForeignFault::Load { why: "its parts contradict each other".into() }),
        }
    }

    fn read(bytes: Vec<u8>) -> Result<Graph, ForeignFault> {
        #[cfg(feature = "ort")]
        if super::runtime::wanted() {
            return super::runtime::Runtime::load(bytes).map(|runtime| Graph(Engine::Runtime(runtime)));
        }
        // What cannot be read is said by rten.
        let bytes = completed(&bytes).ok().flatten().unwrap_or(bytes);
        let found = match taken_out(&bytes) {
            Ok(Some(found)) => found,
            Ok(None) | Err(Trouble::Unreadable) => TakenOut { file: bytes, cubics: vec![], outputs: 0 },
            Err(Trouble::Setting(why)) => return Err(ForeignFault::Cubic { why }),
        };
        let TakenOut { file, cubics, outputs: added } = found;
        if has(&file, is_cubic) == Ok(true) {
            return Err(ForeignFault::Cubic { why: "lies within a branch or a function".into() });
        }
        let load = || ModelOptions::with_all_ops().prepack_weights(true).load(file);
        match catch_unwind(AssertUnwindSafe(load)) {
            Ok(Ok(model)) => Ok(Graph(Engine::Rten(Box::new(Rten { model, cubics, added })))),
            Ok(Err(e)) => Err(ForeignFault::Load { why: one_line(&e.to_string()) }),
            Err(_) => Err(ForeignFault::Load { why: "its parts contradict each other".into() }),
        }
    }

    /// Its inputs.
    pub fn inputs(&self) -> Vec<Port> {
        match &self.0 {
            Engine::Rten(rten) => {
                let inputs = rten.model.input_ids().iter().map(|&id| port(&rten.model, id));
                inputs.filter(|port| rten.cubics.iter().all(|cubic| cubic.output != port.name)).collect()
            }
            #[cfg(feature = "ort")]
            Engine::Runtime(runtime) => runtime.inputs(),
        }
    }

    /// Its outputs.
    pub fn outputs(&self) -> Vec<Port> {
        match &self.0 {
            Engine::Rten(rten) => {
                let all = rten.model.output_ids();
                let own = &all[..all.len().saturating_sub(rten.added)];
                own.iter().map(|&id| port(&rten.model, id)).collect()
            }
            #[cfg(feature = "ort")]
            Engine::Runtime(runtime) => runtime.outputs(),
        }
    }

    /// Whether a value of this name can be asked for: an output, or with rten a value inside.
    pub fn knows(&self, name: &str) -> bool {
        match &self.0 {
            Engine::Rten(rten) => rten.model.find_node(name).is_some(),
            #[cfg(feature = "ort")]
            Engine::Runtime(runtime) => runtime.outputs().iter().any(|port| port.name == name),
        }
    }

    /// The output of one input.
    pub(crate) fn run(
        &self,
        (input, output): (&str, &str),
        x: NdTensor<f32, 4>,
        pool: &Arc<ThreadPool>,
    ) -> Result<Tensor<f32>, ForeignFault> {
        let rten = match &self.0 {
            Engine::Rten(rten) => rten,
            #[cfg(feature = "ort")]
            Engine::Runtime(runtime) => return runtime.run((input, output), &x),
        };
        let mut known = vec![(rten.node(input)?, Value::from(x))];
        for cubic in &rten.cubics {
            let given = rten.cubic(cubic, &known, pool)?;
            known.push((rten.node(&cubic.output)?, given.into()));
        }
        match rten.values(&[output], &known, pool)?.pop() {
            Some(Value::FloatTensor(tensor)) => Ok(tensor),
            _ => Err(ForeignFault::OutputType { output: output.into() }),
        }
    }
}

impl Rten {
    fn node(&self, name: &str) -> Result<NodeId, ForeignFault> {
        self.model.node_id(name).map_err(|e| ForeignFault::Run { why: one_line(&e.to_string()) })
    }

    /// Values of these names, computed from those that are known.
    fn values(
        &self,
        names: &[&str],
        known: &[(NodeId, Value)],
        pool: &Arc<ThreadPool>,
    ) -> Result<Vec<Value>, ForeignFault> {
        let wanted = names.iter().map(|name| self.node(name)).collect::<Result<Vec<_>, _>>()?;
        let mut options = RunOptions::default();
        options.thread_pool = Some(pool.clone());
        let known = known.iter().map(|(id, value)| (*id, value.as_view().into())).collect();
        match catch_unwind(AssertUnwindSafe(|| self.model.run(known, &wanted, Some(options)))) {
            Ok(Ok(values)) => Ok(values),
            Ok(Err(e)) => Err(ForeignFault::Run { why: one_line(&e.to_string()) }),
            Err(_) => Err(ForeignFault::Run { why: "rten gave up in an unforeseen way".into() }),
        }
    }

    fn cubic(
        &self,
        cubic: &Cubic,
        known: &[(NodeId, Value)],
        pool: &Arc<ThreadPool>,
    ) -> Result<Tensor<f32>, ForeignFault> {
        let [data, by] = cubic.takes().map(|(name, _)| name);
        let fault = |why: String| ForeignFault::Run { why };
        let types = || fault("a cubic Resize of numbers that are no 32-bit floats".into());
        let [data, by] =
            <[Value; 2]>::try_from(self.values(&[data, by], known, pool)?).map_err(|_| types())?;
        let by: Vec<f64> = match &by {
            Value::FloatTensor(scales) => scales.iter().map(|&scale| f64::from(scale)).collect(),
            Value::Int32Tensor(sizes) => sizes.iter().map(|&size| f64::from(size)).collect(),
            _ => return Err(types()),
        };
        match &data {
            Value::FloatTensor(data) => cubic.resized(data, &by).map_err(fault),
            _ => Err(types()),
        }
    }
}

fn port(model: &rten::Model, id: NodeId) -> Port {
    let info = model.node_info(id);
    let side = |d: &Dimension| match d {
        Dimension::Fixed(n) => Some(*n),
        Dimension::Symbolic(_) => None,
    };
    let dtype = info.as_ref().and_then(|i| i.dtype());
    Port {
        name: info.as_ref().and_then(|i| i.name()).unwrap_or_default().to_owned(),
        shape: info.as_ref().and_then(|i| i.shape()).map(|s| s.iter().map(side).collect()),
        floats: dtype.is_none_or(|t| t == ValueType::Tensor(DataType::Float)),
    }
}

/// What the features that a foreign network of this hash gives are kept by: those of other engines differ in their last digits.
pub fn features_key(hash: &str) -> String {
    match engine() {
        RTEN => hash.to_owned(),
        _ => format!("ort-{hash}"),
    }
}

/// What foreign networks are run by in this process.
pub fn engine() -> &'static str {
    #[cfg(feature = "ort")]
    if super::runtime::wanted() {
        return "ONNX Runtime";
    }
    RTEN
}

const RTEN: &str = "rten";

/// A foreign network, ready to run or to be loaded when it first runs.
pub struct ForeignNetwork {
    graph: OnceLock<Graph>,
    spec: ForeignSpec,
    /// Where its file is, of one that is not loaded yet.
    file: Mutex<Option<PathBuf>>,
}

impl ForeignNetwork {
    /// The file must be the one that `spec` was made of.
    pub fn load(spec: ForeignSpec, bytes: Vec<u8>) -> Result<ForeignNetwork, ForeignFault> {
        spec.preprocessing.check()?;
        Ok(ForeignNetwork { graph: OnceLock::from(checked(&spec, bytes)?), spec, file: Mutex::new(None) })
    }

    /// One that is read from `file` when its features are first asked for.
    pub fn later(spec: ForeignSpec, file: PathBuf) -> Result<ForeignNetwork, ForeignFault> {
        spec.preprocessing.check()?;
        Ok(ForeignNetwork { graph: OnceLock::new(), spec, file: Mutex::new(Some(file)) })
    }

    fn graph(&self) -> Result<&Graph, ForeignFault> {
        if let Some(graph) = self.graph.get() {
            return Ok(graph);
        }
        // One of those who ask at the same time loads it. A poisoned lock means that one panicked before it was loaded.
        let file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        if let (None, Some(path)) = (self.graph.get(), file.as_ref()) {
            let unread = |e: std::io::Error| ForeignFault::Unread { why: e.to_string() };
            let graph = checked(&self.spec, files::read(path, MOST_BYTES).map_err(unread)?)?;
            return Ok(self.graph.get_or_init(|| graph));
        }
        self.graph.get().ok_or(ForeignFault::OtherFile)
    }

    /// The same network with other preprocessing.
    pub fn with_preprocessing(mut self, preprocessing: Preprocessing) -> ForeignNetwork {
        self.spec.preprocessing = preprocessing;
        self
    }

    /// What is known of it.
    pub fn spec(&self) -> &ForeignSpec {
        &self.spec
    }

    /// Features of images, [N, dim]; `images`: the pixels that [`super::Preprocessing::pixels`] makes of each. `None` once `stop`
    /// is set.
    pub fn features(&self, images: &[&[u8]], stop: &AtomicBool) -> Result<Option<Vec<f32>>, ForeignFault> {
        let graph = self.graph()?;
        let (next, ended) = (AtomicUsize::new(0), AtomicBool::new(false));
        let worker = || {
            // A pool of one thread each: results cannot depend on how work is split.
            let pool = Arc::new(ThreadPool::with_num_threads(1));
            let mut rows = Vec::new();
            loop {
                let image = next.fetch_add(1, Ordering::Relaxed);
                if image >= images.len() || stop.load(Ordering::Relaxed) || ended.load(Ordering::Relaxed) {
                    return Ok(rows);
                }
                match self.row(graph, images[image], &pool) {
                    Ok(row) => rows.push((image, row)),
                    Err(fault) => {
                        ended.store(true, Ordering::Relaxed);
                        return Err(fault);
                    }
                }
            }
        };
        let workers = rayon::current_num_threads().clamp(1, images.len().max(1));
        let parts: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..workers).map(|_| scope.spawn(worker)).collect();
            let lost = || Err(ForeignFault::Run { why: "a thread ended in an unforeseen way".into() });
            threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| lost())).collect()
        });
        let mut out = vec![0.0; images.len() * self.spec.dim];
        for part in parts {
            for (image, row) in part? {
                out[image * self.spec.dim..(image + 1) * self.spec.dim].copy_from_slice(&row);
            }
        }
        Ok((!stop.load(Ordering::Relaxed)).then_some(out))
    }

    fn row(&self, graph: &Graph, pixels: &[u8], pool: &Arc<ThreadPool>) -> Result<Vec<f32>, ForeignFault> {
        let row = features_of(graph, &self.spec, pixels, pool)?;
        match row.len() == self.spec.dim {
            true => Ok(row),
            false => Err(ForeignFault::Run {
                why: format!("it gave {} features, and {} when it was added", row.len(), self.spec.dim),
            }),
        }
    }
}

/// The network of a file, which must be the one that `spec` was made of.
fn checked(spec: &ForeignSpec, bytes: Vec<u8>) -> Result<Graph, ForeignFault> {
    match blake3::hash(&bytes).to_hex().as_str() == spec.file {
        true => Graph::load(bytes),
        false => Err(ForeignFault::OtherFile),
    }
}

/// The features of one image by what `spec` says, whatever their number.
pub(crate) fn features_of(
    graph: &Graph,
    spec: &ForeignSpec,
    pixels: &[u8],
    pool: &Arc<ThreadPool>,
) -> Result<Vec<f32>, ForeignFault> {
    let output = graph.run((&spec.input, &spec.output), input(spec, pixels), pool)?;
    let row = pooled(&output, spec.pool).ok_or_else(|| ForeignFault::OutputShape {
        output: spec.output.clone(),
        shape: output.shape().to_vec(),
        most: MOST_FEATURES,
    })?;
    match row.iter().all(|v| v.is_finite()) {
        true => Ok(row),
        false => Err(ForeignFault::NotFinite),
    }
}

/// The network's input from pixels [size, size, 3].
fn input(spec: &ForeignSpec, pixels: &[u8]) -> NdTensor<f32, 4> {
    let of = &spec.preprocessing;
    let side = of.size as usize;
    let tables: [[f32; 256]; 3] =
        std::array::from_fn(|c| std::array::from_fn(|byte| of.normalised(c, byte as u8)));
    let order = if of.bgr { [2, 1, 0] } else { [0, 1, 2] };
    match spec.layout {
        Layout::Nhwc => {
            let pixel = |rgb: &[u8]| order.map(|c| tables[c][rgb[c] as usize]);
            let values: Vec<f32> = pixels.chunks_exact(3).flat_map(pixel).collect();
            NdTensor::from_data([1, side, side, 3], values)
        }
        Layout::Nchw => {
            let channel = |c: usize| pixels[c..].iter().step_by(3).map(move |&v| (c, v));
            let values: Vec<f32> =
                order.into_iter().flat_map(channel).map(|(c, v)| tables[c][v as usize]).collect();
            NdTensor::from_data([1, 3, side, side], values)
        }
    }
}

/// One vector from an output; `None` if its shape does not allow that.
fn pooled(output: &Tensor<f32>, pool: Pool) -> Option<Vec<f32>> {
    let values = output.to_vec();
    let row = match (output.shape(), pool) {
        (&[1, _], Pool::None) => values,
        (&[1, tokens, dim], Pool::First) if tokens > 0 => values[..dim].to_vec(),
        (&[1, tokens, dim], Pool::Mean) if tokens > 0 => mean(dim, tokens, |d, t| values[t * dim + d]),
        (&[1, dim, height, width], Pool::Mean) if height * width > 0 => {
            mean(dim, height * width, |d, place| values[d * height * width + place])
        }
        _ => return None,
    };
    (2..=MOST_FEATURES).contains(&row.len()).then_some(row)
}

fn mean(dim: usize, count: usize, at: impl Fn(usize, usize) -> f32) -> Vec<f32> {
    let sum = |d: usize| (0..count).map(|i| f64::from(at(d, i))).sum::<f64>();
    (0..dim).map(|d| (sum(d) / count as f64) as f32).collect()
}

/// Somebody else's message as one line of at most 300 letters.
pub(crate) fn one_line(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    line.chars().take(300).collect()
}
