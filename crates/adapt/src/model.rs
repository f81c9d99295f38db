//! A trained model to adapt: from a run folder, from one exported file, or embedded in the program.

use crate::card::{self, Card};
use crate::error::{Error, Result};
use crate::look::{Look, Mismatch};
use crate::view::View;
use siskin_data::{Image, Transform, files};
use siskin_methods::{Features, GaussianProcess, Images, Method, Role, State};
use siskin_train::config::Config;
use siskin_train::run::{channels, method_for};
use siskin_train::run_folder::RunFolder;
use siskin_train::{atomic, checkpoint};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// The models inside the program, by name.
pub const EMBEDDED: [(&str, &[u8]); 1] =
    [("omniglot-conv4s", include_bytes!("../../../models/omniglot-conv4s.safetensors"))];

/// Key of the card in a model file's header.
const KEY: &str = "siskin-model";
/// Name of the card in a run folder.
const CARD: &str = "card.json";
/// Most bytes of a model file.
const MOST_BYTES: u64 = 2 << 30;
/// Images sent through the network at a time.
const BATCH: usize = 128;

/// A trained model.
pub struct Model {
    card: Card,
    hash: String,
    origin: String,
    state: State,
    method: Box<dyn Method>,
    process: GaussianProcess,
    transform: Transform,
}

impl Model {
    /// The model that `name` means: an embedded one, a run folder of `siskin train`, or a file of `siskin export`.
    pub fn open(name: &str) -> Result<Model> {
        if let Some((_, bytes)) = EMBEDDED.iter().find(|(known, _)| *known == name) {
            return Model::from_bytes(bytes, name);
        }
        let path = Path::new(name);
        if path.is_dir() {
            return Model::from_run(path);
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
        Model::from_bytes(&bytes, &absolute(path))
    }

    /// From the bytes of an exported file; `origin` names it.
    pub fn from_bytes(bytes: &[u8], origin: &str) -> Result<Model> {
        let (json, state) = checkpoint::decode(bytes, KEY).map_err(|why| bad(origin, why))?;
        let json = json.ok_or_else(|| {
            bad(origin, "it has no model card; was it written by `siskin export`?".to_string())
        })?;
        Model::assemble(parse_card(&json, origin)?, state, origin)
    }

    /// The best checkpoint of a run folder, with the card that `siskin export` left there, if any.
    fn from_run(path: &Path) -> Result<Model> {
        let folder = RunFolder::open(path)?;
        let file = if folder.best().exists() { folder.best() } else { folder.last() };
        let (position, state) = checkpoint::load(&file)?;
        let origin = absolute(path);
        let card_path = path.join(CARD);
        let fresh = Card {
            version: card::VERSION,
            name: path.file_name().map_or_else(|| origin.clone(), |n| n.to_string_lossy().into_owned()),
            siskin: env!("CARGO_PKG_VERSION").into(),
            config: position.config,
            episodes: position.episode,
            data: position.data,
            validation: Vec::new(),
            test: None,
            looks: None,
        };
        let card = match std::fs::read_to_string(&card_path) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => fresh,
            Err(source) => return Err(Error::Io { action: "read", path: card_path, source }),
            Ok(json) => {
                let kept = parse_card(&json, &card_path.display().to_string())?;
                // Training went on since the export: its measurements are of another model.
                if kept.episodes == fresh.episodes && kept.config == fresh.config { kept } else { fresh }
            }
        };
        Model::assemble(card, State(state.0.into_iter().filter(|t| t.role == Role::Model).collect()), &origin)
    }

    fn assemble(card: Card, state: State, origin: &str) -> Result<Model> {
        let config = Config::parse_saved(&card.config, &[])?;
        // A method with a Gaussian process on its features has no layer whose size is the number of base classes.
        let mut method = method_for(&config, 2)?;
        method.load_state(&complete(method.state(), &state, origin)?)?;
        let process = method.gaussian_process().ok_or_else(|| {
            bad(
                origin,
                format!(
                    "its method ({}) has no Gaussian-process posterior to keep; train with method = \"cdkt\"",
                    config.method.name()
                ),
            )
        })?;
        let transform =
            Transform { size: config.data.image_size, channels: channels(&config), augment: false };
        let weights = checkpoint::encode(&state, "config", &card.config).map_err(|why| bad(origin, why))?;
        let hash = blake3::hash(&weights).to_hex().to_string();
        Ok(Model { card, hash, origin: origin.into(), state, method, process, transform })
    }

