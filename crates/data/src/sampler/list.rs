//! Episodes on file, so that every method and every other library is tested on the same tasks.
//!
//! JSON lines: a header, then one episode a line, with names in place of indices:
//!
//! ```text
//! {"siskin_episodes":1,"datasets":[{"name":"cub","content_hash":"9f..."}],"split":"test","seed":0,"spec":{...},"episodes":600}
//! {"episode":0,"dataset":"cub","classes":[{"name":"004.Groove_billed_Ani","support":["..."],"query":["...","..."]},...]}
//! ```

use std::collections::HashMap;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Episode, EpisodeClass, EpisodeSource, EpisodeSpec, Sampler};
use crate::files::Draft;
use crate::{Error, Items, Result, Split, SplitName};

/// Version of the format.
const VERSION: u32 = 1;

/// Episodes read from a file, each checked against the data.
#[derive(Clone, Debug)]
pub struct EpisodeList {
    splits: Arc<[Split]>,
    seed: u64,
    spec: EpisodeSpec,
    episodes: Vec<Episode>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    siskin_episodes: u32,
    datasets: Vec<DatasetLine>,
    split: SplitName,
    seed: u64,
    spec: EpisodeSpec,
    episodes: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct DatasetLine {
    name: String,
    content_hash: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct EpisodeLine {
    episode: u64,
    dataset: String,
    classes: Vec<ClassLine>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ClassLine {
    name: String,
    support: Vec<String>,
    query: Vec<String>,
}

impl EpisodeList {
    /// Writes episodes `0..count` of `sampler` to `path`: the whole list or nothing.
    pub fn write(sampler: &Sampler, count: u64, path: &Path) -> Result<()> {
        let io = |source| Error::Io { action: "write", path: path.to_owned(), source };
        let names = Names::new(&sampler.splits, path)?;
        let header = Header {
            siskin_episodes: VERSION,
            datasets: sampler.splits.iter().map(|split| dataset_line(&split.items)).collect(),
            split: sampler.splits[0].name,
            seed: sampler.seed,
            spec: sampler.spec.clone(),
            episodes: count,
        };
        let draft = Draft::create(path.parent().unwrap_or(Path::new("")), false).map_err(io)?;
        let mut out = BufWriter::new(draft);
        write_line(&mut out, &header).map_err(io)?;
        for index in 0..count {
            write_line(&mut out, &names.line(&sampler.draw(index))).map_err(io)?;
        }
        out.into_inner().map_err(|e| io(e.into_error()))?.place(path).map_err(io)
    }

    /// Reads a file written by [`EpisodeList::write`], on the same data: `splits` must hold the data sets named in
    /// the header, with the same content, in the same order.
    pub fn read(path: &Path, splits: impl Into<Arc<[Split]>>) -> Result<Self> {
        let splits = splits.into();
        let io = |source| Error::Io { action: "read", path: path.to_owned(), source };
        let mut lines = BufReader::new(std::fs::File::open(path).map_err(io)?).lines();
        let first = lines.next().transpose().map_err(io)?.unwrap_or_default();
        let header: Header = parse(path, 1, &first)?;
        check_header(path, &header, &splits)?;
        let names = Names::new(&splits, path)?;
        let mut episodes = Vec::new();
        for (number, line) in (2..).zip(lines) {
            let line: EpisodeLine = parse(path, number, &line.map_err(io)?)?;
            let episode = names.episode(line).map_err(|reason| bad_line(path, number, reason))?;
            if episode.index != episodes.len() as u64 {
                let reason =
                    format!("episode {} stands where episode {} belongs", episode.index, episodes.len());
                return Err(bad_line(path, number, reason));
            }
            episodes.push(episode);
        }
        if episodes.len() as u64 != header.episodes {
            let reason =
                format!("the header promises {} episodes, there are {}", header.episodes, episodes.len());
            return Err(bad_line(path, episodes.len() + 1, reason));
        }
        Ok(Self { splits, seed: header.seed, spec: header.spec, episodes })
    }

    /// Number of episodes.
    pub fn len(&self) -> usize {
        self.episodes.len()
    }

    /// Whether there is no episode.
    pub fn is_empty(&self) -> bool {
        self.episodes.is_empty()
    }

    /// The seed the episodes were drawn with.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The kind of episodes.
    pub fn spec(&self) -> &EpisodeSpec {
        &self.spec
    }
}

impl EpisodeSource for EpisodeList {
    fn splits(&self) -> &[Split] {
        &self.splits
    }

    fn episode(&self, index: u64) -> Result<Episode> {
        let found = usize::try_from(index).ok().and_then(|i| self.episodes.get(i));
        found.cloned().ok_or(Error::NoEpisode { index, count: self.episodes.len() as u64 })
    }
}

/// From indices to names and back.
struct Names<'a> {
    splits: &'a [Split],
    /// Of each split: position by class name.
    classes: Vec<HashMap<&'a str, usize>>,
    /// Of each class of each split: item by name.
    items: Vec<Vec<HashMap<String, usize>>>,
}

impl<'a> Names<'a> {
    /// Fails where two items of a class bear the same name.
    fn new(splits: &'a [Split], path: &Path) -> Result<Self> {
        let (mut classes, mut items) = (Vec::new(), Vec::new());
        for split in splits {
            classes.push((0..split.classes.len()).map(|k| (split.class(k).name.as_str(), k)).collect());
            let mut of_split = Vec::new();
            for (k, members) in split.classes.iter().enumerate() {
                let by_name: HashMap<String, usize> =
                    members.items.iter().map(|&item| (split.items.item_name(item), item)).collect();
                if by_name.len() != members.items.len() {
                    let class = &split.class(k).name;
                    return Err(bad_line(path, 1, format!("two items of class {class} bear the same name")));
                }
                of_split.push(by_name);
            }
            items.push(of_split);
        }
        Ok(Self { splits, classes, items })
    }

    fn line(&self, episode: &Episode) -> EpisodeLine {
        let items = &self.splits[episode.split].items;
        let names = |indices: &[usize]| indices.iter().map(|&i| items.item_name(i)).collect();
        let classes = episode.classes.iter().map(|class| ClassLine {
            name: items.classes()[class.class].name.clone(),
            support: names(&class.support),
            query: names(&class.query),
        });
        EpisodeLine { episode: episode.index, dataset: items.name().to_owned(), classes: classes.collect() }
    }

    /// The episode of a line, or what is wrong with it.
    fn episode(&self, line: EpisodeLine) -> std::result::Result<Episode, String> {
        let split = (self.splits.iter().position(|split| split.items.name() == line.dataset))
            .ok_or_else(|| format!("the header names no data set {}", line.dataset))?;
        let mut classes: Vec<EpisodeClass> = Vec::new();
        for class in &line.classes {
            let k = *(self.classes[split].get(class.name.as_str()))
                .ok_or_else(|| format!("the split has no class {}", class.name))?;
            let by_name = &self.items[split][k];
            let find = |name: &String| {
                by_name.get(name).copied().ok_or_else(|| format!("class {} has no image {name}", class.name))
            };
            let support = class.support.iter().map(find).collect::<std::result::Result<Vec<_>, _>>()?;
            let query = class.query.iter().map(find).collect::<std::result::Result<Vec<_>, _>>()?;
            let mut once: Vec<usize> = support.iter().chain(&query).copied().collect();
            once.sort_unstable();
            if once.windows(2).any(|pair| pair[0] == pair[1]) {
                return Err(format!("an image of class {} appears twice", class.name));
            }
            let class_index = self.splits[split].classes[k].class;
            if classes.iter().any(|earlier| earlier.class == class_index) {
                return Err(format!("class {} appears twice", class.name));
            }
            classes.push(EpisodeClass { class: class_index, support, query });
        }
        Ok(Episode { index: line.episode, split, classes })
    }
}

fn dataset_line(items: &Items) -> DatasetLine {
    DatasetLine { name: items.name().to_owned(), content_hash: items.content_hash().to_hex().to_string() }
}

fn check_header(path: &Path, header: &Header, splits: &[Split]) -> Result<()> {
    let differ = |what, file: String, data: String| {
        Err(Error::EpisodeListMismatch { path: path.to_owned(), what, file, data })
    };
    if header.siskin_episodes != VERSION {
        return differ("version of the format", header.siskin_episodes.to_string(), VERSION.to_string());
    }
    if header.datasets.len() != splits.len() {
        return differ("number of data sets", header.datasets.len().to_string(), splits.len().to_string());
    }
    for (line, split) in header.datasets.iter().zip(splits) {
        let data = dataset_line(&split.items);
        if line.name != data.name {
            return differ("name of the data set", line.name.clone(), data.name);
        }
        if line.content_hash != data.content_hash {
            return differ("content hash of the data set", line.content_hash.clone(), data.content_hash);
        }
        if header.split != split.name {
            return differ("split", header.split.as_str().into(), split.name.as_str().into());
        }
    }
    Ok(())
}

fn write_line(out: &mut impl Write, line: &impl Serialize) -> std::io::Result<()> {
    serde_json::to_writer(&mut *out, line)?;
    out.write_all(b"\n")
}

fn parse<'a, T: Deserialize<'a>>(path: &Path, line: usize, text: &'a str) -> Result<T> {
    serde_json::from_str(text).map_err(|error| bad_line(path, line, error.to_string()))
}

fn bad_line(path: &Path, line: usize, reason: String) -> Error {
    Error::EpisodeLine { path: path.to_owned(), line, reason }
}
