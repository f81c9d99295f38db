//! Model files: what comes back, what is refused, and what files of the earlier format still give.

use serde_json::Value;
use siskin_data::Image;
use siskin_model::tensors::{decode, encode};
use siskin_model::{EMBEDDED, Model, View};

fn embedded() -> Model {
    Model::open(EMBEDDED[0].0).unwrap()
}

fn views(model: &Model) -> Vec<View> {
    let image = |k: u8| Image {
        width: 40,
        height: 40,
        channels: 1,
        pixels: (0..1600u32).map(|i| if (i % 40) / (u32::from(k) + 2) % 2 == 0 { 0 } else { 255 }).collect(),
    };
    (0..3).map(|k| model.view(&image(k))).collect()
}

/// The bytes of a file whose header is `change` of that of `bytes`.
fn with_header(bytes: &[u8], change: impl FnOnce(String) -> String) -> Vec<u8> {
    let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let header = change(String::from_utf8(bytes[8..8 + length].to_vec()).unwrap());
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &bytes[8 + length..]].concat()
}

#[test]
fn a_model_comes_back_with_the_same_bytes_hash_and_features() {
    let model = embedded();
    let bytes = model.to_bytes().unwrap();
    let again = Model::from_bytes(&bytes, "again").unwrap();
    assert_eq!(again.to_bytes().unwrap(), bytes);
    assert_eq!((again.hash(), again.card().unwrap()), (model.hash(), model.card().unwrap()));
    assert_eq!(again.embed(&views(&again)).unwrap(), model.embed(&views(&model)).unwrap());
}

#[test]
fn a_changed_byte_anywhere_is_found() {
    let bytes = embedded().to_bytes().unwrap();
    let header = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize + 8;
    for place in [header / 2, header - 200, header, (header + bytes.len()) / 2, bytes.len() - 1] {
        let mut changed = bytes.clone();
        changed[place] ^= 1;
        let error = Model::from_bytes(&changed, "changed").err().map(|e| e.to_string()).unwrap_or_default();
        assert!(error.contains("the model changed cannot be used"), "byte {place}: {error:?}");
    }
    for cut in [0, 4, 8, header, bytes.len() - 1] {
        let error = Model::from_bytes(&bytes[..cut], "cut").err().unwrap().to_string();
        assert!(error.contains("not a whole safetensors file"), "{cut}: {error}");
    }
}

#[test]
fn other_formats_are_refused_with_what_to_do() {
    let bytes = embedded().to_bytes().unwrap();
    let newer = with_header(&bytes, |header| {
        let header = header.replace("\\\"version\\\":4", "\\\"version\\\":9");
        header.replace("\\\"checksum\\\"", "\\\"checksun\\\"")
    });
    let error = Model::from_bytes(&newer, "newer").err().unwrap().to_string();
    assert!(error.contains("siskin export RUN --out FILE"), "{error}");
    let plain = with_header(&bytes, |header| header.replace("siskin-model", "siskin-other"));
    let error = Model::from_bytes(&plain, "plain").err().unwrap().to_string();
    assert!(error.contains("no model card"), "{error}");
}

/// The card of the embedded model as format 3 had it: a temperature for each shape.
fn card_3() -> Value {
    let (record, _) = decode(EMBEDDED[0].1, "siskin-model").unwrap();
    let mut record: Value = serde_json::from_str(&record.unwrap()).unwrap();
    let mut card = record["card"].take();
    let fields = card.as_object_mut().unwrap();
    fields.remove("temperature");
    fields.insert("version".into(), 3.into());
    let shape = serde_json::json!([{
        "way": 5, "shot": 1, "queries": 2000,
        "temperature": {"value": 0.03, "nll_before": 1.0, "nll_after": 0.1, "optimum": "interior"},
        "set_scores": [0.01, 0.2], "novelty": [0.1, 0.3], "novelty_auroc": 0.97,
    }]);
    fields.insert("validation".into(), shape);
    card
}

