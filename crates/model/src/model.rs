//! A trained model: from one exported file, embedded in the program, or from a run folder.

use crate::card::Card;
use crate::embed::embed;
use crate::error::{Error, Result};
use crate::file;
use crate::kept_card;
use crate::legacy::spec_of_config;
use crate::look::{Look, Mismatch};
use crate::seal;
use crate::spec::ModelSpec;
use crate::tensors::{decode, encode};
use crate::view::View;
use serde_json::Value;
use siskin_data::{Image, Transform, files};
use siskin_methods::{Features, GaussianProcess, Method, Role, Rows, State};
use siskin_nn::DeviceChoice;
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// The models inside the program, by name.
pub const EMBEDDED: [(&str, &[u8]); 1] =
    [("omniglot-conv4s", include_bytes!("../../../models/omniglot-conv4s.safetensors"))];

/// Most bytes of a model file.
const MOST_BYTES: u64 = 2 << 30;
/// Key of a checkpoint's record.
const CHECKPOINT: &str = "siskin";

/// A trained model.
pub struct Model {
    card: Card,
    hash: String,
    origin: String,
    /// Whether a checksum says that it is whole.
    sealed: bool,
    state: State,
    method: Box<dyn Method>,
}

impl Model {
    /// The model that `name` means: an embedded one, a run folder of `siskin train`, or a file of `siskin export`.
    pub fn open(name: &str) -> Result<Model> {
        Model::open_on(name, DeviceChoice::Cpu)
    }

    /// The same on other hardware.
    pub fn open_on(name: &str, device: DeviceChoice) -> Result<Model> {
        if let Some((_, bytes)) = EMBEDDED.iter().find(|(known, _)| *known == name) {
            return Model::from_bytes_on(bytes, name, device);
        }
        let path = Path::new(name);
        if path.is_dir() {
            return Model::from_run(path, device);
        }
        let bytes = files::read(path, MOST_BYTES).map_err(|source| match source.kind() {
            std::io::ErrorKind::NotFound => bad(
                name,
                format!(
                    "there is no such file or folder, and no embedded model of this name (there is: {}). Give a run \
                     folder of `siskin train` or a file of `siskin export`",
                    EMBEDDED.map(|(name, _)| name).join(", ")
                ),
            ),
            _ => Error::Io { action: "read the model", path: path.into(), source },
        })?;
        Model::from_bytes_on(&bytes, &absolute(path), device)
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
        let mut method = card.model.build(device)?;
        method.load_state(&complete(method.state(), &state, origin)?)?;
        let spec = serde_json::to_string(&card.model).map_err(|e| bad(origin, e.to_string()))?;
        let weights = encode(&state, "model", &spec).map_err(|why| bad(origin, why))?;
        let hash = blake3::hash(&weights).to_hex().to_string();
        Ok(Model { card, hash, origin: origin.into(), sealed: true, state, method })
    }

    /// The bytes of one file that holds the model and its card, without what only training needs.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        file::to_bytes(&self.card, &self.state).map_err(|why| bad(&self.origin, why))
    }

    /// Writes that file, and the card into the run folder that the model came from.
    pub fn export(&self, out: &Path) -> Result<()> {
        if Path::new(&self.origin).is_dir() {
            kept_card::keep(Path::new(&self.origin), &self.card)?;
        }
        write(out, &self.to_bytes()?)
    }

    /// The same model with another card.
    pub fn with_card(self, card: Card) -> Model {
        Model { card, ..self }
    }

    /// What the model says of itself.
    pub fn card(&self) -> &Card {
        &self.card
    }

    /// Hash of weights, hyperparameters and settings: a task belongs to one.
    pub fn hash(&self) -> &str {
        &self.hash
    }

    /// Whether `hash` is the model's, as it is computed today or as files of format 2 had it.
    pub fn has_hash(&self, hash: &str) -> bool {
        self.hash == hash || self.card.former_hash.as_deref() == Some(hash)
    }

    /// The path or name it was opened by.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// What people should be told who use it: that no checksum says it is whole.
    pub fn notice(&self) -> Option<String> {
        let cure = format!("Write it anew: siskin export {} --out FILE", self.origin);
        (!self.sealed).then(|| seal::notice(&format!("The model {}", self.origin), &cure))
    }

    /// The method with its learned state.
    pub fn method(&self) -> &dyn Method {
        self.method.as_ref()
    }

    /// The method itself.
    pub fn into_method(self) -> Box<dyn Method> {
        self.method
    }

    /// The Gaussian process on its features, or that it has none.
    pub fn process(&self) -> Result<GaussianProcess> {
        self.method.gaussian_process().ok_or_else(|| {
            let name = self.card.model.method.name();
            let why = format!(
                "its method ({name}) has no Gaussian-process posterior to keep; train with method = \"cdkt\""
            );
            bad(&self.origin, why)
        })
    }

    /// What becomes of an image before the network sees it.
    pub fn transform(&self) -> Transform {
        self.card.model.transform()
    }

    /// Side of the square image the network sees, in pixels, and its channels.
    pub fn input(&self) -> (u32, usize) {
        let transform = self.transform();
        (transform.size, transform.channels.count())
    }

    /// The image as the network sees it.
    pub fn view(&self, image: &Image) -> View {
        View::new(image, &self.transform())
    }

    /// Whether images are of another kind than those the model was trained on, as far as its card tells.
    pub fn mismatch<'a>(&self, looks: impl IntoIterator<Item = &'a Look>) -> Option<Mismatch> {
        self.card.looks.as_ref()?.mismatch(looks)
    }

    /// Features of images, one row each. An image's row does not depend on the others.
    pub fn embed<'a>(&self, views: impl IntoIterator<Item = &'a View>) -> Result<Features> {
        self.embed_until(views, &AtomicBool::new(false))
    }

    /// [`Model::embed`] that ends with [`Error::Stopped`] soon after somebody sets `stop`.
    pub fn embed_until<'a>(
        &self,
        views: impl IntoIterator<Item = &'a View>,
        stop: &AtomicBool,
    ) -> Result<Features> {
        let views: Vec<&View> = views.into_iter().collect();
        let fill = |i: usize, out: &mut [f32]| {
            out.copy_from_slice(&views[i].pixels);
            Ok(())
        };
        let rows: Rows = embed(self.method.as_ref(), &self.transform(), views.len(), fill, stop)?;
        Ok(rows.into_features()?)
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
