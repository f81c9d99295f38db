//! What every episode must satisfy, and how episodes are distributed.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::dataset::tests::small;
use crate::{ClassImages, Dataset, Error, Image, Items, SplitName};

/// A split whose class `c` has `sizes[c]` images and belongs to domain `c % domains`.
fn split(name: &str, sizes: &[usize], domains: usize) -> Split {
    let class = |c: usize| ClassImages {
        name: format!("c{c}"),
        domain: format!("d{}", c % domains),
        images: (0..sizes[c])
            .map(|i| {
                (format!("c{c}/{i}.png"), Image { width: 1, height: 1, channels: 1, pixels: vec![c as u8] })
            })
            .collect(),
    };
    let data = Dataset::in_memory(name, (0..sizes.len()).map(class).collect()).unwrap();
    Split::all(SplitName::Train, Items::Images(Arc::new(data)))
}

fn sampler(sizes: &[usize], spec: EpisodeSpec) -> Result<Sampler> {
    Sampler::new(vec![split("small", sizes, 1)], spec, 0)
}

fn counts() -> impl Strategy<Value = Count> {
    prop_oneof![
        (1usize..5).prop_map(Count::Fixed),
        (1usize..5, 0usize..4).prop_map(|(min, more)| Count::Range { min, max: min + more }),
    ]
}

fn specs() -> impl Strategy<Value = EpisodeSpec> {
    let short = prop_oneof![Just(ShortClasses::Skip), Just(ShortClasses::FewerQueries)];
    let imbalance = prop::option::of(0.05f64..20.0);
    (counts(), counts(), 1usize..6, imbalance, short, any::<bool>()).prop_map(
        |(way, shot, query, imbalance, short_classes, within_domain)| EpisodeSpec {
            way,
            shot,
            query,
            imbalance,
            short_classes,
            within_domain,
        },
    )
}

proptest! {
    #[test]
    fn every_episode_keeps_the_rules(
        sizes in prop::collection::vec(4usize..16, 6..24), more in prop::collection::vec(9usize..16, 8..14),
        spec in specs(), seed: u64, index: u64,
    ) {
        let splits = vec![split("one", &sizes, 3), split("two", &more, 1)];
        let sampler = Sampler::new(splits, spec.clone(), seed);
        prop_assume!(sampler.is_ok());
        let sampler = sampler.unwrap();
        let episode = sampler.draw(index);
        prop_assert_eq!(&episode, &sampler.draw(index));
        let of = &sampler.splits()[episode.split];
        let data = of.items.classes();
        prop_assert!((spec.way.min()..=spec.way.max()).contains(&episode.way()));
        let distinct: HashSet<usize> = episode.classes.iter().map(|class| class.class).collect();
        prop_assert_eq!(distinct.len(), episode.way(), "a class twice");
        let queries = episode.classes[0].query.len();
        for class in &episode.classes {
            let items: HashSet<usize> = class.items().collect();
            prop_assert_eq!(items.len(), class.support.len() + class.query.len(), "an image twice");
            prop_assert!(items.iter().all(|i| data[class.class].images.contains(i)), "a foreign image");
            prop_assert!(!class.support.is_empty());
            prop_assert_eq!(class.query.len(), queries);
        }
        match spec.short_classes {
            ShortClasses::FewerQueries => prop_assert!((1..=spec.query).contains(&queries)),
            _ => prop_assert_eq!(queries, spec.query),
        }
        let support = episode.support_rows().len();
        prop_assert_eq!(support % episode.way(), 0);
        prop_assert!((spec.shot.min()..=spec.shot.max()).contains(&(support / episode.way())));
        if spec.imbalance.is_none() {
            prop_assert!(episode.classes.iter().all(|c| c.support.len() == support / episode.way()));
        }
        if spec.within_domain {
            let domains: HashSet<&str> = distinct.iter().map(|&c| data[c].domain.as_str()).collect();
            prop_assert_eq!(domains.len(), 1);
        }
    }
}

