//! Images to be classified: files, folders, a list of paths; read and decoded a batch at a time.

use crate::error::Result;
use crate::intake::Intake;
use rayon::prelude::*;
use siskin_data::Image;
use siskin_data::fault::Fault;
use siskin_data::open::SHORTER_SIDE;
use siskin_data::source::listing::is_image;
use siskin_data::source::tree::Tree;
use siskin_model::{Model, View};
use std::collections::VecDeque;
use std::io::{BufRead, Read};
use std::path::{Path, PathBuf};

/// Most bytes of a path in a list of paths.
const MOST_PATH: u64 = 64 << 10;

/// Decodes an image as training data were: made smaller if it is large.
pub fn decode(bytes: &[u8]) -> std::result::Result<Image, Fault> {
    siskin_data::image::decode::decode(bytes, Some(SHORTER_SIDE))
}

/// An image from pixels in memory, `[height, width, channels]`, treated as `model` treats those of a file: see
/// [`siskin_data::image::decode::from_pixels`].
pub fn from_pixels(
    model: &Model,
    shape: (usize, usize, usize),
    pixels: Vec<u8>,
) -> std::result::Result<Image, Fault> {
    siskin_data::image::decode::from_pixels(shape, pixels, Some(model.shorter_side()))
}

/// One image, or why it is none.
#[derive(Debug)]
pub struct Input {
    /// Its path as it was given or found.
    pub path: String,
    /// What the network sees of it.
    pub view: std::result::Result<View, Fault>,
}

/// Paths of images, taken one after the other; folders are listed when their turn comes.
pub struct Inputs<'a> {
    given: VecDeque<PathBuf>,
    found: VecDeque<(PathBuf, Option<Fault>)>,
    lines: Option<Box<dyn BufRead + 'a>>,
}