    /// The bytes of one file that holds the model and its card, without what only training needs.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let json = serde_json::to_string(&self.card).map_err(|e| bad(&self.origin, e.to_string()))?;
        checkpoint::encode(&self.state, KEY, &json).map_err(|why| bad(&self.origin, why))
    }

    /// Writes that file, and the card into the run folder that the model came from.
    pub fn export(&self, out: &Path) -> Result<()> {
        if Path::new(&self.origin).is_dir() {
            let json =
                serde_json::to_string_pretty(&self.card).map_err(|e| bad(&self.origin, e.to_string()))?;
            atomic::write(&Path::new(&self.origin).join(CARD), json.as_bytes())?;
        }
        Ok(atomic::write(out, &self.to_bytes()?)?)
    }

    /// The same model with another card.
    pub fn with_card(self, card: Card) -> Model {
        Model { card, ..self }
    }

    /// What the model says of itself.
    pub fn card(&self) -> &Card {
        &self.card
    }

    /// Hash of weights, hyperparameters and config: a task belongs to one.
    pub fn hash(&self) -> &str {
        &self.hash
    }

    /// The path or name it was opened by.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// The Gaussian process on its features.
    pub fn process(&self) -> &GaussianProcess {
        &self.process
    }

    /// Side of the square image the network sees, in pixels, and its channels.
    pub fn input(&self) -> (u32, usize) {
        (self.transform.size, self.transform.channels.count())
    }

    /// The image as the network sees it.
    pub fn view(&self, image: &Image) -> View {
        View::new(image, &self.transform)
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
        let size = self.transform.size as usize;
        let views: Vec<&View> = views.into_iter().collect();
        let mut all = Features { values: Vec::new(), rows: views.len(), dim: 1 };
        for batch in views.chunks(BATCH) {
            if stop.load(Ordering::Relaxed) {
                return Err(Error::Stopped);
            }
            let pixels: Vec<f32> = batch.iter().flat_map(|view| &view.pixels).copied().collect();
            let shape = [batch.len(), self.transform.channels.count(), size, size];
            let images = Images::new(&pixels, shape).map_err(siskin_methods::Error::from)?;
            let part = self.method.embed(images)?.into_features()?;
            all.dim = part.dim;
            all.values.extend(part.values);
        }
        Ok(all)
    }
}

/// The path from the root, so that a task finds its model from any folder.
fn absolute(path: &Path) -> String {
    path.canonicalize().unwrap_or_else(|_| path.to_owned()).display().to_string()
}

/// A fresh state with the tensors of a model file in their places: optimiser moments stay fresh.
fn complete(fresh: State, model: &State, origin: &str) -> Result<State> {
    let mut out = fresh;
    if let Some(extra) = model.0.iter().find(|t| out.0.iter().all(|f| f.name != t.name)) {
        return Err(bad(origin, format!("it has a tensor `{}` that its config does not know", extra.name)));
    }
    for slot in &mut out.0 {
        match model.0.iter().find(|t| t.name == slot.name) {
            Some(tensor) => slot.clone_from(tensor),
            None if slot.role == Role::Training => {}
            None => return Err(bad(origin, format!("its tensor `{}` is missing", slot.name))),
        }
    }
    Ok(out)
}

fn parse_card(json: &str, origin: &str) -> Result<Card> {
    let version = serde_json::from_str::<serde_json::Value>(json).ok().and_then(|v| v["version"].as_u64());
    if version != Some(u64::from(card::VERSION)) {
        let found = version.map_or("unknown".into(), |v| v.to_string());
        return Err(bad(
            origin,
            format!("its card has the format {found}, this program reads {}", card::VERSION),
        ));
    }
    serde_json::from_str(json).map_err(|e| bad(origin, format!("its card is damaged ({e})")))
}

fn bad(name: &str, why: String) -> Error {
    Error::Model { name: name.into(), why }
}
