//! Whole inputs, made on the spot: small, one of each kind.

use siskin_adapt::{EMBEDDED, Example, Image, LabelSetTask, LabelledImages, Model, TaskClassifier};
use siskin_data::fuzzing;
use std::path::Path;

/// Small images: by hand, and in every format that can be written.
pub(crate) fn images() -> Vec<Vec<u8>> {
    let gif: &[u8] = b"GIF89a\x08\x00\x06\x00\x80\x00\x00\xff\xff\xff\x00\x00\x00,\x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x02\x44\x01\x00\x3b";
    let mut bmp =
        b"BM\x46\0\0\0\0\0\0\0\x36\0\0\0\x28\0\0\0\x02\0\0\0\x02\0\0\0\x01\0\x18\0\0\0\0\0\x10\0\0\0"
            .to_vec();
    bmp.extend([0; 16]);
    bmp.extend([7; 16]);
    let mut tiff = b"II*\0\x08\0\0\0\x08\0".to_vec();
    for (tag, kind, count, value) in [
        (256u16, 3u16, 1u32, 4u32),
        (257, 3, 1, 4),
        (258, 3, 1, 8),
        (259, 3, 1, 1),
        (262, 3, 1, 1),
        (273, 4, 1, 110),
        (278, 3, 1, 4),
        (279, 4, 1, 16),
    ] {
        tiff.extend(tag.to_le_bytes());
        tiff.extend(kind.to_le_bytes());
        tiff.extend(count.to_le_bytes());
        tiff.extend(value.to_le_bytes());
    }
    tiff.extend([0; 4]);
    tiff.extend([9; 16]);
    let mut all =
        vec![b"P2 2 2 255 0 1 2 3".to_vec(), b"P5 4 2 255\nabcdefgh".to_vec(), gif.to_vec(), bmp, tiff];
    all.extend(fuzzing::encoded_images());
    all
}

pub(crate) fn archives() -> Vec<Vec<u8>> {
    fuzzing::archives()
        .into_iter()
        .enumerate()
        .map(|(kind, bytes)| [&[kind as u8], &bytes[..]].concat())
        .collect()
}

