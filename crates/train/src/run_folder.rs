//! The folder of one run: what is in it, and who may write to it.
//!
//! ```text
//! config.toml         the resolved config, every key written out
//! run.json            versions, CPU kernels, data hash, command line
//! metrics.jsonl       one line a training step and a validation; no clock times, so equal runs give equal files
//! events.out.tfevents…  the same curves for TensorBoard
//! last.safetensors    the newest checkpoint: `siskin train --resume` goes on from here
//! best.safetensors    the checkpoint with the best validation accuracy: what test and predict use
//! ```

use crate::atomic;
use crate::config::Config;
use crate::error::{Error, Result, io};
use serde::Serialize;
use siskin_data::files::{self, Lock};
use siskin_data::shell::quoted;
use siskin_nn::Hardware;
use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// Paths below one run folder.
#[derive(Debug, Clone)]
pub struct RunFolder(PathBuf);

/// `run.json`.
#[derive(Debug, Serialize)]
pub struct RunRecord<'a> {
    /// What the program is made of.
    pub versions: Versions,
    /// The vector instructions of the fused CPU blocks, or `burn` where Burn computes.
    pub kernels: &'static str,
    /// Names and hashes of the data.
    pub data: &'a str,
    /// The command line that started the run.
    pub command: Vec<String>,
}

/// What the program is made of.
#[derive(Debug, Serialize)]
pub struct Versions {
    /// This program.
    pub siskin: &'static str,
    /// Burn, the tensor library.
    pub burn: &'static str,
    /// The compiler.
    pub rustc: &'static str,
    /// The machine it was built for.
    pub target: &'static str,
}

const VERSIONS: Versions = Versions {
    siskin: env!("CARGO_PKG_VERSION"),
    burn: env!("SISKIN_BURN"),
    rustc: env!("SISKIN_RUSTC"),
    target: env!("SISKIN_TARGET"),
};

impl RunFolder {
    /// A new run: makes the folder, refuses one that already holds a checkpoint.
    pub fn create(path: &Path, config: &Config, data: &str) -> Result<RunFolder> {
        let folder = RunFolder(path.into());
        if folder.last().exists() {
            return Err(Error::Run(format!(
                "{} already holds a run. Go on with it by `siskin train --resume {}`, or choose another folder with --out.",
                path.display(),
                quoted(path)
            )));
        }
        std::fs::create_dir_all(path).map_err(io("create the run folder", path))?;
        let _lock = Lock::take(path).map_err(io("use the run folder", path))?;
        atomic::write(&path.join("config.toml"), config.to_toml().as_bytes())?;
        let fused = config.backbone.fused && config.backbone.device == Hardware::Cpu;
        let kernels = if fused { siskin_cpu::Isa::detect().name() } else { "burn" };
        let command = std::env::args().collect();
        let record = RunRecord { versions: VERSIONS, kernels, data, command };
        let json = serde_json::to_vec_pretty(&record).expect("a run record is plain data");
        atomic::write(&path.join("run.json"), &json)?;
        Ok(folder)
    }

    /// A run that another process, the first of a team, writes.
    pub(crate) fn of_first(path: &Path) -> RunFolder {
        RunFolder(path.into())
    }

    /// A run to go on with, to test or to calibrate.
    pub fn open(path: &Path) -> Result<RunFolder> {
        let folder = RunFolder(path.into());
        if ![folder.last(), folder.best(), folder.diverged()].iter().any(|file| file.exists()) {
            let config = path.join("config.toml");
            if config.exists() {
                return Err(Error::Run(format!(
                    "{} holds a run that was ended before its first save, so there is nothing to go on from. Start it \
                     again: siskin train {} --out {} (train.save_minutes says how often it saves).",
                    path.display(),
                    quoted(config),
                    quoted(path)
                )));
            }
            return Err(Error::Run(format!(
                "{} holds no run: neither last.safetensors nor best.safetensors is there. \
                 Give the folder that `siskin train` wrote (its --out).",
                path.display()
            )));
        }
        Ok(folder)
    }

    /// The folder itself.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The newest checkpoint.
    pub fn last(&self) -> PathBuf {
        self.0.join("last.safetensors")
    }

    /// The checkpoint with the best validation accuracy.
    pub fn best(&self) -> PathBuf {
        self.0.join("best.safetensors")
    }

    /// What training goes on from: the newest checkpoint, or, where a run was killed before it wrote one, the best.
    pub(crate) fn newest(&self) -> PathBuf {
        if self.last().exists() { self.last() } else { self.best() }
    }

    /// The state before the steps that stopped a diverged run.
    pub(crate) fn diverged(&self) -> PathBuf {
        self.0.join("diverged.safetensors")
    }

    /// Which steps stopped a diverged run.
    pub fn replay(&self) -> PathBuf {
        self.0.join("replay.json")
    }