#[test]
fn a_card_of_format_3_is_read() {
    let (_, state) = decode(EMBEDDED[0].1, "siskin-model").unwrap();
    let record = format!("{{\"checksum\":\"{}\",\"card\":{}}}", siskin_model::seal::ZEROS, card_3());
    let mut bytes = encode(&state, "siskin-model", &record).unwrap();
    siskin_model::seal::seal(&mut bytes).unwrap();
    let model = Model::from_bytes(&bytes, "format 3").unwrap();
    let (old, shape) = (model.card().unwrap().clone(), &model.card().unwrap().validation[0]);
    assert_eq!((old.version, old.temperature, shape.temperature), (4, 1.0, Some(0.03)));
    assert_eq!(
        (shape.set_scores.as_slice(), shape.novelty.members.as_slice()),
        (&[0.01, 0.2][..], &[0.1, 0.3][..])
    );
    assert_eq!((shape.novelty.auroc, shape.novelty.strangers.len()), (0.97, 0));
    // Written again it has the format of today and says the same.
    let again = Model::from_bytes(&model.to_bytes().unwrap(), "again").unwrap();
    assert_eq!((again.card().unwrap(), again.hash()), (&old, model.hash()));
}

/// The embedded model as format 2 had it: the card with a training config in place of the settings, no checksum.
fn format_2() -> Vec<u8> {
    let (_, state) = decode(EMBEDDED[0].1, "siskin-model").unwrap();
    let mut card = card_3();
    let fields = card.as_object_mut().unwrap();
    let model = fields.remove("model").unwrap();
    fields.remove("former_hash");
    fields.insert("version".into(), 2.into());
    let settings: toml::Table = serde_json::from_value(model["method"]["settings"].clone()).unwrap();
    let mut config = toml::Table::new();
    config.insert("seed".into(), toml::Value::Integer(model["seed"].as_i64().unwrap()));
    config.insert("method".into(), "cdkt".into());
    config.insert("cdkt".into(), toml::Value::Table(settings));
    config.insert("episode".into(), toml::toml! { way = 20 }.into());
    config.insert("data".into(), toml::toml! { image_size = 28 }.into());
    config.insert("backbone".into(), toml::toml! { name = "conv4s" }.into());
    fields.insert("config".into(), toml::to_string(&config).unwrap().into());
    encode(&state, "siskin-model", &card.to_string()).unwrap()
}

#[test]
fn a_file_of_format_2_gives_the_same_features_and_keeps_its_hash_for_older_tasks() {
    let old = Model::from_bytes(&format_2(), "old").unwrap();
    let now = embedded();
    assert_eq!(old.card().unwrap().version, 4);
    let former = old.card().unwrap().former_hash.clone().unwrap();
    assert!(old.has_hash(&former) && old.has_hash(old.hash()) && former != old.hash());
    let again = Model::from_bytes(&old.to_bytes().unwrap(), "again").unwrap();
    assert!(again.has_hash(&former), "the hash is kept");
    // It has no checksum: people are told, and how to get one.
    let notice = old.notice().unwrap();
    assert!(
        notice.contains("damage to it would not be noticed")
            && notice.contains("siskin export old --out FILE")
    );
    assert_eq!((again.notice(), now.notice()), (None, None));
    // Format 2 did not say the number of base classes.
    let spec = siskin_model::ModelSpec { way: 20, base_classes: None, ..now.card().unwrap().model.clone() };
    assert_eq!(old.card().unwrap().model, spec);
    let features = now.embed(&views(&now)).unwrap();
    assert_eq!(old.embed(&views(&old)).unwrap(), features);
    assert_eq!(again.embed(&views(&again)).unwrap(), features);
}

#[test]
fn a_folder_without_a_checkpoint_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let error = Model::open(&folder.path().display().to_string()).err().unwrap().to_string();
    assert!(error.contains("holds no checkpoint"), "{error}");
}
