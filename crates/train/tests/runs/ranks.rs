//! Several ranks share the episodes of a step, a validation and a test: the bytes are those of one rank.

use crate::small::{assert_same_run, config, train, with_opener};
use siskin_data::SplitName;
use siskin_train::config::Config;
use siskin_train::protocol;
use siskin_train::run::Run;
use siskin_train::team::on_threads;
use siskin_train::trainer::{Event, Outcome};
use siskin_train::under_test::ModelUnderTest;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// Seven episodes, three in a step: the last step is shorter, and four ranks have more ranks than episodes.
const SHARED: [&str; 3] = ["train.episodes=7", "train.episodes_per_step=3", "train.validate_every=4"];

fn shared(more: &[&str]) -> Config {
    config(&[&SHARED[..], more].concat())
}

fn train_on(ranks: usize, folder: &Path, config: &Config) {
    on_threads(ranks, |_| train(folder, config, None));
}

#[test]
fn one_to_four_ranks_give_the_same_bytes() {
    for (name, more) in [
        ("cdkt", &["cdkt.objective=predictive", "cdkt.inference=joint", "train.ema=0.5"][..]),
        ("released", &["cdkt.objective=released", "cdkt.inference=paper"][..]),
        ("dkt", &["method=dkt"][..]),
        ("ove", &["method=ove", "ove.chains=2"][..]),
        ("relation-net", &["method=relation-net"][..]),
        ("proto-net", &["method=proto-net"][..]),
        ("maml", &["method=maml", "maml.inner_steps=1"][..]),
        ("abml", &["method=abml"][..]),
        ("bmaml", &["method=bmaml"][..]),
        ("baseline-plus-plus", &["method=baseline-plus-plus"][..]),
    ] {
        let root = tempfile::tempdir().unwrap();
        let at = |ranks: usize| root.path().join(ranks.to_string());
        let config = shared(more);
        train(&at(1), &config, None);
        // Two methods on every number of ranks, the others on two.
        let most = if matches!(name, "cdkt" | "dkt") { 4 } else { 2 };
        for ranks in 2..=most {
            train_on(ranks, &at(ranks), &config);
            println!("{name}, {ranks} ranks");
            assert_same_run(&at(1), &at(ranks));
        }
    }
}

#[test]
fn stopped_on_two_ranks_and_resumed_on_three_gives_the_same_bytes() {
    let root = tempfile::tempdir().unwrap();
    let (whole, parts) = (root.path().join("whole"), root.path().join("parts"));
    let config = shared(&[]);
    train(&whole, &config, None);
    // The signal reaches one rank alone.
    let ended = on_threads(2, |rank| {
        let stop = AtomicBool::new(false);
        let mut run = with_opener(|opener| Run::start(&parts, config.clone(), opener)).unwrap();
        let outcome = run.train(&stop, &mut |event| {
            stop.store(rank == 1 && matches!(event, Event::Step { episode: 3, .. }), Ordering::Relaxed);
        });
        outcome.unwrap()
    });
    assert_eq!(ended, [Outcome::Stopped; 2]);
    on_threads(3, |_| {
        let mut run = with_opener(|opener| Run::resume(&parts, opener)).unwrap();
        assert_eq!(run.trainer().episode(), 3);
        assert_eq!(run.train(&AtomicBool::new(false), &mut |_| {}).unwrap(), Outcome::Finished);
    });
    assert_same_run(&whole, &parts);
}

#[test]
fn phases_and_fitted_scalars_are_shared_too() {
    let text = "[train]\nepisodes = 4\nepisodes_per_step = 2\nvalidate_every = 2\nvalidate_episodes = 3\n\
                [episode]\nway = 3\nquery = 3\n[cdkt]\nscalars = \"log\"\n\
                [[phase]]\nname = \"a\"\n[[phase]]\nname = \"b\"\nstart = \"best\"\n\
                [[phase]]\nkind = \"fit-scalars\"\nfit = { episodes = 4 }\n";
    let config = Config::parse(text, &[]).unwrap();
    let root = tempfile::tempdir().unwrap();
    let (one, three) = (root.path().join("one"), root.path().join("three"));
    train(&one, &config, None);
    train_on(3, &three, &config);
    assert_same_run(&one, &three);
}

#[test]
fn a_test_is_shared_and_everybody_has_all_answers() {
    let root = tempfile::tempdir().unwrap();
    for (name, more) in [("cdkt", &[][..]), ("maml", &["method=maml"][..])] {
        let folder = root.path().join(name);
        train(&folder, &shared(more), None);
        let answers = || {
            let model = with_opener(|opener| ModelUnderTest::open(&folder, &[], opener)).unwrap();
            protocol::answers(&model, SplitName::Test, 2).unwrap()
        };
        let alone = answers();
        assert_eq!(alone.len(), 6);
        for ranks in [2, 4, 7] {
            assert!(
                on_threads(ranks, |_| answers()).iter().all(|all| *all == alone),
                "{name}, {ranks} ranks"
            );
        }
    }
}