#[test]
fn seed_split_and_number_name_an_episode() {
    let spec = EpisodeSpec::fixed(5, 1, 3);
    let draw = |name, seed, index| {
        let data = Items::Images(Arc::new(small(30, 8)));
        Sampler::new(vec![Split::all(name, data)], spec.clone(), seed).unwrap().draw(index).classes
    };
    let one = draw(SplitName::Train, 1, 7);
    assert_eq!(one, draw(SplitName::Train, 1, 7));
    assert_ne!(one, draw(SplitName::Train, 1, 8));
    assert_ne!(one, draw(SplitName::Train, 2, 7));
    assert_ne!(one, draw(SplitName::Val, 1, 7));
    // Published episode lists rest on these numbers: they must not change unnoticed.
    assert_eq!(one.iter().map(|class| class.class).collect::<Vec<_>>(), [19, 28, 16, 22, 4]);
    assert_eq!(one[0].items().collect::<Vec<_>>(), [153, 156, 159, 155]);
}

/// Binomial counts stay within five standard deviations of their mean.
fn assert_even(counts: impl Iterator<Item = usize>, draws: usize, probability: f64) {
    let (mean, deviation) =
        (draws as f64 * probability, (draws as f64 * probability * (1.0 - probability)).sqrt());
    for count in counts {
        assert!((count as f64 - mean).abs() < 5.0 * deviation, "{count}, expected {mean} +- {deviation}");
    }
}

#[test]
fn classes_and_images_are_drawn_evenly() {
    let (classes, images, draws) = (40, 9, 8000);
    let sampler = sampler(&[9; 40], EpisodeSpec::fixed(5, 1, 2)).unwrap();
    let (mut of_class, mut as_support, mut as_query, mut first) =
        (vec![0; classes], vec![0; classes * images], vec![0; classes * images], vec![0; classes]);
    for index in 0..draws as u64 {
        let episode = sampler.draw(index);
        first[episode.classes[0].class] += 1;
        for class in &episode.classes {
            of_class[class.class] += 1;
            class.support.iter().for_each(|&i| as_support[i] += 1);
            class.query.iter().for_each(|&i| as_query[i] += 1);
        }
    }
    assert_even(of_class.into_iter(), draws, 5.0 / 40.0);
    assert_even(first.into_iter(), draws, 1.0 / 40.0);
    assert_even(as_support.into_iter(), draws, 5.0 / 40.0 / 9.0);
    assert_even(as_query.into_iter(), draws, 5.0 / 40.0 * 2.0 / 9.0);
}

#[test]
fn ranges_and_domains_are_drawn_evenly() {
    let spec = EpisodeSpec {
        way: Count::Range { min: 2, max: 4 },
        shot: Count::Range { min: 1, max: 5 },
        ..EpisodeSpec::fixed(1, 1, 2)
    };
    let splits = vec![split("large", &[9; 50], 1), split("little", &[9; 5], 1)];
    let sampler = Sampler::new(splits, spec, 3).unwrap();
    let draws = 5000;
    let (mut ways, mut shots, mut domains) = (HashMap::new(), HashMap::new(), HashMap::new());
    for index in 0..draws as u64 {
        let episode = sampler.draw(index);
        *ways.entry(episode.way()).or_insert(0) += 1;
        *shots.entry(episode.classes[0].support.len()).or_insert(0) += 1;
        *domains.entry(episode.split).or_insert(0) += 1;
    }
    assert_eq!((ways.len(), shots.len(), domains.len()), (3, 5, 2));
    assert_even(ways.into_values(), draws, 1.0 / 3.0);
    assert_even(shots.into_values(), draws, 1.0 / 5.0);
    assert_even(domains.into_values(), draws, 1.0 / 2.0);
}

