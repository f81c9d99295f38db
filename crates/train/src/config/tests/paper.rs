//! The configs of the paper's tables against what the paper and its released code say.

use super::*;

/// What the paper and its released code say of each row, by a part of the file's path: the keys that must have these values.
const PAPER: [(&str, &str, &str); 48] = [
    ("paper/", "episode.way", "5"),
    ("paper/", "episode.query", "16"),
    ("paper/", "backbone.name", "\"conv4\""),
    ("paper/", "data.image_size", "84"),
    ("paper/", "data.augment", "true"),
    ("paper/", "train.learning_rate", "0.001"),
    ("paper/", "test.groups", "5"),
    ("paper/", "test.episodes", "600"),
    ("paper/", "test.query", "15"),
    ("1shot", "episode.shot", "1"),
    ("5shot", "episode.shot", "5"),
    ("/cross-", "data.transfer", "\"cub\""),
    ("-tau1.toml", "cdkt.tau", "1.0"),
    ("ml-low-tau", "cdkt.tau", "0.2"),
    ("1shot-pl-low-tau", "cdkt.tau", "0.2"),
    ("cub-5shot-pl-low-tau", "cdkt.tau", "0.2"),
    ("mini-5shot-pl-low-tau", "cdkt.tau", "0.5"),
    ("cross-5shot-pl-low-tau", "cdkt.tau", "0.5"),
    ("-ml-", "cdkt.objective", "\"released\""),
    ("table1/cub-1shot-pl", "cdkt.objective", "\"released-predictive\""),
    ("table1/mini-5shot-pl", "cdkt.objective", "\"released-predictive\""),
    ("table1-pl-eq15", "cdkt.objective", "\"predictive\""),
    ("table3-kernels/", "cdkt.output_scale", "\"per-class\""),
    ("table4-temperature/", "cdkt.test_prior_mean", "-5.0"),
    ("figure-steps/", "cdkt.test_steps", "30"),
    ("paper/", "data.rotations", "false"),
    ("table1/cub-1shot-pl", "cdkt.samples", "1000"),
    ("table1/", "backbone.precision", "\"f32\""),
    ("-ml-", "cdkt.steps", "2"),
    ("-ml-", "cdkt.test_inference", "\"released\""),
    ("-ml-", "cdkt.select_as_trained", "true"),
    ("-ml-", "train.kernel_learning_rate", "0.0001"),
    ("table1/cub-1shot-pl", "train.kernel_learning_rate", "0.0001"),
    ("table3-kernels/cub-rbf", "cdkt.kernel_shape", "\"per-class\""),
    ("-dkt.toml", "dkt.output_scale", "\"per-class\""),
    ("-maml.toml", "maml.inner_steps", "5"),
    ("-maml.toml", "maml.inner_learning_rate", "0.01"),
    ("-dkt.toml", "dkt.mean", "\"per-class\""),
    ("-dkt.toml", "dkt.fresh_adam_every", "100"),
    ("-dkt.toml", "train.kernel_learning_rate", "0.0001"),
    ("ls-gibbs", "ls-gibbs.as_released", "true"),
    ("ls-gibbs", "ls-gibbs.test_sweeps", "50"),
    ("-ove-", "ove.as_released", "true"),
    ("-ove-", "train.kernel_learning_rate", "0.001"),
    ("-maml.toml", "train.episodes_per_step", "4"),
    ("bmaml.toml", "bmaml.as_released", "true"),
    ("bmaml-chaser", "bmaml-chaser.leader_learning_rate", "0.005"),
    ("relation-net", "relation-net.probabilities", "\"softmax\""),
];

#[test]
fn the_configs_of_the_paper_have_its_values() {
    let paper: Vec<_> =
        files().into_iter().filter(|(path, _)| path.to_string_lossy().contains("paper/")).collect();
    for (part, key, wanted) in PAPER {
        let rows = paper.iter().filter(|(path, _)| path.to_string_lossy().contains(part));
        let mut seen = 0;
        for (path, text) in rows {
            let resolved: toml::Table = Config::parse(text, &[]).unwrap().to_toml().parse().unwrap();
            let (table, key) = key.split_once('.').unwrap();
            let found = resolved.get(table).and_then(|table| table.get(key)).map(ToString::to_string);
            assert_eq!(found.as_deref(), Some(wanted), "{}: {table}.{key}", path.display());
            seen += 1;
        }
        assert!(seen > 0, "no config has {part} in its path");
    }
}

/// Epochs of 100 episodes of CDKT's rows in Table 1: by the paper's text, and by the released code. `name`: of the config.
fn epochs(name: &str) -> (u64, u64) {
    let (transfer, one_shot) = (name.starts_with("cross"), name.contains("1shot"));
    let by_shot = if one_shot { 600 } else { 400 };
    if name.contains("-pl-") {
        return (800, 800);
    }
    let text = if transfer && name.contains("low-tau") { 800 } else { by_shot };
    let code = match (name.starts_with("mini"), transfer, one_shot) {
        (true, _, false) | (_, true, true) => 800,
        _ => by_shot,
    };
    (text, code)
}

/// The settings that a comment of a config offers: `--set a=b --set c=d`, one list for each line.
fn offered(text: &str) -> Vec<Vec<String>> {
    let comments = text.lines().filter(|line| line.starts_with('#') && line.contains("--set "));
    let settings = |line: &str| {
        line.split("--set ").skip(1).map(|part| part.split_whitespace().next().unwrap().to_string()).collect()
    };
    comments.map(settings).collect()
}

#[test]
fn epochs_are_those_of_the_text_and_those_of_the_code_are_one_setting_away() {
    let mut both = 0;
    for (path, text) in files() {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let cdkt = ["-ml-low", "-ml-tau1", "-pl-low", "-pl-tau1"].iter().any(|part| name.contains(part));
        if !cdkt || !path.to_string_lossy().contains("/table1/") {
            continue;
        }
        let (by_text, by_code) = epochs(&name);
        let of = |set: &[String]| {
            let train = Config::parse(&text, set).unwrap().train;
            // Models are chosen in the last 99 epochs.
            assert_eq!(train.validate_from, train.episodes - 9_900, "{name}");
            train.episodes / 100
        };
        assert_eq!(of(&[]), by_text, "{name}");
        let other: Vec<_> =
            offered(&text).into_iter().filter(|set| set[0].starts_with("train.episodes")).collect();
        assert_eq!(other.len(), usize::from(by_text != by_code), "{name}");
        for set in other {
            assert_eq!(of(&set), by_code, "{name}");
            both += 1;
        }
    }
    assert_eq!(both, 4, "rows whose epochs differ between text and code");
}

#[test]
fn what_a_comment_offers_is_understood_and_changes_the_config() {
    let mut count = 0;
    for (path, text) in files() {
        for set in offered(&text) {
            let changed = Config::parse(&text, &set);
            let changed = changed.unwrap_or_else(|error| panic!("{}: {set:?}: {error}", path.display()));
            assert_ne!(changed, Config::parse(&text, &[]).unwrap(), "{}: {set:?}", path.display());
            count += 1;
        }
    }
    assert!(count > 50, "only {count} settings were found");
}
