//! From labelled images to answers and back from a file, with the embedded model.

use siskin_adapt::{EMBEDDED, Error, Example, Image, LabelledImages, Model, Rules, TaskClassifier, View};
use siskin_data::Embeddings;
use std::sync::Arc;

/// A white sheet with black strokes that differ by class, moved a little by `shift`.
fn drawing(class: usize, shift: i32) -> Image {
    let side = 105i32;
    let dark = |x: i32, y: i32| {
        let (x, y) = (x - 52 - shift, y - 52 + shift);
        let near = |d: i32| d.abs() <= 2;
        x.abs() < 36
            && y.abs() < 36
            && match class {
                0 => near(x) || near(y),
                1 => near(x * x / 30 + y * y / 30 - 30),
                2 => near(x - y) || near(x + y),
                _ => near(y + 30) || near(x + 30),
            }
    };
    let pixels = (0..side * side).map(|i| if dark(i % side, i / side) { 0 } else { 255 }).collect();
    Image { width: 105, height: 105, channels: 1, pixels }
}

fn support(model: &Model, shots: &[usize]) -> LabelledImages {
    let examples = shots.iter().enumerate().flat_map(|(class, &n)| {
        (0..n).map(move |i| {
            let view = model.view(&drawing(class, i as i32));
            Example { name: format!("{class}-{i}"), class, view }
        })
    });
    LabelledImages::new((0..shots.len()).map(|c| format!("class {c}")).collect(), examples.collect()).unwrap()
}

fn find(bytes: &[u8], part: &[u8]) -> usize {
    bytes.windows(part.len()).position(|w| w == part).unwrap()
}

#[test]
fn a_task_answers_rightly_and_the_same_after_a_file() {
    let model = Model::open(EMBEDDED[0].0).unwrap();
    let task = TaskClassifier::adapt(&model, &support(&model, &[1, 2, 1, 3]), "strokes").unwrap();
    let known = task.calibration();
    assert!(known.validation.is_some() && !known.other_kind, "{known:?}");
    assert_eq!(known.left_out.as_ref().unwrap().of, 5, "the two classes with several examples");
    let queries: Vec<View> = (0..4).map(|class| model.view(&drawing(class, -3))).collect();
    let features = model.embed(&queries).unwrap();
    let thresholds = task.thresholds(&Rules { abstain: 0.0, ..Rules::default() }).unwrap();
    let answers = task.answer(&features, &thresholds).unwrap();
    for (class, answer) in answers.iter().enumerate() {
        assert_eq!(answer.label, class, "{answer:?}");
        assert!((answer.probabilities.iter().sum::<f64>() - 1.0).abs() < 1e-12);
    }
    let named = task.answer_named(&features, &thresholds, 2).unwrap();
    assert!(named.iter().all(|n| n.nearest.len() == 2 && Some(&n.nearest[0].class) == n.label.as_ref()));

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("strokes.task");
    task.save(&path).unwrap();
    let again = TaskClassifier::load(&path).unwrap();
    assert_eq!(again.answer(&features, &thresholds).unwrap(), answers, "not a bit may differ");
    assert_eq!(again.to_bytes().unwrap(), task.to_bytes().unwrap());
    assert_eq!((again.title(), again.names()), ("strokes", task.names()));
    again.check_model(&model).unwrap();
    let named = again.answer_named(&features, &thresholds, 1).unwrap();
    let json = serde_json::to_value(&named[2]).unwrap();
    assert_eq!(json["label"], "class 2");
    assert_eq!(json["probabilities"].as_object().unwrap().len(), 4);
    assert_eq!(json["nearest"][0]["class"], "class 2");
}

/// What is none of the classes has no name, no probability of being right and no set.
#[test]
fn none_of_these_contradicts_nothing() {
    let model = Model::open(EMBEDDED[0].0).unwrap();
    let task = TaskClassifier::adapt(&model, &support(&model, &[1, 1, 1]), "strokes").unwrap();
    let features = model.embed(&[model.view(&drawing(3, 0))]).unwrap();
    let always = task.thresholds(&Rules { min_probability: 1.0, ..Rules::default() }).unwrap();
    let named = &task.answer_named(&features, &always, 0).unwrap()[0];
    let json = serde_json::to_value(named).unwrap();
    assert!(named.none_of_these && named.set.is_empty());
    assert!(
        json["label"].is_null()
            && json["probability"].is_null()
            && json["set"].as_array().unwrap().is_empty()
    );
    let never = task.thresholds(&Rules { abstain: 0.0, ..Rules::default() }).unwrap();
    let named = &task.answer_named(&features, &never, 0).unwrap()[0];
    let label = named.label.clone().unwrap();
    assert!(!named.none_of_these && named.probability.is_some() && named.set.contains(&label));
    // The probabilities of a set sum to its level at least.
    let sum: f64 =
        named.probabilities.iter().filter(|(name, _)| named.set.contains(name)).map(|(_, p)| p).sum();
    assert!(sum >= 0.9 - 1e-9, "{named:?}");
}

