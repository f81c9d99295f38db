//! A model: trained here (from one exported file, embedded in the program, or from a run folder), or somebody else's network that
//! was added under a name.

use crate::card::Card;
use crate::embed::embed;
use crate::error::{Error, Result};
use crate::file;
use crate::foreign::{ForeignNetwork, ForeignSpec, NetworkRef, Registry, features_key};
use crate::kept_card;
use crate::kept_features::images_at_a_time;
use crate::legacy::spec_of_config;
use crate::look::{Look, Looks, Mismatch};
use crate::seal;
use crate::spec::ModelSpec;
use crate::tensors::{decode, encode};
use crate::view::{Pixels, View};
use serde_json::Value;
use siskin_data::open::SHORTER_SIDE;
use siskin_data::{Image, Transform, files};
use siskin_methods::{Features, GaussianProcess, Images, Method, Role, Rows, State};
use siskin_nn::{Architecture, DeviceChoice};
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// The models inside the program, by name.
pub const EMBEDDED: [(&str, &[u8]); 2] = [
    ("omniglot-conv4s", include_bytes!("../../../models/omniglot-conv4s.safetensors")),
    ("mini-imagenet-conv4", include_bytes!("../../../models/mini-imagenet-conv4.safetensors")),
];

/// Most bytes of a model file.
pub(crate) const MOST_BYTES: u64 = 2 << 30;
/// Key of a checkpoint's record.
pub(crate) const CHECKPOINT: &str = "siskin";

/// A model.
pub struct Model {
    hash: String,
    origin: String,
    /// Whether a checksum says that it is whole.
    sealed: bool,
    kind: Kind,
}

/// Where its features come from.
enum Kind {
    /// A network that was trained here, with its head.
    Trained(Box<Trained>),
    /// Somebody else's network, without a head.
    Foreign { name: String, network: Box<ForeignNetwork> },
}

/// What sees the images.
enum Sight<'a> {
    /// The network that was trained here.
    Own(Transform),
    /// Somebody else's.
    Other(&'a ForeignNetwork),
}

struct Trained {
    card: Card,
    state: State,
    method: Box<dyn Method>,
    /// Somebody else's network whose vectors the method takes; none where its own network sees the images.
    network: Option<Box<ForeignNetwork>>,
}

/// What turns labelled features into answers.
pub enum ModelHead {
    /// The Gaussian process that was trained with the backbone.
    Process(GaussianProcess),
    /// None yet: a kernel on unit vectors, learned from the examples alone.
    FromExamples,
}

impl Model {
    /// The model that `name` means: an embedded one, one added by `siskin model add`, a run folder of `siskin train`, or a file of
    /// `siskin export`.
    pub fn open(name: &str) -> Result<Model> {
        Model::open_on(name, DeviceChoice::Cpu)
    }

