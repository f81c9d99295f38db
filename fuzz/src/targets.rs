//! The targets, by crate.

use crate::{Target, seeds};
use siskin_adapt::{Model, TaskClassifier};
use siskin_data::fuzzing;
use std::path::Path;

macro_rules! target {
    ($name:literal, $run:expr, $seeds:expr) => {
        Target { name: $name, run: $run, seeds: $seeds }
    };
}

pub(crate) const ALL: &[Target] = &[
    target!("image", fuzzing::image, seeds::images),
    target!("archive", archive, seeds::archives),
    target!("file_list", fuzzing::file_list, seeds::file_lists),
    target!("csv_list", fuzzing::csv_list, seeds::csv_lists),
    target!("split_list", fuzzing::split_list, seeds::split_lists),
    target!("npy", fuzzing::npy, seeds::npy),
    target!("idx", in_folder::<0>, seeds::idx),
    target!("vectors", in_folder::<1>, seeds::vectors),
    target!("episode_list", in_folder::<2>, seeds::episode_lists),
    target!("pack", in_folder::<3>, seeds::packs),
    target!("task", task, seeds::tasks),
    target!("model", model, seeds::models),
    target!("checkpoint", checkpoint, seeds::checkpoints),
    target!("weights", weights, seeds::weights),
    target!("classifier", classifier, seeds::classifiers),
    target!("config", config, seeds::configs),
    target!("http_body", siskin_serve::fuzzing::body, seeds::http_bodies),
];

/// The first byte chooses the kind of archive, the rest is its content.
fn archive(bytes: &[u8]) {
    let Some((kind, content)) = bytes.split_first() else { return };
    let name = ["x.tar", "x.tar.gz", "x.zip"][usize::from(*kind) % 3];
    folder(|at| fuzzing::archive(content, at, name));
}

/// Targets that read a file.
fn in_folder<const KIND: usize>(bytes: &[u8]) {
    let read = [fuzzing::idx, fuzzing::vectors, fuzzing::episode_list, fuzzing::pack][KIND];
    folder(|at| read(bytes, at));
}

fn folder(work: impl FnOnce(&Path)) {
    // Without a folder there is nothing to try.
    if let Ok(folder) = tempfile::tempdir() {
        work(folder.path());
    }
}

/// As it is, and as if its checksum were right: the checks behind it must hold too.
fn task(bytes: &[u8]) {
    let _ = TaskClassifier::from_bytes(bytes, "fuzz");
    let _ = siskin_adapt::fuzzing::unsealed_task(bytes);
}

fn model(bytes: &[u8]) {
    let _ = Model::from_bytes(bytes, "fuzz");
}

fn checkpoint(bytes: &[u8]) {
    folder(|at| {
        let path = at.join("last.safetensors");
        if std::fs::write(&path, bytes).is_ok() {
            let _ = siskin_train::checkpoint::load(&path);
        }
    });
}

fn weights(bytes: &[u8]) {
    folder(|at| {
        let path = at.join("weights.safetensors");
        let network =
            siskin_nn::Network::new(siskin_nn::Architecture::Conv4S, 0, siskin_nn::DeviceChoice::Cpu);
        if let (Ok(()), Ok(mut network)) = (std::fs::write(&path, bytes), network) {
            let _ = network.load_weights(&path);
        }
    });
}

fn classifier(bytes: &[u8]) {
    let _ = siskin_gp::classifier::GpClassifier::from_bytes(bytes, "fuzz");
}

fn config(bytes: &[u8]) {
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = siskin_train::config::Config::parse(text, &[]);
    }
}
