use super::*;
use siskin_methods::gp::cdkt::CdktSettings;

mod paper;

#[test]
fn written_out_and_read_again_is_the_same() {
    let config = Config::parse("seed = 3\n[cdkt]\nobjective = \"elbo\"\n", &[]).unwrap();
    assert_eq!(Config::parse(&config.to_toml(), &[]).unwrap(), config);
}

#[test]
fn a_typo_names_the_nearest_key() {
    let error = Config::parse("[train]\nepisods = 5\n", &[]).unwrap_err().to_string();
    assert!(error.contains("`episods`") && error.contains("did you mean `episodes`"), "{error}");
    let error = Config::parse("", &["cdkt.kernel=cosin".into()]).unwrap_err().to_string();
    assert!(error.contains("did you mean `cosine`"), "{error}");
}

#[test]
fn sizes_have_upper_bounds() {
    for (setting, most) in [("data.image_size=100000", "1024"), ("episode.way=100000", "1000")] {
        let error = Config::parse("", &[setting.into()]).unwrap_err().to_string();
        assert!(error.contains(&format!("it must be at most {most}")), "{error}");
    }
}

#[test]
fn crops_have_a_least_area_where_images_are_augmented() {
    let parse = |set: &[&str]| Config::parse("", &set.iter().map(|set| set.to_string()).collect::<Vec<_>>());
    let crop = |set: &[&str]| parse(set).unwrap().data.least_crop();
    assert_eq!(crop(&[]), None);
    assert_eq!(crop(&["data.augment=true"]), Some(0.08));
    assert_eq!(crop(&["data.augment=true", "data.crop_area=0.5"]), Some(0.5));
    for area in ["0", "1", "nan", "-0.5"] {
        for set in [
            vec!["data.augment=true", &format!("data.crop_area={area}")],
            vec![&format!("fit.crop_area={area}")],
        ] {
            let error = parse(&set).unwrap_err().to_string();
            assert!(error.contains("it must be above 0 and below 1"), "{error}");
        }
    }
    let error = parse(&["data.crop_area=0.5"]).unwrap_err().to_string();
    assert!(error.contains("no effect without data.augment"), "{error}");
}

#[test]
fn settings_take_toml_values_and_plain_words() {
    let set = ["train.episodes=7", "cdkt.kernel=rbf", "data.augment=true", "data.train=some/folder"];
    let config = Config::parse("", &set.map(String::from)).unwrap();
    assert_eq!(config.train.episodes, 7);
    let cdkt: &CdktSettings = config.method.get().unwrap();
    assert_eq!(cdkt.kernel.name(), "rbf");
    assert!(config.data.augment);
    assert_eq!(config.data.train, "some/folder");
}

/// The paths and texts of all config files of the repository.
fn files() -> Vec<(std::path::PathBuf, String)> {
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("../../configs")];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let text = std::fs::read_to_string(&path).unwrap();
                files.push((path, text));
            }
        }
    }
    files
}

#[test]
fn every_config_of_the_repository_parses() {
    let files = files();
    for (path, _) in &files {
        Config::load(path, &[]).unwrap();
    }
    assert!(files.len() > 60, "only {} configs were found", files.len());
}

#[test]
fn rows_of_the_paper_that_are_the_same_run_say_so() {
    let paper = files().into_iter().filter(|(path, _)| path.iter().any(|part| part == "paper"));
    let paper: Vec<_> = paper
        .map(|(path, text)| {
            let part = |path: &Path| path.file_name().unwrap().to_string_lossy().into_owned();
            let name = format!("{}/{}", part(path.parent().unwrap()), part(&path));
            (name, Config::parse(&text, &[]).unwrap(), text)
        })
        .collect();
    let mut shared = 0;
    for (name, config, text) in &paper {
        for (other, theirs, _) in paper.iter().filter(|(other, _, _)| other != name) {
            assert_eq!(text.contains(other), config == theirs, "{name} {other}");
            shared += usize::from(config == theirs);
        }
    }
    assert!(shared > 0);
}

#[test]
fn values_out_of_range_are_named() {
    for (set, key) in [
        ("cdkt.tau=0", "cdkt.tau"),
        ("episode.way=1", "episode.way"),
        ("test.episodes=0", "test.episodes"),
        ("cdkt.steps=0", "cdkt.steps"),
        ("train.save_minutes=-1", "train.save_minutes"),
        ("train.save_minutes=nan", "train.save_minutes"),
    ] {
        let error = Config::parse("", &[set.into()]).unwrap_err().to_string();
        assert!(error.contains(key), "{error}");
    }
    assert!(Config::parse("", &["seed".into()]).unwrap_err().to_string().contains("no `=`"));
}