impl<'a> Inputs<'a> {
    /// Files and folders, then the paths in `lines`, one per line.
    pub fn new(given: &[PathBuf], lines: Option<Box<dyn BufRead + 'a>>) -> Inputs<'a> {
        Inputs { given: given.iter().cloned().collect(), found: VecDeque::new(), lines }
    }

    /// The next path, with its fault if that is known already.
    fn next_path(&mut self) -> Result<Option<(PathBuf, Option<Fault>)>> {
        loop {
            if let Some(next) = self.found.pop_front() {
                return Ok(Some(next));
            }
            let path = match self.given.pop_front() {
                Some(path) => path,
                None => match self.next_line()? {
                    Some(path) => path,
                    None => return Ok(None),
                },
            };
            if !path.is_dir() {
                return Ok(Some((path, None)));
            }
            self.list(path);
        }
    }

    /// Takes the images of a folder; a folder that cannot be listed, or has none, is an input with its fault.
    fn list(&mut self, folder: PathBuf) {
        let tree = match Tree::open(&folder) {
            Ok(tree) => tree,
            Err(e) => {
                let fault = Fault::Unreadable { reason: e.to_string() };
                return self.found.push_back((folder, Some(fault)));
            }
        };
        let images = tree.files.iter().filter(|f| is_image(&f.path));
        self.found.extend(images.map(|f| (folder.join(&f.path), None)));
        self.found.extend(tree.refused.into_iter().map(|bad| (bad.path.into(), Some(bad.fault))));
        if self.found.is_empty() {
            let reason = "it is a folder without an image".into();
            self.found.push_back((folder, Some(Fault::Unreadable { reason })));
        }
    }

    fn next_line(&mut self) -> Result<Option<PathBuf>> {
        let Some(lines) = &mut self.lines else { return Ok(None) };
        let mut line = Vec::new();
        loop {
            line.clear();
            let io = |source| siskin_data::Error::io("read paths from", Path::new("-"), source);
            let read = lines.by_ref().take(MOST_PATH).read_until(b'\n', &mut line).map_err(io)?;
            if read as u64 == MOST_PATH {
                let why = format!("a line has more than the {MOST_PATH} bytes that a path may have");
                return Err(io(std::io::Error::new(std::io::ErrorKind::InvalidInput, why)).into());
            }
            if read == 0 {
                return Ok(None);
            }
            while line.last().is_some_and(|byte| b"\r\n".contains(byte)) {
                line.pop();
            }
            if !line.is_empty() {
                return Ok(Some(path_of(&line)));
            }
        }
    }

    /// All paths that are left, each with its fault if that is known already.
    pub(crate) fn all(mut self) -> Result<Vec<(PathBuf, Option<Fault>)>> {
        let mut paths = Vec::new();
        while let Some(path) = self.next_path()? {
            paths.push(path);
        }
        Ok(paths)
    }

    /// The next images, at most `most`, read side by side for `model`; empty at the end. What is no image, or not there,
    /// is an input with its fault.
    pub fn batch(&mut self, most: usize, model: &Model, intake: &Intake) -> Result<Vec<Input>> {
        let mut paths = Vec::new();
        while paths.len() < most
            && let Some(path) = self.next_path()?
        {
            paths.push(path);
        }
        let read = |(path, fault): (PathBuf, Option<Fault>)| Input {
            view: fault.map_or_else(|| intake.view_file(model, &path), Err),
            path: path.display().to_string(),
        };
        Ok(paths.into_par_iter().map(read).collect())
    }
}

/// The path of a line: any bytes where the system has such names.
#[cfg(unix)]
fn path_of(line: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStrExt;
    std::ffi::OsStr::from_bytes(line).into()
}

/// The path of a line.
#[cfg(not(unix))]
fn path_of(line: &[u8]) -> PathBuf {
    String::from_utf8_lossy(line).into_owned().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_folders_and_lines_come_in_order_and_bad_ones_stay() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::create_dir(at("folder")).unwrap();
        for name in ["folder/b.pgm", "folder/a.pgm", "c.pgm"] {
            std::fs::write(at(name), b"P2 1 1 255 7").unwrap();
        }
        std::fs::write(at("folder/readme.txt"), b"text").unwrap();
        std::fs::write(at("bad.png"), b"text").unwrap();
        std::fs::create_dir(at("empty")).unwrap();
        let mut lines = format!("{}\n\n{}\r\n", at("c.pgm").display(), at("gone.png").display()).into_bytes();
        lines.extend(b"\xff\xfe.png\n");
        let given = [at("bad.png"), at("folder"), at("empty")];
        let mut inputs = Inputs::new(&given, Some(Box::new(std::io::Cursor::new(lines))));
        let (model, intake) = (Model::open(crate::EMBEDDED[0].0).unwrap(), Intake::default());
        let mut batch = |most| inputs.batch(most, &model, &intake).unwrap();
        let (first, rest) = (batch(2), batch(9));
        let names: Vec<&str> =
            first.iter().chain(&rest).map(|i| i.path.rsplit('/').next().unwrap()).collect();
        let wanted = ["bad.png", "a.pgm", "b.pgm", "empty", "c.pgm", "gone.png", "\u{fffd}\u{fffd}.png"];
        assert_eq!(names, wanted);
        assert_eq!(first[0].view, Err(Fault::UnknownFormat));
        let seven = Image { width: 1, height: 1, channels: 1, pixels: vec![7] };
        assert_eq!(first[1].view, Ok(model.view(&seven)));
        assert!([1, 3, 4].iter().all(|&i| matches!(rest[i].view, Err(Fault::Unreadable { .. }))));
        assert!(batch(1).is_empty());
        // A line without end is not read to its end.
        let mut endless = Inputs::new(&[], Some(Box::new(std::io::BufReader::new(std::io::repeat(b'x')))));
        let error = endless.batch(1, &model, &intake).unwrap_err().to_string();
        assert!(error.contains("65536 bytes that a path may have"), "{error}");
    }

    /// A pipe would be waited for without end.
    #[cfg(unix)]
    #[test]
    fn a_pipe_is_no_image() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe.png");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let mut inputs = Inputs::new(&[pipe, "/dev/zero".into()], None);
        let (model, intake) = (Model::open(crate::EMBEDDED[0].0).unwrap(), Intake::default());
        let batch = inputs.batch(2, &model, &intake).unwrap();
        assert!(batch.iter().all(|input| matches!(input.view, Err(Fault::Unreadable { .. }))), "{batch:?}");
    }
}