#[test]
fn short_classes_are_refused_skipped_or_met_with_fewer_queries() {
    let sizes = [20, 20, 4, 20, 3];
    let spec = |short_classes| EpisodeSpec { short_classes, ..EpisodeSpec::fixed(3, 1, 4) };
    let error = sampler(&sizes, spec(ShortClasses::Error)).unwrap_err().to_string();
    assert!(error.contains("2 classes of small (train) have fewer than the 5 images"), "{error}");
    assert!(error.contains("c2 (4), c4 (3)"), "{error}");

    let skipping = sampler(&sizes, spec(ShortClasses::Skip)).unwrap();
    let skipped = |name: &str, images| Skipped::Class { name: format!("small: {name}"), images };
    assert_eq!(skipping.skipped(), [skipped("c2", 4), skipped("c4", 3)]);
    assert!((0..200).all(|e| skipping.draw(e).classes.iter().all(|c| [0, 1, 3].contains(&c.class))));

    let fewer = sampler(&sizes, spec(ShortClasses::FewerQueries)).unwrap();
    for index in 0..200 {
        let episode = fewer.draw(index);
        let least = episode.classes.iter().map(|c| sizes[c.class]).min().unwrap();
        assert!(episode.classes.iter().all(|c| c.query.len() == 4.min(least - 1)));
    }
    let error = sampler(&[20, 20, 1], spec(ShortClasses::FewerQueries)).unwrap_err();
    assert!(matches!(error, Error::ShortClasses { needed: 2, .. }), "{error}");
}

#[test]
fn omniglot_gets_fifteen_queries_beside_five_shots() {
    let spec = EpisodeSpec { short_classes: ShortClasses::FewerQueries, ..EpisodeSpec::fixed(5, 5, 16) };
    let episode = sampler(&[20; 8], spec).unwrap().draw(0);
    assert!(episode.classes.iter().all(|c| (c.support.len(), c.query.len()) == (5, 15)));
}

#[test]
fn too_few_classes_are_named() {
    let error = sampler(&[9; 4], EpisodeSpec::fixed(5, 1, 1)).unwrap_err().to_string();
    assert!(
        error.starts_with("small (train) has 4 classes to draw from, but an episode takes 5: "),
        "{error}"
    );
    assert!(error.contains("`way` of [episode] or [test]"), "{error}");
    let within =
        |short_classes| EpisodeSpec { within_domain: true, short_classes, ..EpisodeSpec::fixed(3, 1, 1) };
    // Domains d0 and d1 have three classes, d2 has two.
    let domains = || vec![split("small", &[9; 8], 3)];
    let error = Sampler::new(domains(), within(ShortClasses::Error), 0).unwrap_err().to_string();
    assert!(error.starts_with("d2 of small (train) has 2 classes"), "{error}");
    let skipping = Sampler::new(domains(), within(ShortClasses::Skip), 0).unwrap();
    assert_eq!(skipping.skipped(), [Skipped::Domain { name: "d2 of small (train)".into(), classes: 2 }]);
    let none = Sampler::new(Vec::new(), EpisodeSpec::fixed(5, 1, 1), 0);
    assert!(matches!(none, Err(Error::Empty { .. })));
}

#[test]
fn splits_that_a_list_could_not_tell_apart_are_refused() {
    let refused = |splits: Vec<Split>| match Sampler::new(splits, EpisodeSpec::fixed(2, 1, 1), 0) {
        Err(Error::EpisodeSpec { field: "splits", value, .. }) => value,
        other => panic!("{other:?}"),
    };
    let one = split("one", &[9; 4], 1);
    assert_eq!(refused(vec![one.clone(), one.clone()]), "one (train), one (train)");
    let val = Split { name: SplitName::Val, ..split("two", &[9; 4], 1) };
    assert_eq!(refused(vec![one, val]), "one (train), two (val)");
}

#[test]
fn a_class_listed_twice_is_refused() {
    let mut split = split("small", &[9; 4], 1);
    split.classes.push(split.classes[2].clone());
    let error = Sampler::new(vec![split], EpisodeSpec::fixed(2, 1, 1), 0).unwrap_err();
    assert!(matches!(error, Error::DuplicateClass { name, .. } if name == "c2"));
}