/// A file of format 3, as an earlier version wrote it, is read and gives the probabilities it gave.
#[test]
fn a_task_of_format_3_is_read() {
    let bytes = include_bytes!("data/format-3.task");
    let task = TaskClassifier::from_bytes(bytes, "format-3.task").unwrap();
    assert_eq!((task.classes().len(), task.calibration().temperature > 0.0), (2, true));
    let queries = siskin_adapt::Features { values: vec![3.0, 0.0, -3.0, 0.0], rows: 2, dim: 2 };
    let answers = task.answer(&queries, &task.thresholds(&Rules::default()).unwrap()).unwrap();
    assert_eq!((answers[0].label, answers[1].label), (0, 1));
    let mut damaged = bytes.to_vec();
    *damaged.last_mut().unwrap() ^= 1;
    assert!(TaskClassifier::from_bytes(&damaged, "x").unwrap_err().to_string().contains("checksum"));
}

#[test]
fn damaged_files_are_refused_with_a_reason() {
    let model = Model::open(EMBEDDED[0].0).unwrap();
    let whole = TaskClassifier::adapt(&model, &support(&model, &[1, 1]), "t").unwrap().to_bytes().unwrap();
    let refused = |bytes: &[u8]| TaskClassifier::from_bytes(bytes, "x.task").unwrap_err().to_string();
    for cut in [0, 7, 100, whole.len() / 2, whole.len() - 1] {
        assert!(refused(&whole[..cut]).contains("not a whole one"), "{cut}: {}", refused(&whole[..cut]));
    }
    let mut flipped = whole.clone();
    *flipped.last_mut().unwrap() ^= 1;
    assert!(refused(&flipped).contains("checksum"), "{}", refused(&flipped));
    // One digit of the temperature in the header.
    let at = whole.windows(13).position(|w| w == b"temperature\\\"").unwrap() + 16;
    let mut header = whole.clone();
    header[at] = if header[at] == b'1' { b'2' } else { b'1' };
    assert!(refused(&header).contains("checksum"), "{}", refused(&header));
    assert!(refused(EMBEDDED[0].1).contains("holds no task"));
    let mut newer = whole.clone();
    let version = br#"\"version\":"#;
    newer[find(&whole, version) + version.len()] = b'9';
    assert!(refused(&newer).contains("format is 9"), "{}", refused(&newer));
}

#[test]
fn a_task_and_another_model_do_not_mix() {
    let model = Model::open(EMBEDDED[0].0).unwrap();
    let task = TaskClassifier::adapt(&model, &support(&model, &[1, 1]), "t").unwrap();
    // The same weights with another setting are another model.
    let mut card = model.card().unwrap().clone();
    card.model.seed += 1;
    let bytes = model.with_card(card).unwrap().to_bytes().unwrap();
    let other = Model::from_bytes(&bytes, "other").unwrap();
    assert!(matches!(task.check_model(&other), Err(Error::OtherModel { .. })));
    for (bytes, why) in [(&bytes[..50], "not a whole"), (&[][..], "not a whole")] {
        assert!(Model::from_bytes(bytes, "cut").err().unwrap().to_string().contains(why));
    }
    let error = Model::open("no-such-model").err().unwrap().to_string();
    assert!(error.contains("omniglot-conv4s"), "{error}");
}

#[test]
fn vectors_rest_on_themselves() {
    // Two overlapping clouds: examples that are left out are wrong now and then.
    let rows = 60;
    let noise = |i: usize| ((i * 7919 % 1009) as f32 / 1009.0 - 0.5) * 4.0;
    let vectors: Vec<f32> =
        (0..rows).flat_map(|i| [noise(i) + if i % 2 == 0 { 1.0 } else { -1.0 }, noise(3 * i + 1)]).collect();
    let labels: Vec<usize> = (0..rows).map(|i| i % 2).collect();
    let data = Embeddings::new("clouds", vec!["a".into(), "b".into()], 2, &vectors, &labels).unwrap();
    let task = TaskClassifier::adapt_vectors(&data).unwrap();
    let left_out = task.calibration().left_out.as_ref().unwrap();
    assert!(left_out.of == 60 && (30..60).contains(&left_out.right), "{left_out:?}");
    let again = TaskClassifier::from_bytes(&task.to_bytes().unwrap(), "clouds.task").unwrap();
    let query = siskin_adapt::Features { values: vec![3.0, 0.0, -3.0, 0.0], rows: 2, dim: 2 };
    let thresholds = task.thresholds(&Rules::default()).unwrap();
    let answers = task.answer(&query, &thresholds).unwrap();
    assert_eq!((answers[0].label, answers[1].label), (0, 1));
    assert_eq!(again.answer(&query, &thresholds).unwrap(), answers);
    let model = Model::open(EMBEDDED[0].0).unwrap();
    assert!(again.check_model(&model).unwrap_err().to_string().contains("vectors"));
    let wide = siskin_adapt::Features { values: vec![0.0; 3], rows: 1, dim: 3 };
    assert!(task.answer(&wide, &thresholds).is_err());
}