    /// The same on other hardware.
    pub fn open_on(name: &str, device: DeviceChoice) -> Result<Model> {
        if let Some((_, bytes)) = EMBEDDED.iter().find(|(known, _)| *known == name) {
            return Model::from_bytes_on(bytes, name, device);
        }
        if let Some(registry) = Registry::default_folder().filter(|registry| registry.has(name)) {
            return match device.name() {
                "cpu" => Model::added(&registry, name),
                other => Err(bad(
                    name,
                    format!("an added network is computed by the CPU alone: leave --device {other} out"),
                )),
            };
        }
        let path = Path::new(name);
        if path.is_dir() {
            return Model::from_run(path, device);
        }
        let bytes = files::read(path, MOST_BYTES).map_err(|source| match source.kind() {
            std::io::ErrorKind::NotFound => bad(
                name,
                format!(
                    "there is no such file or folder, no model of this name was added, and none is embedded (there is: {}). \
                     Give a run folder of `siskin train` or a file of `siskin export`, or add an ONNX file: siskin model add",
                    EMBEDDED.map(|(name, _)| name).join(", ")
                ),
            ),
            _ => Error::Io { action: "read the model", path: path.into(), source },
        })?;
        if path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("onnx")) {
            let why = "an ONNX file is added under a name first: siskin model add FILE --name NAME";
            return Err(bad(name, why.into()));
        }
        Model::from_bytes_on(&bytes, &absolute(path), device)
    }

    /// A model that was added to `registry`.
    pub fn added(registry: &Registry, name: &str) -> Result<Model> {
        Ok(Model::of_network(name, registry.open(name)?))
    }

    /// The same, loaded when its features are first asked for: offering many costs nothing.
    pub fn added_later(registry: &Registry, name: &str) -> Result<Model> {
        Ok(Model::of_network(name, registry.later(name)?))
    }

    /// A model of a foreign network.
    pub fn of_network(name: &str, network: ForeignNetwork) -> Model {
        let hash = network.spec().hash();
        let kind = Kind::Foreign { name: name.into(), network: Box::new(network) };
        Model { hash, origin: name.into(), sealed: true, kind }
    }

    /// From the bytes of an exported file; `origin` names it.
    pub fn from_bytes(bytes: &[u8], origin: &str) -> Result<Model> {
        Model::from_bytes_on(bytes, origin, DeviceChoice::Cpu)
    }

    fn from_bytes_on(bytes: &[u8], origin: &str, device: DeviceChoice) -> Result<Model> {
        let (card, state, sealed) = file::from_bytes(bytes).map_err(|why| bad(origin, why))?;
        Ok(Model { sealed, ..Model::assemble(card, state, origin, device)? })
    }

    /// The best checkpoint of a run folder, with the card that `siskin export` left there, if any.
    fn from_run(path: &Path, device: DeviceChoice) -> Result<Model> {
        let origin = absolute(path);
        let names = ["best.safetensors", "last.safetensors"].map(|name| path.join(name));
        let Some(found) = names.iter().find(|file| file.exists()) else {
            return Err(bad(
                &origin,
                "the folder holds no checkpoint; is it a run of `siskin train`?".into(),
            ));
        };
        let read = |source| Error::Io { action: "read the model", path: found.clone(), source };
        let bytes = files::read(found, MOST_BYTES).map_err(read)?;
        let (record, state) = decode(&bytes, CHECKPOINT).map_err(|why| bad(&origin, why))?;
        let record: Option<Value> = record.and_then(|json| serde_json::from_str(&json).ok());
        let record =
            record.ok_or_else(|| bad(&origin, "its checkpoint has no record of a training run".into()))?;
        let sealed = seal::check_checkpoint(&bytes, &record).map_err(|why| bad(&origin, why))?;
        let name = path.file_name().map_or_else(|| origin.clone(), |n| n.to_string_lossy().into_owned());
        let fresh = fresh_card(&record, name).map_err(|why| bad(&origin, why))?;
        let (card, card_sealed) = kept_card::kept(path, fresh)?;
        let learned = state.0.into_iter().filter(|t| t.role == Role::Model).collect();
        let model = Model::assemble(card, State(learned), &origin, device)?;
        Ok(Model { sealed: sealed && card_sealed, ..model })
    }

    fn assemble(card: Card, state: State, origin: &str, device: DeviceChoice) -> Result<Model> {
        let network = card.model.network.as_ref().map(open_network).transpose()?.map(Box::new);
        let mut method = card.model.build(device)?;
        method.load_state(&complete(method.state(), &state, origin)?)?;
        let spec = serde_json::to_string(&card.model).map_err(|e| bad(origin, e.to_string()))?;
        let weights = encode(&state, "model", &spec).map_err(|why| bad(origin, why))?;
        let hash = blake3::hash(&weights).to_hex().to_string();
        let kind = Kind::Trained(Box::new(Trained { card, state, method, network }));
        Ok(Model { hash, origin: origin.into(), sealed: true, kind })
    }

    fn trained(&self) -> Result<&Trained> {
        match &self.kind {
            Kind::Trained(trained) => Ok(trained),
            Kind::Foreign { .. } => Err(self.not_trained()),
        }
    }

    /// The network's architecture and all learned arrays, of a trained model.
    pub(crate) fn learned(&self) -> Result<(Architecture, &State)> {
        let trained = self.trained()?;
        Ok((trained.card.model.architecture, &trained.state))
    }

    fn other_view(&self) -> Error {
        bad(&self.origin, "an image was prepared for another model".into())
    }

    fn not_trained(&self) -> Error {
        let why = "it is an added network without a trained head, so it has neither a card nor weights of its own to export; \
                   train a head: docs/photos.md";
        bad(&self.origin, why.into())
    }

    /// The bytes of one file that holds the model and its card, without what only training needs.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let trained = self.trained()?;
        file::to_bytes(&trained.card, &trained.state).map_err(|why| bad(&self.origin, why))
    }

    /// Writes that file, and the card into the run folder that the model came from.
    pub fn export(&self, out: &Path) -> Result<()> {
        if Path::new(&self.origin).is_dir() {
            kept_card::keep(Path::new(&self.origin), &self.trained()?.card)?;
        }
        write(out, &self.to_bytes()?)
    }

    /// The same trained model with another card.
    pub fn with_card(self, card: Card) -> Result<Model> {
        match self.kind {
            Kind::Trained(trained) => {
                let kind = Kind::Trained(Box::new(Trained { card, ..*trained }));
                Ok(Model { kind, ..self })
            }
            Kind::Foreign { .. } => Err(self.not_trained()),
        }
    }

    /// What to call it.
    pub fn name(&self) -> &str {
        match &self.kind {
            Kind::Trained(trained) => &trained.card.name,
            Kind::Foreign { name, .. } => name,
        }
    }

    /// What a trained model says of itself; an error of an added network: nothing was measured of it.
    pub fn card(&self) -> Result<&Card> {
        self.trained().map(|trained| &trained.card)
    }

    fn sight(&self) -> Sight<'_> {
        match &self.kind {
            Kind::Foreign { network, .. } => Sight::Other(network),
            Kind::Trained(trained) => match &trained.network {
                Some(network) => Sight::Other(network),
                None => Sight::Own(trained.card.model.transform()),
            },
        }
    }

    /// What is known of an added network; `None` for a model that was trained here.
    pub fn foreign(&self) -> Option<&ForeignSpec> {
        match &self.kind {
            Kind::Trained(_) => None,
            Kind::Foreign { network, .. } => Some(network.spec()),
        }
    }

    /// Hash of weights, hyperparameters and settings: a task belongs to one.
    pub fn hash(&self) -> &str {
        &self.hash
    }

    /// Whether `hash` is the model's, as it is computed today or as files of format 2 had it.
    pub fn has_hash(&self, hash: &str) -> bool {
        self.hash == hash || self.card().is_ok_and(|card| card.former_hash.as_deref() == Some(hash))
    }

    /// The path or name it was opened by.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// What people should be told who use it: that no checksum says it is whole.
    pub fn notice(&self) -> Option<String> {
        let cure =
            format!("Write it anew: siskin export {} --out FILE", siskin_data::shell::quoted(&self.origin));
        (!self.sealed).then(|| seal::notice(&format!("The model {}", self.origin), &cure))
    }

    /// The card and the method with its learned state, of a trained model.
    pub fn into_trained(self) -> Result<(Card, Box<dyn Method>)> {
        match self.kind {
            Kind::Trained(trained) => Ok((trained.card, trained.method)),
            Kind::Foreign { .. } => Err(self.not_trained()),
        }
    }

    /// What turns labelled features into answers.
    pub fn head(&self) -> Result<ModelHead> {
        match &self.kind {
            Kind::Trained(_) => self.process().map(ModelHead::Process),
            Kind::Foreign { .. } => Ok(ModelHead::FromExamples),
        }
    }

    /// The Gaussian process on its features, or that it has none.
    pub fn process(&self) -> Result<GaussianProcess> {
        let trained = self.trained()?;
        trained.method.gaussian_process().ok_or_else(|| {
            let name = trained.card.model.method.name();
            let why = format!(
                "its method ({name}) has no Gaussian-process posterior to keep; train with method = \"cdkt\""
            );
            bad(&self.origin, why)
        })
    }

    /// Side of the square image the network sees, in pixels, and its channels.
    pub fn input(&self) -> (u32, usize) {
        match self.sight() {
            Sight::Own(transform) => (transform.size, transform.channels.count()),
            Sight::Other(network) => (network.spec().preprocessing.size, 3),
        }
    }

    /// Pixels of the shorter side that a decoded image needs at most: more change nothing, or hardly anything.
    pub fn shorter_side(&self) -> u32 {
        match self.sight() {
            Sight::Own(_) => SHORTER_SIDE,
            Sight::Other(network) => network.spec().preprocessing.shorter_side(),
        }
    }

    /// Images that go through its network before what it gave is kept.
    pub fn images_at_a_time(&self) -> usize {
        match self.sight() {
            Sight::Own(_) => 64,
            Sight::Other(_) => images_at_a_time(),
        }
    }

    /// What its features are kept by.
    pub fn features_key(&self) -> String {
        match self.sight() {
            Sight::Own(_) => self.hash.clone(),
            Sight::Other(_) => features_key(&self.hash),
        }
    }

    /// The image as the network sees it.
    pub fn view(&self, image: &Image) -> View {
        match self.sight() {
            Sight::Own(transform) => View::trained(image, &transform),
            Sight::Other(network) => View::foreign(image, &network.spec().preprocessing),
        }
    }

    /// The place of the model that suits images that look so: the first that has seen such a kind, else the first of all.
    pub fn suiting(models: &[Model], looks: &[Look]) -> usize {
        let seen: Vec<Option<Looks>> = models.iter().map(|model| model.card().ok()?.looks).collect();
        Looks::first_that_suits(&seen, looks).unwrap_or(0)
    }

    /// The embedded model that suits images that look so, and what it was chosen by.
    pub fn embedded_for(looks: &[Look], device: DeviceChoice) -> Result<(Model, String)> {
        let mut models =
            EMBEDDED.iter().map(|(name, _)| Model::open_on(name, device)).collect::<Result<Vec<Model>>>()?;
        let model = models.swap_remove(Model::suiting(&models, looks));
        let photos = looks.iter().filter(|look| look.is_photo()).count();
        let (count, kind) = match 2 * photos >= looks.len() {
            true => (photos, "photos"),
            false => (looks.len() - photos, "drawings"),
        };
        let name = model.name().to_owned();
        Ok((
            model,
            format!(
                "{count} of {} images that were looked at look like {kind}: the embedded model {name} is used",
                looks.len()
            ),
        ))
    }

    /// Whether images are of another kind than those the model was trained on, as far as its card tells.
    pub fn mismatch<'a>(&self, looks: impl IntoIterator<Item = &'a Look>) -> Option<Mismatch> {
        self.card().ok()?.looks.as_ref()?.mismatch(looks)
    }

    /// Features of images, one row each, as a head takes them: those of an added network have length 1. An image's row does not
    /// depend on the others.
    pub fn embed<'a>(&self, views: impl IntoIterator<Item = &'a View>) -> Result<Features> {
        self.embed_until(views, &AtomicBool::new(false))
    }

    /// [`Model::embed`] that ends with [`Error::Stopped`] soon after somebody sets `stop`.
    pub fn embed_until<'a>(
        &self,
        views: impl IntoIterator<Item = &'a View>,
        stop: &AtomicBool,
    ) -> Result<Features> {
        let mut features = self.raw_features(views, stop)?;
        if self.foreign().is_some() {
            unit(&mut features);
        }
        Ok(features)
    }

    /// Features of images as the network gives them.
    pub fn raw_features<'a>(
        &self,
        views: impl IntoIterator<Item = &'a View>,
        stop: &AtomicBool,
    ) -> Result<Features> {
        let views: Vec<&View> = views.into_iter().collect();
        match &self.kind {
            Kind::Trained(trained) if trained.network.is_none() => {
                let pixels = views.iter().map(|view| match &view.pixels {
                    Pixels::Normalised(pixels) => Ok(pixels),
                    Pixels::Bytes(_) => Err(self.other_view()),
                });
                let pixels: Vec<&Vec<f32>> = pixels.collect::<Result<_>>()?;
                let fill = |i: usize, out: &mut [f32]| {
                    out.copy_from_slice(pixels[i]);
                    Ok(())
                };
                let transform = trained.card.model.transform();
                let rows: Rows = embed(trained.method.as_ref(), &transform, views.len(), fill, stop)?;
                Ok(rows.into_features()?)
            }
            Kind::Trained(trained) => {
                let mut vectors = self.vectors(&views, stop)?;
                unit(&mut vectors);
                let vectors: Vec<f32> = vectors.values.iter().map(|&v| v as f32).collect();
                let shape = [views.len(), vectors.len() / views.len().max(1), 1, 1];
                match views.is_empty() {
                    true => Ok(Features { values: Vec::new(), rows: 0, dim: 1 }),
                    false => Ok(trained.method.embed(Images::new(&vectors, shape)?)?.into_features()?),
                }
            }
            Kind::Foreign { .. } => self.vectors(&views, stop),
        }
    }

    /// What somebody else's network makes of images.
    fn vectors(&self, views: &[&View], stop: &AtomicBool) -> Result<Features> {
        let Sight::Other(network) = self.sight() else { return Err(self.other_view()) };
        let bytes = views.iter().map(|view| match &view.pixels {
            Pixels::Bytes(bytes) => Ok(bytes.as_slice()),
            Pixels::Normalised(_) => Err(self.other_view()),
        });
        let (bytes, dim) = (bytes.collect::<Result<Vec<&[u8]>>>()?, network.spec().dim);
        let failed = |fault| Error::Foreign { name: self.name().into(), fault };
        let values = network.features(&bytes, stop).map_err(failed)?.ok_or(Error::Stopped)?;
        Ok(Features { values: values.into_iter().map(f64::from).collect(), rows: bytes.len(), dim })
    }
}

