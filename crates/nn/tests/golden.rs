//! A small Conv4 against PyTorch: weights by name, features, gradients, three Adam steps, running statistics.
//! `scripts/make_conv4_golden.py` makes the file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};
use siskin_nn::{Architecture, Backbone, DeviceChoice, Error, Features, HeadLoss, Images, Network, Step};

const WIDTH: usize = 8;

type Tensors = BTreeMap<String, (Vec<usize>, Vec<f32>)>;

fn golden() -> Tensors {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/conv4.safetensors");
    let bytes = std::fs::read(path).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let floats = file.iter().filter(|(_, view)| view.dtype() == Dtype::F32);
    floats
        .map(|(name, view)| {
            let values = view.data().as_chunks::<4>().0;
            let values = values.iter().map(|&b| f32::from_le_bytes(b)).collect();
            (name.to_owned(), (view.shape().to_vec(), values))
        })
        .collect()
}

/// A file with the golden tensors below `prefix`, as a user would have it.
fn state_dict(
    golden: &Tensors,
    prefix: &str,
    edit: impl FnOnce(&mut Tensors),
) -> (tempfile::TempDir, PathBuf) {
    let chosen = golden.iter().filter(|(name, _)| name.starts_with(prefix));
    let mut chosen: Tensors = chosen.map(|(n, t)| (n.clone(), t.clone())).collect();
    edit(&mut chosen);
    let bytes: Vec<(String, Vec<usize>, Vec<u8>)> = chosen
        .into_iter()
        .map(|(n, (s, v))| (n, s, v.iter().flat_map(|x| x.to_le_bytes()).collect()))
        .collect();
    let views = bytes.iter().map(|(n, s, b)| (n, TensorView::new(Dtype::F32, s.clone(), b).unwrap()));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("weights.safetensors");
    std::fs::write(&path, safetensors::serialize(views, None).unwrap()).unwrap();
    (folder, path)
}

fn fresh() -> Network {
    let device = DeviceChoice::Cpu.open().unwrap();
    Network::of(Backbone::with_width(Architecture::Conv4, WIDTH, 0, &device))
}

fn from_pytorch(golden: &Tensors) -> Network {
    let (_folder, path) = state_dict(golden, "feature.", |_| {});
    let mut network = fresh();
    network.load_weights(&path).unwrap();
    network
}

/// Largest difference relative to the largest value.
fn distance(ours: &[f32], theirs: &[f32]) -> f32 {
    assert_eq!(ours.len(), theirs.len());
    let largest = theirs.iter().fold(1e-6f32, |m, x| m.max(x.abs()));
    let differences = ours.iter().zip(theirs).map(|(a, b)| (a - b).abs());
    differences.fold(0.0, f32::max) / largest
}

fn floats(values: &[f64]) -> Vec<f32> {
    values.iter().map(|&v| v as f32).collect()
}

/// The golden name of one of our tensors.
fn theirs(prefix: &str, ours: &str) -> String {
    let name = ours.replace("blocks.", "trunk.").replace(".conv.", ".C.").replace(".norm.", ".BN.");
    format!("{prefix}{name}")
}

#[test]
fn features_gradients_steps_and_statistics_equal_pytorch() {
    let golden = golden();
    let mut network = from_pytorch(&golden);
    let (shape, pixels) = &golden["images"];
    let shape: [usize; 4] = shape.clone().try_into().unwrap();
    let cotangent: Vec<f64> = golden["cotangent"].1.iter().map(|&v| f64::from(v)).collect();
    for step_index in 0..3 {
        let scaled: Vec<f32> = pixels.iter().map(|p| p * (1 + step_index) as f32).collect();
        let mut step = Step::default();
        let head = |f: &Features| {
            if step_index == 0 {
                let d = distance(&floats(&f.values), &golden["train_features"].1);
                assert!(d < 1e-5, "train features differ by {d}");
            }
            Ok::<_, Error>(HeadLoss { loss: 0.0, dfeatures: cotangent.clone(), dhyper: vec![], extra: () })
        };
        network.episode(Images::new(&scaled, shape).unwrap(), &mut step, head).unwrap();
        network.apply(step, 1e-3);
        if step_index == 0 {
            check_gradients(&network, &golden);
        }
    }
    for tensor in network.state().tensors {
        if tensor.name.starts_with("adam.") {
            continue;
        }
        let d = distance(&tensor.values, &golden[&theirs("after.", &tensor.name)].1);
        assert!(d < 1e-4, "{} differs by {d} after three steps", tensor.name);
    }
    let features = network.features(Images::new(pixels, shape).unwrap()).unwrap();
    let d = distance(&floats(&features.values), &golden["eval_features"].1);
    assert!(d < 1e-4, "eval features differ by {d}");
}