pub(crate) fn file_lists() -> Vec<Vec<u8>> {
    vec![br#"{"label_names": ["a", "b"], "image_names": ["/x/a/1.jpg", "/x/b/2.jpg"], "image_labels": [0, 1]}"#.to_vec()]
}

pub(crate) fn csv_lists() -> Vec<Vec<u8>> {
    vec![b"filename,label\n\"n01,1.jpg\",n01\nn02.jpg,n02\n".to_vec()]
}

pub(crate) fn split_lists() -> Vec<Vec<u8>> {
    vec![br#"{"train": ["a", "b"], "val": ["c"], "test": ["d"]}"#.to_vec()]
}

pub(crate) fn npy() -> Vec<Vec<u8>> {
    let array = |descr: &str, shape: &str, data: &[u8]| {
        let header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}\n");
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend((header.len() as u16).to_le_bytes());
        [&bytes, header.as_bytes(), data].concat()
    };
    vec![array("<f4", "(1, 2)", &[0; 8]), array("<f8", "(3,)", &[1; 24]), array("|u1", "(2, 2)", &[1; 4])]
}

/// Four images of 2 x 2, and their labels behind them: the target cuts them apart.
pub(crate) fn idx() -> Vec<Vec<u8>> {
    let images = [&[0, 0, 8, 3, 0, 0, 0, 4, 0, 0, 0, 2, 0, 0, 0, 2][..], &[5; 16]].concat();
    let labels = [&[0, 0, 8, 1, 0, 0, 0, 4][..], &[1, 2, 1, 2]].concat();
    vec![[images, labels].concat()]
}

pub(crate) fn vectors() -> Vec<Vec<u8>> {
    let view =
        |dtype, shape: &[usize], bytes| safetensors::tensor::TensorView::new(dtype, shape.to_vec(), bytes);
    let (floats, labels) = (
        [0u8; 32],
        [0u8, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0],
    );
    let views = [
        ("vectors", view(safetensors::Dtype::F32, &[4, 2], &floats)),
        ("labels", view(safetensors::Dtype::I64, &[4], &labels)),
    ];
    let views = views.into_iter().filter_map(|(name, view)| Some((name, view.ok()?)));
    safetensors::serialize(views, None).into_iter().collect()
}

pub(crate) fn episode_lists() -> Vec<Vec<u8>> {
    tempfile::tempdir().map(|folder| fuzzing::an_episode_list(folder.path())).into_iter().collect()
}

pub(crate) fn packs() -> Vec<Vec<u8>> {
    vec![fuzzing::a_pack_index()]
}

pub(crate) fn models() -> Vec<Vec<u8>> {
    vec![EMBEDDED[0].1.to_vec()]
}

/// Four drawings of two classes, each in its own or, as label sets, some in both.
fn support(model: &Model, sets: bool) -> siskin_adapt::Result<LabelledImages> {
    let view = |c: usize, i: usize| {
        let pixels = (0..64).map(|p| if p % (c + 3) == i { 0 } else { 255 }).collect();
        model.view(&Image { width: 8, height: 8, channels: 1, pixels })
    };
    let example = |k: usize| Example { name: format!("{k}"), class: k % 2, view: view(k % 2, k / 2) };
    let mut examples: Vec<Example> = (0..4).map(example).collect();
    if sets {
        examples.push(Example { name: "0".into(), class: 1, view: view(0, 0) });
    }
    LabelledImages::new(vec!["a".into(), "b".into()], examples)
}

pub(crate) fn tasks() -> Vec<Vec<u8>> {
    let make = || -> siskin_adapt::Result<Vec<u8>> {
        let model = Model::open(EMBEDDED[0].0)?;
        TaskClassifier::adapt(&model, &support(&model, false)?, "seed")?.to_bytes()
    };
    make().into_iter().collect()
}

pub(crate) fn label_sets() -> Vec<Vec<u8>> {
    let make = || -> siskin_adapt::Result<Vec<u8>> {
        let model = Model::open(EMBEDDED[0].0)?;
        let stop = std::sync::Arc::default();
        LabelSetTask::adapt(&model, &support(&model, true)?, "seed", &stop)?.to_bytes()
    };
    make().into_iter().collect()
}

/// A checkpoint of a small state.
pub(crate) fn checkpoints() -> Vec<Vec<u8>> {
    let save = |at: &Path| -> Option<Vec<u8>> {
        let position = serde_json::json!({
            "version": siskin_train::checkpoint::VERSION, "episode": 7, "skipped": 0, "skipped_in_a_row": 0, "metrics_bytes": 99,
            "best": {"accuracy": 0.5, "nll": 0.7, "episode": 5}, "config": "seed = 1\n", "data": "abc",
        });
        let mut state = siskin_methods::State::default();
        state.push_f64("kernel.raw", &[0.1, -2.0]);
        state.push_training("adam.first", &[0.0; 8]);
        let path = at.join("last.safetensors");
        siskin_train::checkpoint::save(&path, &serde_json::from_value(position).ok()?, &state).ok()?;
        std::fs::read(path).ok()
    };
    tempfile::tempdir().ok().and_then(|folder| save(folder.path())).into_iter().collect()
}

pub(crate) fn weights() -> Vec<Vec<u8>> {
    let save = |at: &Path| -> Option<Vec<u8>> {
        let network =
            siskin_nn::Network::new(siskin_nn::Architecture::Conv4S, 0, siskin_nn::DeviceChoice::Cpu).ok()?;
        let path = at.join("w.safetensors");
        network.save_weights(&path).ok()?;
        std::fs::read(path).ok()
    };
    tempfile::tempdir().ok().and_then(|folder| save(folder.path())).into_iter().collect()
}

/// A classifier of today, and as it was in version 1, which has no checksum: what is damaged in it reaches the parser.
pub(crate) fn classifiers() -> Vec<Vec<u8>> {
    let rows = [0.0, 1.0, 0.1, 0.9, 1.0, 0.0, 0.9, 0.2];
    let mut classifier = siskin_gp::classifier::GpClassifier::default();
    let fitted = classifier.fit(faer::MatRef::from_row_major_slice(&rows, 4, 2), &[0, 0, 1, 1]);
    let today: Vec<Vec<u8>> = fitted.and_then(|_| classifier.to_bytes()).into_iter().collect();
    let before = today.iter().filter_map(|bytes| of_version_1(bytes));
    before.chain(today.iter().cloned()).collect()
}

fn of_version_1(bytes: &[u8]) -> Option<Vec<u8>> {
    let (_, metadata) = safetensors::SafeTensors::read_metadata(bytes).ok()?;
    let mut entries = metadata.metadata().clone()?;
    let json = entries.values_mut().next()?;
    let mut header: serde_json::Value = serde_json::from_str(json).ok()?;
    let fields = header.as_object_mut()?;
    let kernel = fields.remove("kernel")?;
    fields.insert("version".into(), 1.into());
    fields.insert("kernel".into(), kernel["kind"].clone());
    for name in ["normalise", "raw_shape", "raw_scale"] {
        fields.insert(name.into(), kernel[name].clone());
    }
    *json = header.to_string();
    let tensors = safetensors::SafeTensors::deserialize(bytes).ok()?;
    safetensors::serialize(tensors.tensors(), Some(entries)).ok()
}

pub(crate) fn configs() -> Vec<Vec<u8>> {
    let set = "seed = 3\nmethod = \"cdkt\"\n[train]\nepisodes = 5\n[episode]\nway = 5\nshot = 1\n[data]\nimage_size = 28\n[cdkt]\nobjective = \"elbo\"\n";
    vec![set.as_bytes().to_vec()]
}

/// The first byte chooses what the body is said to be, or headers that say where a request comes from.
pub(crate) fn http_bodies() -> Vec<Vec<u8>> {
    let part = |name: &str| {
        format!(
            "--XX\r\nContent-Disposition: form-data; name=\"{name}\"; filename=\"f\"\r\n\r\nP2 1 1 255 7\r\n"
        )
    };
    let form = format!("{}{}--XX--\r\n", part("a"), part("b"));
    let create = r#"{"name": "t", "keep": false, "classes": [{"name": "a", "images": ["UDIgMSAxIDI1NSA3"]}, {"name": "b", "images": []}]}"#;
    let predict = r#"{"images": ["data:image/png;base64,UDIgMSAxIDI1NSA3", "UDIgMSAxIDI1NSA3"], "level": 0.9, "explain": 2}"#;
    let suggest = r#"{"images": ["UDIgMSAxIDI1NSA3"], "count": 3, "criterion": "bald"}"#;
    let more = r#"{"classes": [{"name": "a", "images": ["UDIgMSAxIDI1NSA3"]}]}"#;
    let origin = "localhost:8080\nhttp://localhost:8080\nsame-origin";
    [form.as_str(), create, predict, suggest, more, origin]
        .iter()
        .enumerate()
        .map(|(kind, body)| [&[kind as u8], body.as_bytes()].concat())
        .collect()
}