mod lists {
    use super::*;

    fn two() -> Vec<Split> {
        vec![split("one", &[7; 6], 2), split("two", &[5; 5], 1)]
    }

    fn write(dir: &tempfile::TempDir) -> (Sampler, std::path::PathBuf) {
        let spec = EpisodeSpec { imbalance: Some(0.5), ..EpisodeSpec::fixed(3, 2, 2) };
        let sampler = Sampler::new(two(), spec, 9).unwrap();
        let path = dir.path().join("episodes.jsonl");
        EpisodeList::write(&sampler, 20, &path).unwrap();
        (sampler, path)
    }

    #[test]
    fn what_is_written_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let (sampler, path) = write(&dir);
        let list = EpisodeList::read(&path, two()).unwrap();
        assert_eq!((list.len(), list.seed(), list.spec()), (20, 9, sampler.spec()));
        for index in 0..20 {
            assert_eq!(list.episode(index).unwrap(), sampler.draw(index));
        }
        assert!(matches!(list.episode(20), Err(Error::NoEpisode { index: 20, count: 20 })));
    }

    #[test]
    fn other_data_is_refused_by_what_differs() {
        let dir = tempfile::tempdir().unwrap();
        let (_, path) = write(&dir);
        let differs = |splits: Vec<Split>| match EpisodeList::read(&path, splits) {
            Err(Error::EpisodeListMismatch { what, .. }) => what,
            other => panic!("{other:?}"),
        };
        let [one, two] = <[Split; 2]>::try_from(two()).unwrap();
        assert_eq!(differs(vec![one.clone()]), "number of data sets");
        assert_eq!(differs(vec![two.clone(), one.clone()]), "name of the data set");
        assert_eq!(
            differs(vec![split("one", &[7, 7, 7, 7, 7, 8], 2), two.clone()]),
            "content hash of the data set"
        );
        assert_eq!(differs(vec![Split { name: SplitName::Test, ..one }, two]), "split");
    }

    #[test]
    fn bad_lines_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let (_, path) = write(&dir);
        let good = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = good.lines().collect();
        let image = lines[1].split('"').find(|part| part.ends_with(".png")).unwrap();
        let class = image.split('/').next().unwrap();
        let other = lines[1].split('"').filter(|part| part.ends_with(".png")).nth(1).unwrap();
        let with = |line: String| [vec![lines[0].to_owned(), line], vec![lines[2].to_owned()]].concat();
        let cases = [
            (vec![String::new()], 1, "EOF"),
            (vec![lines[0].replace("\"seed\":9", "\"seed\":9,\"colour\":1")], 1, "colour"),
            (vec![lines[0].to_owned(), lines[2].to_owned()], 2, "episode 1 stands where episode 0 belongs"),
            (vec![lines[0].to_owned(), lines[1].to_owned()], 2, "promises 20 episodes, there are 1"),
            (with(lines[1].replace(image, "gone.png")), 2, "has no image gone.png"),
            (with(lines[1].replacen(&format!("\"{class}\""), "\"c77\"", 1)), 2, "no class c77"),
            (with(lines[1].replacen(other, image, 1)), 2, "appears twice"),
            (with(lines[1][..40].to_owned()), 2, "EOF"),
        ];
        for (text, number, says) in cases {
            std::fs::write(&path, text.join("\n")).unwrap();
            match EpisodeList::read(&path, two()) {
                Err(Error::EpisodeLine { line, reason, .. }) => {
                    assert_eq!(line, number, "{reason}");
                    assert!(reason.contains(says), "{reason} does not say {says}");
                }
                other => panic!("{says}: {other:?}"),
            }
        }
        let missing = EpisodeList::read(&dir.path().join("none.jsonl"), two());
        assert!(matches!(missing, Err(Error::Io { action: "read", .. })));
    }
}
