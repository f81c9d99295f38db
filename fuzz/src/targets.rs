//! The targets, by crate.

use crate::{Target, seeds};
use siskin_adapt::{Model, TaskClassifier};
use siskin_data::fuzzing;
use siskin_model::seal;
use std::path::Path;

macro_rules! target {
    ($name:literal, $run:expr, $seeds:expr) => {
        target!($name, $run, $seeds, 1500)
    };
    ($name:literal, $run:expr, $seeds:expr, $memory:literal) => {
        Target { name: $name, run: $run, seeds: $seeds, memory: $memory }
    };
}

pub(crate) const ALL: &[Target] = &[
    // Twice what an image may claim that is tried.
    target!("image", fuzzing::image, seeds::images, 256),
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
    target!("label_sets", label_sets, seeds::label_sets),
    target!("checkpoint", checkpoint, seeds::checkpoints),
    target!("weights", weights, seeds::weights),
    target!("classifier", classifier, seeds::classifiers),
    target!("config", config, seeds::configs),
    target!("http_body", siskin_serve::fuzzing::body, seeds::http_bodies, 256),
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

fn label_sets(bytes: &[u8]) {
    let _ = siskin_adapt::fuzzing::label_sets(bytes, true);
    let _ = siskin_adapt::fuzzing::label_sets(bytes, false);
}

/// As it is, and with the checksum of what it is now.
fn model(bytes: &[u8]) {
    let _ = Model::from_bytes(bytes, "fuzz");
    if let Some(sealed) = sealed_anew(bytes) {
        let _ = Model::from_bytes(&sealed, "fuzz");
    }
}

fn checkpoint(bytes: &[u8]) {
    folder(|at| {
        let path = at.join("last.safetensors");
        for bytes in [Some(bytes.to_vec()), sealed_anew(bytes)].into_iter().flatten() {
            if std::fs::write(&path, bytes).is_ok() {
                let _ = siskin_train::checkpoint::load(&path);
            }
        }
    });
}

/// The same with a checksum that fits, if there is a place for one.
fn sealed_anew(bytes: &[u8]) -> Option<Vec<u8>> {
    let before = br#"{\"checksum\":\""#;
    let place = bytes.windows(before.len()).position(|window| window == before)? + before.len();
    let mut sealed = bytes.to_vec();
    sealed.get_mut(place..place + seal::ZEROS.len())?.copy_from_slice(seal::ZEROS.as_bytes());
    seal::seal(&mut sealed).ok().map(|()| sealed)
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

#[cfg(test)]
mod tests {
    use super::*;

    /// What is damaged behind a checksum reaches the parser: the checksum is not what refuses it.
    #[test]
    fn seeds_reach_what_is_behind_their_checksums() {
        for seeds in [seeds::models(), seeds::checkpoints()] {
            for seed in seeds {
                let mut damaged = seed.clone();
                *damaged.last_mut().unwrap() ^= 1;
                let sealed = sealed_anew(&damaged).unwrap();
                assert!(sealed != damaged && sealed.len() == seed.len());
                assert_eq!(sealed_anew(&seed).as_ref(), Some(&seed));
            }
        }
        let model = sealed_anew(&seeds::models()[0]).unwrap();
        assert!(Model::from_bytes(&model, "fuzz").is_ok());
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("last.safetensors");
        for seed in seeds::checkpoints() {
            std::fs::write(&path, seed).unwrap();
            siskin_train::checkpoint::load(&path).unwrap();
        }
        for seed in seeds::classifiers() {
            siskin_gp::classifier::GpClassifier::from_bytes(&seed, "fuzz").unwrap();
        }
        assert!(siskin_adapt::fuzzing::label_sets(&seeds::label_sets()[0], false).unwrap());
    }
}