#[test]
fn what_belongs_to_another_method_is_refused_where_it_has_no_effect() {
    let refused = |text: &str, set: &[&str]| {
        let set: Vec<String> = set.iter().map(|s| s.to_string()).collect();
        Config::parse(text, &set).unwrap_err().to_string()
    };
    let error = refused("method = \"maml\"\n[maml]\ninner_steps = 2\n[cdkt]\ntau = 0.5\n", &[]);
    assert!(error.contains("[cdkt] has no effect") && error.contains("by maml"), "{error}");
    let error = refused("", &["method=proto-net", "cdkt.tau=0.5"]);
    assert!(error.contains("--set cdkt.tau=0.5 has no effect"), "{error}");
    let error = refused("method = \"protonet\"\n", &[]);
    assert!(error.contains("did you mean `proto-net`"), "{error}");

    // A file for any method, and the file's own method where the command line chooses another; but they must be right.
    let other = ["method=maml".to_string()];
    for text in ["[cdkt]\ntau = 0.5\n[ove]\nchains = 2\n", "method = \"cdkt\"\n[cdkt]\ntau = 0.5\n"] {
        assert_eq!(Config::parse(text, &other).unwrap().method.name(), "maml");
    }
    let error = refused("[cdkt]\ntou = 0.5\n", &["method=maml"]);
    assert!(error.contains("did you mean `tau`"), "{error}");
}

#[test]
fn a_saved_config_with_the_tables_of_all_methods_still_reads() {
    let mut text = "method = \"maml\"\n[maml]\ninner_steps = 2\n".to_string();
    for method in MethodName::all().filter(|m| m.name() != "maml") {
        text += &format!("[{method}]\n");
    }
    assert!(Config::parse(&text, &[]).is_err());
    let saved = Config::parse_saved(&text, &[]).unwrap();
    assert_eq!(saved, Config::parse("method = \"maml\"\n[maml]\ninner_steps = 2\n", &[]).unwrap());
    let error = Config::parse_saved(&text, &["cdkt.tau=1".into()]).unwrap_err().to_string();
    assert!(error.contains("has no effect"), "{error}");
}

#[test]
fn every_config_of_the_repository_builds_its_method() {
    let mut built: Vec<Config> = Vec::new();
    for (path, text) in files() {
        let mut config = Config::parse(&text, &[]).unwrap();
        // What differs beside the method, the episode's classes and the network does not reach the constructor.
        config.data.train = String::new();
        let same = |other: &Config| {
            other.method == config.method
                && other.episode.way == config.episode.way
                && other.backbone == config.backbone
                && other.data.image_size == config.data.image_size
        };
        if !built.iter().any(same) {
            let method = config.model(64, None).build(crate::run::device(&config).unwrap());
            assert!(method.is_ok(), "{}: {}", path.display(), method.err().unwrap());
            built.push(config);
        }
    }
    assert!(built.len() > 25, "only {} different methods were found", built.len());
}

#[test]
fn the_former_name_of_test_groups_is_understood() {
    let config = Config::parse("[test]\nbatches = 2\n", &[]).unwrap();
    assert_eq!(config.test.groups, 2);
    for (text, set) in [("groups = 2", "test.batches=3"), ("batches = 2", "test.groups=3")] {
        let config = Config::parse(&format!("[test]\n{text}\n"), &[set.into()]).unwrap();
        assert_eq!(config.test.groups, 3);
    }
}

#[test]
fn a_value_of_the_wrong_type_is_named_with_its_key() {
    for (set, says) in [
        ("train.episodes=many", "train.episodes: it must be a whole number, not \"many\""),
        ("train.episodes=-4", "train.episodes: it must be a whole number of at least 0, not -4"),
        ("cdkt.steps=1.5", "cdkt.steps: it must be a whole number, not 1.5"),
        ("cdkt.steps=-1", "cdkt.steps: it must be a whole number of at least 0, not -1"),
        ("cdkt.tau=warm", "cdkt.tau: it must be a number, not \"warm\""),
        ("backbone.name=4", "backbone.name: it must be a name in quotes"),
        ("train.learning_rate=true", "train.learning_rate: it must be a number, not true"),
        ("data.augment=1", "data.augment: it must be true or false, not 1"),
        ("backbone=conv4", "backbone: it must be a table"),
    ] {
        let error = Config::parse("", &[set.into()]).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
    for (set, says) in [
        ("backbone.name=resnet10", "did you mean `resnet12`"),
        ("backbone.device=cpuu", "did you mean `cpu`"),
        ("backbone.precision=fp16", "did you mean `bf16`"),
        ("train.schedule=cosin", "did you mean `cosine`"),
        ("train.select=nl", "did you mean `nll`"),
    ] {
        let error = Config::parse("", &[set.into()]).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
}