    /// The resolved config.
    pub fn config(&self) -> Result<Config> {
        Config::load_saved(&self.0.join("config.toml"), &[])
    }
}

/// Appends lines to `metrics.jsonl`.
pub struct Metrics {
    file: BufWriter<File>,
    /// One process trains in a folder at a time.
    _lock: Lock,
    path: PathBuf,
    bytes: u64,
}

impl Metrics {
    /// Opens the file and cuts it to `bytes`: what a stopped run wrote after its last checkpoint is done again.
    pub fn open(folder: &RunFolder, bytes: u64) -> Result<Metrics> {
        let lock = Lock::take(&folder.0).map_err(io("use the run folder", &folder.0))?;
        let path = folder.0.join("metrics.jsonl");
        let open = || {
            let mut file = files::open(&path, OpenOptions::new().create(true).write(true).truncate(false))?;
            let found = file.metadata()?.len();
            if found >= bytes {
                file.set_len(bytes)?;
            }
            file.seek(SeekFrom::End(0))?;
            Ok((file, found))
        };
        let (file, found) = open().map_err(io("write", &path))?;
        if found < bytes {
            return Err(Error::Run(format!(
                "{} has {found} bytes, the checkpoint knows of {bytes}: it was changed by hand. \
                 Put it back, or start a new run.",
                path.display()
            )));
        }
        Ok(Metrics { file: BufWriter::new(file), _lock: lock, path, bytes })
    }

    /// One line.
    pub fn write(&mut self, line: &impl Serialize) -> Result<()> {
        let mut text = serde_json::to_vec(line).expect("a metrics line is plain data");
        text.push(b'\n');
        self.bytes += text.len() as u64;
        self.file.write_all(&text).map_err(io("write", &self.path))
    }

    /// Brings what was written to the disk and says how long the file is.
    pub fn flush(&mut self) -> Result<u64> {
        self.file.flush().and_then(|()| self.file.get_ref().sync_data()).map_err(io("write", &self.path))?;
        Ok(self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_with_a_run_is_not_overwritten() {
        let root = tempfile::tempdir().unwrap();
        let folder = RunFolder::create(root.path(), &Config::default(), "x").unwrap();
        assert_eq!(folder.config().unwrap(), Config::default());
        let record = std::fs::read(root.path().join("run.json")).unwrap();
        let record: serde_json::Value = serde_json::from_slice(&record).unwrap();
        assert_eq!(record["versions"]["siskin"], env!("CARGO_PKG_VERSION"));
        assert!(record["versions"]["burn"].as_str().unwrap().starts_with("0."), "{record}");
        assert!(record["versions"]["rustc"].as_str().unwrap().starts_with("rustc "), "{record}");
        assert!(record["versions"]["target"].as_str().unwrap().contains(std::env::consts::OS), "{record}");
        assert_eq!(record["kernels"], siskin_cpu::Isa::detect().name());
        let error = RunFolder::open(root.path()).unwrap_err().to_string();
        assert!(error.contains("before its first save") && error.contains("config.toml --out"), "{error}");
        std::fs::create_dir(root.path().join("empty")).unwrap();
        let error = RunFolder::open(&root.path().join("empty")).unwrap_err().to_string();
        assert!(error.contains("holds no run"), "{error}");
        std::fs::write(folder.last(), b"").unwrap();
        let error = RunFolder::create(root.path(), &Config::default(), "x").unwrap_err().to_string();
        assert!(error.contains("--resume"), "{error}");
    }

    #[test]
    fn metrics_are_cut_to_the_checkpoint() {
        let root = tempfile::tempdir().unwrap();
        let folder = RunFolder(root.path().into());
        let mut metrics = Metrics::open(&folder, 0).unwrap();
        metrics.write(&1).unwrap();
        let kept = metrics.flush().unwrap();
        metrics.write(&2).unwrap();
        drop(metrics);
        let mut again = Metrics::open(&folder, kept).unwrap();
        again.write(&3).unwrap();
        again.flush().unwrap();
        assert_eq!(std::fs::read_to_string(root.path().join("metrics.jsonl")).unwrap(), "1\n3\n");
        assert!(Metrics::open(&folder, 99).is_err());
    }

    #[cfg(unix)]
    #[test]
    fn metrics_are_not_written_through_a_link() {
        let root = tempfile::tempdir().unwrap();
        let folder = RunFolder::create(root.path(), &Config::default(), "x").unwrap();
        let (victim, metrics) = (root.path().join("victim"), root.path().join("metrics.jsonl"));
        std::fs::write(&victim, "precious words").unwrap();
        let _ = std::fs::remove_file(&metrics);
        std::os::unix::fs::symlink(&victim, &metrics).unwrap();
        assert!(Metrics::open(&folder, 0).is_err());
        assert_eq!(std::fs::read(&victim).unwrap(), b"precious words");
    }
}