/// The network a head stands on.
fn open_network(network: &NetworkRef) -> Result<ForeignNetwork> {
    let registry = Registry::default_folder();
    registry
        .ok_or_else(|| bad(&network.name, "this system names no folder for caches".into()))?
        .wanted(network)
}

/// Gives every row the length 1; a row of zeros stays.
pub fn unit(features: &mut Features) {
    for row in features.values.chunks_exact_mut(features.dim.max(1)) {
        let length = row.iter().map(|v| v * v).sum::<f64>().sqrt();
        if length > 0.0 {
            row.iter_mut().for_each(|v| *v /= length);
        }
    }
}

/// The card of a model that nothing was measured of yet, by the record of its checkpoint.
fn fresh_card(record: &Value, name: String) -> std::result::Result<Card, String> {
    let model: ModelSpec = match &record["model"] {
        Value::Null => spec_of_config(record["config"].as_str().unwrap_or_default())?,
        spec => serde::Deserialize::deserialize(spec).map_err(|e: serde_json::Error| e.to_string())?,
    };
    let episodes = record["episode"].as_u64().ok_or("its record has no number of episodes")?;
    let data = record["data"].as_str().ok_or("its record does not name its data")?.to_string();
    Ok(Card::fresh(name, model, episodes, data))
}

/// The path from the root, so that a task finds its model from any folder.
fn absolute(path: &Path) -> String {
    path.canonicalize().unwrap_or_else(|_| path.to_owned()).display().to_string()
}

/// A fresh state with the tensors of a model file in their places: what only training needs stays fresh.
fn complete(fresh: State, model: &State, origin: &str) -> Result<State> {
    let mut out = fresh;
    if let Some(extra) = model.0.iter().find(|t| out.get(&t.name).is_none()) {
        return Err(bad(origin, format!("it has a tensor `{}` that its settings do not know", extra.name)));
    }
    for slot in &mut out.0 {
        match model.get(&slot.name) {
            Some(tensor) => slot.clone_from(tensor),
            None if slot.role == Role::Training => {}
            None => return Err(bad(origin, format!("its tensor `{}` is missing", slot.name))),
        }
    }
    Ok(out)
}

/// Writes a file whole or not at all.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let failed = |source| Error::Io { action: "write", path: path.into(), source };
    files::write(path, bytes).map_err(failed)
}

pub(crate) fn bad(name: &str, why: String) -> Error {
    Error::Model { name: name.into(), why }
}
