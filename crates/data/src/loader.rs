//! Episodes as the network takes them, prepared ahead of time on other threads.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use crate::{Episode, EpisodeSource, Error, Items, Result, Transform};
use siskin_random::stream_at;

/// One episode, ready for the network. Rows are class-major, see [`Episode`].
#[derive(Clone, Debug, PartialEq)]
pub struct LoadedEpisode {
    /// Which items the rows are.
    pub episode: Episode,
    /// The rows: `[rows, input_shape...]`.
    pub inputs: Vec<f32>,
    /// Shape of one row: `[channels, size, size]` of an image, `[dim]` of an embedding.
    pub input_shape: Vec<usize>,
    /// Label of each row.
    pub labels: Vec<usize>,
    /// The rows that are support.
    pub support_rows: Vec<usize>,
    /// The rows that are queries.
    pub query_rows: Vec<usize>,
}

impl LoadedEpisode {
    /// Episode `index` of `source`. Images go through `transform`, whose random numbers come from the stream
    /// (seed, `augment`, index, row); embeddings are taken as they are.
    pub fn load(source: &dyn EpisodeSource, transform: &Transform, seed: u64, index: u64) -> Result<Self> {
        if transform.is_empty() {
            return Err(Error::Empty {
                what: "the network's input".into(),
                hint: "its size must be at least 1",
            });
        }
        let episode = source.episode(index)?;
        let rows = episode.items();
        let (inputs, input_shape) = match &source.splits()[episode.split].items {
            Items::Images(data) => {
                let mut inputs = vec![0.0; rows.len() * transform.len()];
                for (row, (&item, out)) in
                    rows.iter().zip(inputs.chunks_exact_mut(transform.len())).enumerate()
                {
                    let mut rng = stream_at(seed, "augment", index, row as u64);
                    transform.apply(&data.image(item)?, &mut rng, out);
                }
                let size = transform.size as usize;
                (inputs, vec![transform.channels.count(), size, size])
            }
            Items::Embeddings(data) => {
                (rows.iter().flat_map(|&item| data.vector(item)).copied().collect(), vec![data.dim()])
            }
        };
        let (labels, support_rows, query_rows) =
            (episode.labels(), episode.support_rows(), episode.query_rows());
        Ok(Self { episode, inputs, input_shape, labels, support_rows, query_rows })
    }
}

/// How a [`Loader`] works.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LoaderConfig {
    /// What becomes of images.
    pub transform: Transform,
    /// Seed of the augmentation.
    pub seed: u64,
    /// The first episode: 0, or the [`Loader::position`] at which an earlier run stopped.
    pub first: u64,
    /// The episode to stop before.
    pub end: u64,
    /// Threads that prepare episodes, at least one.
    pub threads: usize,
    /// Episodes each thread may have ready, at least one.
    pub ahead: usize,
    /// Which of the episodes to load.
    pub part: EpisodePart,
}

/// Which episodes a process loads where several share them: of every `of` episodes from episode `origin` on, those at the
/// places `from..to`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EpisodePart {
    /// Where the places are counted from.
    pub origin: u64,
    /// Places in a round.
    pub of: u64,
    /// The first place.
    pub from: u64,
    /// The place after the last.
    pub to: u64,
}

impl EpisodePart {
    /// Every episode.
    pub const ALL: EpisodePart = EpisodePart { origin: 0, of: 1, from: 0, to: 1 };

    fn has(&self, index: u64) -> bool {
        index >= self.origin && (self.from..self.to).contains(&((index - self.origin) % self.of))
    }
}

impl LoaderConfig {
    /// The episodes to load, in order.
    fn indices(self) -> impl Iterator<Item = u64> {
        (self.first..self.end).filter(move |index| self.part.has(*index))
    }
}

/// Episodes in order, prepared on background threads. What comes out does not depend on the number of threads.
///
/// Thread `t` of `T` prepares the episodes `first + t`, `first + t + T`, ... into a bounded queue of its own, and the
/// queues are emptied in turn. Dropping the loader ends the threads.
pub struct Loader {
    queues: Vec<Receiver<Result<LoadedEpisode>>>,
    threads: Vec<Option<JoinHandle<()>>>,
    /// Episodes taken so far.
    taken: usize,
    config: LoaderConfig,
    /// The next episode.
    position: Option<u64>,
}