/// After the first step Adam's first moment is 0.1 times the gradient.
fn check_gradients(network: &Network, golden: &Tensors) {
    let mut seen = 0;
    for tensor in network.state().tensors {
        let Some(name) = tensor.name.strip_prefix("adam.m.") else {
            continue;
        };
        let gradient: Vec<f32> = tensor.values.iter().map(|m| m / 0.1).collect();
        let expected = &golden[&theirs("gradient.", name)].1;
        if name.ends_with("conv.bias") {
            // The normalisation takes any constant out again.
            assert!(gradient.iter().all(|&g| g == 0.0) && expected.iter().all(|g| g.abs() < 1e-12));
        } else {
            let d = distance(&gradient, expected);
            assert!(d < 1e-4, "gradient of {name} differs by {d}");
        }
        seen += 1;
    }
    assert_eq!(seen, 16);
}

#[test]
fn our_own_files_return_the_same_network() {
    let network = from_pytorch(&golden());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ours.safetensors");
    network.save_weights(&path).unwrap();
    let mut other = fresh();
    other.load_weights(&path).unwrap();
    assert_eq!(other.state(), network.state());
    let again = folder.path().join("again.safetensors");
    other.save_weights(&again).unwrap();
    assert_eq!(std::fs::read(path).unwrap(), std::fs::read(again).unwrap());
}

#[test]
fn other_prefixes_heads_and_second_names_are_read() {
    let golden = golden();
    let expected = from_pytorch(&golden).state();
    let rename = |tensors: &mut Tensors, f: &dyn Fn(&str) -> String| {
        *tensors = std::mem::take(tensors).into_iter().map(|(n, t)| (f(&n), t)).collect();
    };
    let mut network = fresh();

    let (_a, path) = state_dict(&golden, "feature.", |t| {
        rename(t, &|n| n.replace("feature.", "feature_extractor."));
        t.insert("classifier.weight".into(), (vec![2], vec![0.0; 2]));
    });
    network.load_weights(&path).unwrap();
    assert_eq!(network.state(), expected);

    let (_b, path) = state_dict(&golden, "feature.", |t| rename(t, &|n| n.replace("feature.", "")));
    network.load_weights(&path).unwrap();
    assert_eq!(network.state(), expected);

    let (_c, path) = state_dict(&golden, "feature.", |t| {
        let both: Vec<_> = t
            .iter()
            .map(|(n, v)| (n.replace(".C.", ".trunk.0.").replace(".BN.", ".trunk.1."), v.clone()))
            .collect();
        t.extend(both);
    });
    network.load_weights(&path).unwrap();
    assert_eq!(network.state(), expected);
}

#[test]
fn files_that_do_not_fit_are_refused_with_the_tensor_named() {
    let golden = golden();
    let mut network = fresh();
    let before = network.state();
    let mut refuse = |edit: &dyn Fn(&mut Tensors), word: &str| {
        let (_folder, path) = state_dict(&golden, "feature.", edit);
        let error = network.load_weights(&path).unwrap_err().to_string();
        assert!(error.contains(word) && error.contains("weights.safetensors"), "{error}");
        assert_eq!(network.state(), before);
    };
    refuse(&|t| drop(t.remove("feature.trunk.2.BN.running_var")), "`blocks.2.norm.running_var` is missing");
    refuse(
        &|t| drop(t.insert("feature.trunk.9.C.weight".into(), (vec![1], vec![0.0]))),
        "blocks.9.conv.weight",
    );
    refuse(&|t| drop(t.insert("feature.trunk.1.C.bias".into(), (vec![1], vec![0.0]))), "[8]");
    refuse(
        &|t| drop(t.insert("feature.trunk.0.trunk.1.bias".into(), (vec![8], vec![9.0; 8]))),
        "`blocks.0.norm.bias` is given twice",
    );

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("no.safetensors");
    assert!(matches!(network.load_weights(&path), Err(Error::WeightsIo { .. })));
    std::fs::write(&path, b"not a weight file").unwrap();
    assert!(matches!(network.load_weights(&path), Err(Error::WeightsFormat { .. })));
    let half = TensorView::new(Dtype::F16, vec![1], &[0, 0]).unwrap();
    std::fs::write(&path, safetensors::serialize([("trunk.0.C.weight", half)], None).unwrap()).unwrap();
    assert!(matches!(network.load_weights(&path), Err(Error::TensorType { .. })));
}