#[test]
fn classes_and_examples_come_and_go_as_if_they_had_always_been_there() {
    let model = Model::open(EMBEDDED[0].0).unwrap();
    let go_on = Arc::default();
    let whole = support(&model, &[3, 2, 2]);
    let all = TaskClassifier::adapt(&model, &whole, "t").unwrap();
    // Only some of the examples, in the order of the whole; then the rest.
    let part = |wanted: &dyn Fn(usize, &Example) -> bool| -> Vec<Example> {
        whole.examples().iter().enumerate().filter(|(i, e)| wanted(*i, e)).map(|(_, e)| e.clone()).collect()
    };
    let two = whole.classes()[..2].to_vec();
    let first = LabelledImages::new(two.clone(), part(&|i, e| e.class < 2 && i != 4)).unwrap();
    let task = TaskClassifier::adapt(&model, &first, "t").unwrap();
    let late = LabelledImages::more(whole.classes().to_vec(), part(&|i, e| i == 4 || e.class == 2 || i == 0))
        .unwrap();
    let grown = task.with_examples(&model, &late, &go_on).unwrap();
    assert_eq!(grown.classes(), all.classes());
    // The first example was there already: it is replaced, not doubled.
    assert_eq!(grown.labels(), [0, 0, 1, 0, 1, 2, 2]);
    let queries: Vec<View> = (0..4).map(|class| model.view(&drawing(class, -3))).collect();
    let features = model.embed(&queries).unwrap();
    let ask = |task: &TaskClassifier| {
        let thresholds = task.thresholds(&Rules::default()).unwrap();
        let answers = task.answer(&features, &thresholds).unwrap();
        answers.iter().flat_map(|a| a.probabilities.clone()).collect::<Vec<f64>>()
    };
    let close =
        |a: &[f64], b: &[f64]| a.len() == b.len() && a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-6);
    // The same examples in another order are the same task.
    assert!(close(&ask(&grown), &ask(&all)), "{:?} {:?}", ask(&grown), ask(&all));
    let less = grown.without_class(&model, &whole.classes()[2], &go_on).unwrap();
    let fresh = LabelledImages::new(two, part(&|_, e| e.class < 2)).unwrap();
    let fresh = TaskClassifier::adapt(&model, &fresh, "t").unwrap();
    assert!(close(&ask(&less), &ask(&fresh)) && less.labels() == [0, 0, 1, 0, 1]);
    let error = grown.without_class(&model, "nobody", &go_on).unwrap_err().to_string();
    assert!(error.contains("no class `nobody`"), "{error}");
    let error = less.without_class(&model, &whole.classes()[0], &go_on).unwrap_err().to_string();
    assert!(error.contains("at least two classes"), "{error}");
}

#[test]
fn whoever_is_stopped_stops() {
    let model = Model::open(EMBEDDED[0].0).unwrap();
    let whole = support(&model, &[3, 2, 2]);
    let task = TaskClassifier::adapt(&model, &whole, "t").unwrap();
    let stop = Arc::new(std::sync::atomic::AtomicBool::new(true));
    let stopped =
        |result: siskin_adapt::Result<()>| assert!(matches!(result, Err(Error::Stopped)), "{result:?}");
    stopped(TaskClassifier::adapt_until(&model, &whole, "t", &stop).map(drop));
    stopped(task.with_examples(&model, &whole, &stop).map(drop));
    stopped(task.without_class(&model, &whole.classes()[0], &stop).map(drop));
    stopped(task.advice_until(&stop).map(drop));
    // What was not stopped answers later, whatever became of the one who asked for it.
    let go_on = Arc::default();
    let made = TaskClassifier::adapt_until(&model, &whole, "t", &go_on).unwrap();
    go_on.store(true, std::sync::atomic::Ordering::Relaxed);
    assert!(made.advice().unwrap().is_some());
}
