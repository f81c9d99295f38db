//! Runs that start from the weights of a file.

use crate::small::{config, train, with_opener};
use siskin_methods::{MethodName, Role, State, Tensor, Values};
use siskin_model::Model;
use siskin_nn::{Architecture, DeviceChoice, NamedTensor, Network};
use siskin_train::checkpoint;
use siskin_train::run::Run;
use std::path::Path;

fn weights(architecture: Architecture) -> Vec<NamedTensor> {
    Network::new(architecture, 9, DeviceChoice::Cpu).unwrap().weights()
}

/// Writes weights as PyTorch's few-shot code names them, with a tensor of a head.
fn write(path: &Path, weights: &[NamedTensor]) {
    let theirs = |name: &str| {
        let name = name.replace("blocks.", "feature.trunk.");
        name.replace(".conv.", ".C.").replace(".norm.", ".BN.")
    };
    let tensor = |name: String, shape: &[usize], values: &[f32]| Tensor {
        name,
        shape: shape.to_vec(),
        values: Values::F32(values.to_vec()),
        role: Role::Model,
    };
    let mut state: State =
        State(weights.iter().map(|t| tensor(theirs(&t.name), &t.shape, &t.values)).collect());
    state.0.push(tensor("classifier.weight".into(), &[2], &[1.0, 2.0]));
    std::fs::write(path, siskin_model::tensors::encode(&state, "from", "pytorch").unwrap()).unwrap();
}

#[test]
fn every_method_starts_from_the_weights_of_a_file_and_resumes_without_it() {
    let root = tempfile::tempdir().unwrap();
    let (path, weights) = (root.path().join("w.safetensors"), weights(Architecture::Conv4S));
    write(&path, &weights);
    let file = format!("backbone.weights={}", path.display());
    for method in MethodName::all() {
        let folder = root.path().join(method.name());
        // A rate so small that one step leaves the weights as they are.
        let name = format!("method={method}");
        let mut settings = vec![name.as_str(), &file, "train.episodes=1", "train.learning_rate=1e-30"];
        settings.extend((method.name() == "abml").then_some("abml.samples=1"));
        train(&folder, &config(&settings), None);
        let (position, state) = checkpoint::load(&folder.join("last.safetensors")).unwrap();
        assert!(position.config.contains("w.safetensors"), "the run's config names the file");
        for wanted in weights.iter().filter(|t| t.name.ends_with("conv.weight")) {
            let name = format!("network.{}", wanted.name);
            let found = state.0.iter().find(|t| t.name == name).unwrap();
            assert!(found.values == Values::F32(wanted.values.clone()), "{method}: {name}");
        }
    }
    std::fs::remove_file(&path).unwrap();
    with_opener(|opener| Run::resume(&root.path().join("proto-net"), opener)).unwrap();
}

#[test]
fn a_run_starts_from_the_backbone_of_a_model() {
    let root = tempfile::tempdir().unwrap();
    let first = root.path().join("first");
    train(&first, &config(&["method=proto-net", "train.episodes=2", "train.validate_every=0"]), None);
    let file = root.path().join("model.safetensors");
    Model::open(&first.display().to_string()).unwrap().export(&file).unwrap();
    let backbone = |folder: &Path| {
        let (_, state) = checkpoint::load(&folder.join("last.safetensors")).unwrap();
        let ours = |t: &Tensor| t.role == Role::Model && t.name.ends_with("conv.weight");
        // A file may have its arrays in any order.
        let mut found: Vec<Tensor> = state.0.into_iter().filter(ours).collect();
        found.sort_by(|a, b| a.name.cmp(&b.name));
        found
    };
    let wanted = backbone(&first);
    assert_eq!(wanted.len(), 4);
    for (index, given) in [&first, &file].into_iter().enumerate() {
        let folder = root.path().join(index.to_string());
        let weights = format!("backbone.weights={}", given.display());
        train(
            &folder,
            &config(&["method=cdkt", &weights, "train.episodes=1", "train.learning_rate=1e-30"]),
            None,
        );
        let found = backbone(&folder);
        for (found, wanted) in found.iter().zip(&wanted) {
            assert!(found == wanted, "{given:?}: {}", wanted.name);
        }
        assert_eq!(found.len(), wanted.len());
    }
    for (given, says) in [
        (first.join("last.safetensors").display().to_string(), "give the run folder"),
        ("mini-imagenet-conv4".into(), "has a conv4, this run a conv4s"),
    ] {
        let config = config(&[&format!("backbone.weights={given}")]);
        let error = with_opener(|opener| Run::start(&root.path().join("no"), config, opener)).err().unwrap();
        assert!(error.to_string().contains(says), "{error}");
    }
}

#[test]
fn weights_that_do_not_fit_are_refused_before_anything_is_written() {
    let root = tempfile::tempdir().unwrap();
    let (colour, short) = (root.path().join("colour"), root.path().join("short"));
    write(&colour, &weights(Architecture::Conv4));
    write(&short, &weights(Architecture::Conv4S)[1..]);
    for (file, says) in [
        (&colour, "do not fit this conv4s: tensor `blocks.0.conv.weight` has shape [64, 3, 3, 3]"),
        (&short, "tensor `blocks.0.conv.weight` is missing"),
        (&root.path().join("absent"), "cannot access the weight file"),
    ] {
        let folder = root.path().join("run");
        let config = config(&[&format!("backbone.weights={}", file.display())]);
        let error = with_opener(|opener| Run::start(&folder, config, opener)).err().unwrap().to_string();
        assert!(error.contains(says) && error.contains(&file.display().to_string()), "{error}");
        assert!(!folder.exists());
    }
}