impl Loader {
    /// Starts the threads.
    pub fn new(source: Arc<dyn EpisodeSource>, config: LoaderConfig) -> Result<Self> {
        let count = config.threads.max(1);
        let (mut queues, mut threads) = (Vec::with_capacity(count), Vec::with_capacity(count));
        for t in 0..count {
            let (sender, receiver) = sync_channel(config.ahead.max(1) - 1);
            let source = source.clone();
            let work = move || {
                prepare(&*source, &config, config.indices().skip(t).step_by(count), &sender);
            };
            let thread = std::thread::Builder::new().name(format!("loader {t}")).spawn(work);
            let stopped = |error| Error::LoaderStopped {
                index: config.first,
                what: format!("could not be started: {error}"),
            };
            threads.push(Some(thread.map_err(stopped)?));
            queues.push(receiver);
        }
        Ok(Self { queues, threads, taken: 0, config, position: config.indices().next() })
    }

    /// The episode that comes next, or the end. A loader that starts here goes on as this one would.
    pub fn position(&self) -> u64 {
        self.position.unwrap_or(self.config.end)
    }

    /// Which episodes it loads.
    pub fn part(&self) -> EpisodePart {
        self.config.part
    }
}

/// Loads episodes until there are no more or nobody waits for them.
fn prepare(
    source: &dyn EpisodeSource,
    config: &LoaderConfig,
    indices: impl Iterator<Item = u64>,
    queue: &SyncSender<Result<LoadedEpisode>>,
) {
    for index in indices {
        let batch = LoadedEpisode::load(source, &config.transform, config.seed, index);
        let failed = batch.is_err();
        if queue.send(batch).is_err() || failed {
            return;
        }
    }
}

impl Iterator for Loader {
    type Item = Result<LoadedEpisode>;

    fn next(&mut self) -> Option<Self::Item> {
        let index = self.position?;
        let turn = self.taken % self.queues.len();
        let batch = self.queues[turn].recv().unwrap_or_else(|_| {
            let what = self.threads[turn].take().and_then(|thread| thread.join().err());
            let what = what.map_or("has ended after an earlier error".to_owned(), |panic| {
                let text = panic.downcast_ref::<String>().map(String::as_str);
                format!("panicked: {}", text.or(panic.downcast_ref().copied()).unwrap_or("no message"))
            });
            Err(Error::LoaderStopped { index, what })
        });
        match batch {
            Ok(batch) => {
                self.taken += 1;
                self.position = LoaderConfig { first: index + 1, ..self.config }.indices().next();
                Some(Ok(batch))
            }
            Err(error) => {
                // An error ends the stream; `position()` keeps naming the episode that failed.
                (self.position, self.config.end) = (None, index);
                Some(Err(error))
            }
        }
    }
}

