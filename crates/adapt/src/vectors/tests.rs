//! Embedding folders into files.

use super::*;
use siskin_data::progress::Silent;
use siskin_data::source::embeddings;

/// Folders of small images; one is none.
fn photos(root: &Path) {
    for (class, images) in [("cat", 3), ("dog \"2\"", 2)] {
        std::fs::create_dir_all(root.join(class)).unwrap();
        for i in 0..images {
            let grey: Vec<String> = (0..144).map(|p| (p * (i + 2) * class.len() % 255).to_string()).collect();
            let text = format!("P2 12 12 255 {}", grey.join(" "));
            std::fs::write(root.join(class).join(format!("{i}.pgm")), text).unwrap();
        }
    }
    std::fs::write(root.join("cat/broken.png"), b"no").unwrap();
}

fn embed(job: &EmbedJob<'_>, root: &Path) -> Result<EmbedDone> {
    job.run(Inputs::new(&[root.to_owned()], None), &Silent, &AtomicBool::new(false))
}

#[test]
fn a_folder_becomes_vectors_with_labels_and_the_second_time_nothing_is_computed() {
    let dir = tempfile::tempdir().unwrap();
    let (root, cache) = (dir.path().join("photos"), dir.path().join("cache"));
    photos(&root);
    let model = Model::open(crate::EMBEDDED[0].0).unwrap();
    let files = ["v.safetensors", "v.npy"].map(|name| dir.path().join(name));
    let mut read = Vec::new();
    for (turn, out) in files.iter().enumerate() {
        let job = EmbedJob { model: &model, cache: Some(&cache), out, unit: false, stop_at_bad: false };
        let done = embed(&job, &root).unwrap();
        assert_eq!((done.rows, done.kept, done.bad.len()), (5, 5 * turn, 1), "{:?}", done.bad);
        assert_eq!(done.classes, ["cat", "dog \"2\""]);
        let data = embeddings::read(out).unwrap();
        assert_eq!(data.classes.iter().map(|c| c.images.len()).collect::<Vec<_>>(), [3, 2]);
        assert_eq!((data.classes[1].name.as_str(), data.dim()), ("dog \"2\"", done.dim));
        let view = Intake::default().view_file(&model, &root.join("cat/1.pgm")).unwrap();
        let direct: Vec<f32> = model.embed([&view]).unwrap().values.iter().map(|&v| v as f32).collect();
        assert_eq!(data.vector(1), direct);
        read.push((0..5).flat_map(|i| data.vector(i).to_vec()).collect::<Vec<f32>>());
    }
    assert_eq!(read[0], read[1]);
    let names = std::fs::read_to_string(dir.path().join("v_names.txt")).unwrap();
    assert!(names.lines().count() == 5 && names.contains("cat/1.pgm"), "{names}");
    let out = &files[0];
    let strict = EmbedJob { model: &model, cache: None, out, unit: true, stop_at_bad: true };
    let error = embed(&strict, &root).unwrap_err().to_string();
    assert!(error.contains("broken.png"), "{error}");
    std::fs::remove_file(root.join("cat/broken.png")).unwrap();
    embed(&strict, &root).unwrap();
    let data = embeddings::read(out).unwrap();
    let length = |row: &[f32]| row.iter().map(|v| v * v).sum::<f32>().sqrt();
    assert!((0..5).all(|i| (length(data.vector(i)) - 1.0).abs() < 1e-5));
    let stopped = AtomicBool::new(true);
    let error = strict.run(Inputs::new(&[root], None), &Silent, &stopped).unwrap_err();
    assert!(matches!(error, Error::Stopped));
    assert!(embeddings::read(out).is_ok(), "the old file stays");
}
