//! Small backbones against PyTorch: weights by name, features, gradients, three Adam steps, running statistics.
//! `scripts/make_backbone_golden.py` makes the files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};
use siskin_nn::{
    Architecture, Backbone, DeviceChoice, Error, Features, HeadLoss, Images, NamedTensor, Network, Step,
};

type Tensors = BTreeMap<String, (Vec<usize>, Vec<f32>)>;

fn golden(name: &str) -> Tensors {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/{name}.safetensors"));
    let bytes = std::fs::read(path).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    file.iter()
        .map(|(name, view)| {
            let values = view.data().as_chunks::<4>().0;
            let values = values.iter().map(|&b| f32::from_le_bytes(b)).collect();
            (name.to_owned(), (view.shape().to_vec(), values))
        })
        .collect()
}

/// A file with the golden tensors of `part`, as a user would have it.
fn state_dict(golden: &Tensors, part: &str, edit: impl FnOnce(&mut Tensors)) -> (tempfile::TempDir, PathBuf) {
    let chosen = golden.iter().filter_map(|(name, t)| Some((name.strip_prefix(part)?.to_owned(), t.clone())));
    let mut chosen: Tensors = chosen.collect();
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

fn fresh(architecture: Architecture) -> Backbone {
    let width = if architecture == Architecture::ResNet12 { 2 } else { 8 };
    Backbone::with_width(architecture, width, 0, &DeviceChoice::Cpu.open().unwrap())
}

/// `network` with the golden tensors of `part`.
fn with(mut network: Network, golden: &Tensors, part: &str) -> Network {
    let (_folder, path) = state_dict(golden, part, |_| {});
    network.load_weights(&path).unwrap();
    network
}

/// Parameters and running statistics, without the optimiser.
fn values(network: &Network) -> Vec<NamedTensor> {
    network.state().model
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

/// Trains as the script did and compares on the way.
fn equals_pytorch(backbone: Backbone, name: &str) {
    let golden = golden(name);
    let mut network = with(Network::of(backbone), &golden, "state.");
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
            let dfeatures = cotangent.clone();
            Ok::<_, Error>(HeadLoss { loss: 0.0, dfeatures, dhyper: vec![], accuracy: None })
        };
        network.episode(Images::new(&scaled, shape).unwrap(), &mut step, head).unwrap();
        network.apply(step, 1e-3);
        if step_index == 0 {
            check_gradients(&network, &golden);
        }
    }
    let after = with(network.clone(), &golden, "after.");
    for (ours, theirs) in values(&network).iter().zip(&values(&after)) {
        let d = distance(&ours.values, &theirs.values);
        assert!(d < 1e-4, "{} differs by {d} after three steps", ours.name);
    }
    let features = network.features(Images::new(pixels, shape).unwrap()).unwrap();
    let d = distance(&floats(&features.values), &golden["eval_features"].1);
    assert!(d < 1e-4, "eval features differ by {d}");
}

/// After the first step Adam's first moment is 0.1 times the gradient.
fn check_gradients(network: &Network, golden: &Tensors) {
    let theirs = values(&with(network.clone(), golden, "gradient."));
    let mut seen = 0;
    for tensor in network.state().moments {
        let Some(name) = tensor.name.strip_prefix("adam.m.") else {
            continue;
        };
        let gradient: Vec<f32> = tensor.values.iter().map(|m| m / 0.1).collect();
        let expected = &theirs.iter().find(|t| t.name == name).unwrap().values;
        if name.ends_with("conv.bias") {
            // The normalisation takes any constant out again.
            assert!(gradient.iter().all(|&g| g == 0.0) && expected.iter().all(|g| g.abs() < 1e-12));
        } else {
            let d = distance(&gradient, expected);
            assert!(d < 1e-4, "gradient of {name} differs by {d}");
        }
        seen += 1;
    }
    assert_eq!(seen, theirs.iter().filter(|t| !t.name.contains("running")).count());
}

#[test]
fn conv4_equals_pytorch() {
    equals_pytorch(fresh(Architecture::Conv4), "conv4");
}

#[test]
fn conv4_of_plain_burn_operations_equals_pytorch() {
    equals_pytorch(fresh(Architecture::Conv4).unfused(), "conv4");
}

#[test]
fn resnet12_equals_pytorch() {
    equals_pytorch(fresh(Architecture::ResNet12), "resnet12");
}

#[test]
fn resnet12_of_plain_burn_operations_equals_pytorch() {
    equals_pytorch(fresh(Architecture::ResNet12).unfused(), "resnet12");
}

fn conv4() -> Network {
    Network::of(fresh(Architecture::Conv4))
}

#[test]
fn our_own_files_return_the_same_network() {
    let network = with(conv4(), &golden("conv4"), "state.");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ours.safetensors");
    network.save_weights(&path).unwrap();
    let mut other = conv4();
    other.load_weights(&path).unwrap();
    assert_eq!(other.state(), network.state());
    let again = folder.path().join("again.safetensors");
    other.save_weights(&again).unwrap();
    assert_eq!(std::fs::read(path).unwrap(), std::fs::read(again).unwrap());
}

#[test]
fn other_prefixes_heads_and_second_names_are_read() {
    let golden = golden("conv4");
    let expected = with(conv4(), &golden, "state.").state();
    let rename = |tensors: &mut Tensors, f: &dyn Fn(&str) -> String| {
        *tensors = std::mem::take(tensors).into_iter().map(|(n, t)| (f(&n), t)).collect();
    };
    let mut network = conv4();

    let (_a, path) = state_dict(&golden, "state.", |t| {
        rename(t, &|n| n.replace("feature.", "feature_extractor."));
        t.insert("classifier.weight".into(), (vec![2], vec![0.0; 2]));
    });
    network.load_weights(&path).unwrap();
    assert_eq!(network.state(), expected);

    let (_b, path) = state_dict(&golden, "state.", |t| rename(t, &|n| n.replace("feature.", "")));
    network.load_weights(&path).unwrap();
    assert_eq!(network.state(), expected);

    let (_c, path) = state_dict(&golden, "state.", |t| {
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
    let golden = golden("conv4");
    let mut network = conv4();
    let before = network.state();
    let mut refuse = |edit: &dyn Fn(&mut Tensors), word: &str| {
        let (_folder, path) = state_dict(&golden, "state.", edit);
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