impl Drop for Loader {
    fn drop(&mut self) {
        self.queues.clear();
        for thread in self.threads.iter_mut().filter_map(Option::take) {
            // A panic was reported where its episode was asked for; here nobody waits for it any more.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::tests::small;
    use crate::image::augment::LEAST_AREA;
    use crate::{Channels, Embeddings, EpisodeSpec, Sampler, Split, SplitName};

    fn sampler() -> Arc<Sampler> {
        let split = Split::all(SplitName::Train, Items::Images(Arc::new(small(8, 6))));
        Arc::new(Sampler::new(vec![split], EpisodeSpec::fixed(3, 1, 2), 0).unwrap())
    }

    fn config(threads: usize, first: u64, end: u64) -> LoaderConfig {
        let transform = Transform { size: 6, channels: Channels::Three, augment: Some(LEAST_AREA) };
        LoaderConfig { transform, seed: 5, first, end, threads, ahead: 2, part: EpisodePart::ALL }
    }

    fn load(threads: usize, first: u64, end: u64) -> Vec<LoadedEpisode> {
        Loader::new(sampler(), config(threads, first, end)).unwrap().map(Result::unwrap).collect()
    }

    #[test]
    fn the_number_of_threads_changes_nothing() {
        let one = load(1, 0, 17);
        assert_eq!(one.len(), 17);
        assert_eq!(one, load(2, 0, 17));
        assert_eq!(one, load(5, 0, 17));
        let again = LoadedEpisode::load(&*sampler(), &config(1, 0, 17).transform, 5, 11).unwrap();
        assert_eq!(one[11], again);
    }

    #[test]
    fn a_loader_goes_on_where_another_stopped() {
        let mut loader = Loader::new(sampler(), config(2, 0, 12)).unwrap();
        let mut batches: Vec<LoadedEpisode> = loader.by_ref().take(5).map(Result::unwrap).collect();
        assert_eq!(loader.position(), 5);
        batches.extend(load(3, loader.position(), 12));
        assert_eq!(batches, load(1, 0, 12));
    }

    #[test]
    fn parts_of_every_round_are_those_of_the_whole() {
        let whole = load(1, 0, 17);
        for threads in [1, 2] {
            // Rounds of four from episode 2 on; the second process has places 1 and 2.
            let part = EpisodePart { origin: 2, of: 4, from: 1, to: 3 };
            let config = LoaderConfig { part, ..config(threads, 2, 17) };
            let mut loader = Loader::new(sampler(), config).unwrap();
            assert_eq!(loader.position(), 3);
            let own: Vec<LoadedEpisode> = loader.by_ref().map(Result::unwrap).collect();
            let places: Vec<u64> = own.iter().map(|batch| batch.episode.index).collect();
            assert_eq!(places, [3, 4, 7, 8, 11, 12, 15, 16]);
            assert!(own.iter().all(|batch| *batch == whole[batch.episode.index as usize]));
            assert_eq!(loader.position(), 17);
        }
    }

    #[test]
    fn rows_labels_and_shape_fit_together() {
        let batch = load(1, 3, 4).remove(0);
        assert_eq!((batch.episode.index, &batch.input_shape[..]), (3, &[3, 6, 6][..]));
        assert_eq!(batch.inputs.len(), 9 * 3 * 36);
        assert_eq!(batch.labels, [0, 0, 0, 1, 1, 1, 2, 2, 2]);
        assert_eq!((batch.support_rows, batch.query_rows), (vec![0, 3, 6], vec![1, 2, 4, 5, 7, 8]));
        assert!(batch.inputs.iter().all(|v| v.is_finite()));
    }

    #[test]
    fn augmentation_differs_from_row_to_row_and_episode_to_episode() {
        let draw = |index, row| siskin_random::stream_at(5, "augment", index, row);
        let crop = |mut rng| crate::image::augment::Augmentation::draw(90, 60, LEAST_AREA, &mut rng);
        assert_ne!(crop(draw(0, 0)), crop(draw(0, 1)));
        assert_ne!(crop(draw(0, 0)), crop(draw(1, 0)));
    }

    #[test]
    fn embeddings_are_taken_as_they_are() {
        let vectors: Vec<f32> = (0..24).map(|v| v as f32).collect();
        let names = vec!["a".to_owned(), "b".to_owned()];
        let labels: Vec<usize> = (0..12).map(|row| row % 2).collect();
        let data = Embeddings::new("e", names, 2, &vectors, &labels).unwrap();
        let split = Split::all(SplitName::Test, Items::Embeddings(Arc::new(data)));
        let source = Sampler::new(vec![split], EpisodeSpec::fixed(2, 1, 3), 0).unwrap();
        let batch = LoadedEpisode::load(&source, &config(1, 0, 1).transform, 0, 0).unwrap();
        assert_eq!((batch.inputs.len(), &batch.input_shape[..]), (8 * 2, &[2][..]));
        for (row, vector) in batch.inputs.chunks(2).enumerate() {
            // Vector (2n, 2n + 1) was row n of the source, whose class is n % 2.
            assert_eq!(vector[1], vector[0] + 1.0);
            let class = batch.episode.classes[batch.labels[row]].class;
            assert_eq!(vector[0] as usize / 2 % 2, class);
        }
    }

    /// Fails or panics at one episode.
    struct Broken(Arc<Sampler>, bool);

    impl EpisodeSource for Broken {
        fn splits(&self) -> &[Split] {
            self.0.splits()
        }

        fn episode(&self, index: u64) -> Result<Episode> {
            match index {
                4 if self.1 => panic!("a broken source"),
                4 => Err(Error::NoEpisode { index, count: 4 }),
                _ => self.0.episode(index),
            }
        }
    }

    #[test]
    fn errors_and_panics_come_out_in_order_and_end_the_stream() {
        for panics in [false, true] {
            let source = Arc::new(Broken(sampler(), panics));
            let mut loader = Loader::new(source, config(2, 0, 9)).unwrap();
            assert_eq!(loader.by_ref().take(4).filter(Result::is_ok).count(), 4);
            let error = loader.next().unwrap().unwrap_err().to_string();
            let says = if panics { "panicked: a broken source" } else { "no episode 4" };
            assert!(error.contains(says), "{error}");
            assert_eq!(loader.position(), 4);
            assert!(loader.next().is_none());
        }
    }

    #[test]
    fn an_input_without_pixels_is_refused() {
        let nothing = Transform { size: 0, channels: Channels::One, augment: None };
        assert!(matches!(LoadedEpisode::load(&*sampler(), &nothing, 0, 0), Err(Error::Empty { .. })));
    }

    #[test]
    fn a_dropped_loader_ends_its_threads() {
        let source = sampler();
        let mut loader = Loader::new(source.clone(), config(3, 0, u64::MAX)).unwrap();
        assert!(loader.next().is_some());
        drop(loader);
        assert_eq!(Arc::strong_count(&source), 1, "a thread still holds the source");
    }
}
