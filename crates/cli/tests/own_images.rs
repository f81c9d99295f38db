//! From a folder of one's own photos to a tested model, as docs/guide.md has it.

mod support;

use std::path::Path;
use support::{run, text};

/// Standard output and error of a command that must succeed.
fn both(args: &[&str], folder: &Path) -> (String, String) {
    let output = run(args, folder);
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{args:?}: {err}");
    (out, err)
}

/// A photo of class `class`: its colour, in stripes as wide as the photo's number.
fn photo(class: usize, number: usize) -> Vec<u8> {
    let (width, height) = (48, 40);
    let colour = [class * 20, 255 - class * 20, class * 7 % 5 * 50].map(|v| v as u8);
    let pixel =
        |i: usize| if ((i % width) / (2 + number)).is_multiple_of(2) { colour } else { [200, 180, 20] };
    let pixels: Vec<u8> = (0..width * height).flat_map(pixel).collect();
    let mut out = Vec::new();
    let mut encoder = png::Encoder::new(&mut out, width as u32, height as u32);
    encoder.set_color(png::ColorType::Rgb);
    encoder.write_header().unwrap().write_image_data(&pixels).unwrap();
    out
}

#[test]
fn from_a_folder_of_photos_to_a_tested_model() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    for class in 0..12 {
        let of_class = at.join(format!("photos/birds/bird{class:02}"));
        std::fs::create_dir_all(&of_class).unwrap();
        for number in 0..5 {
            std::fs::write(of_class.join(format!("{number}.png")), photo(class, number)).unwrap();
        }
    }
    let config = "
[data]
train = \"photos/birds\"
image_size = 84
[episode]
way = 3
query = 2
[backbone]
name = \"conv4\"
[train]
episodes = 4
validate_every = 2
validate_episodes = 2
[test]
groups = 1
episodes = 3
query = 2
";
    std::fs::write(at.join("birds.toml"), config).unwrap();
    let train = ["train", "birds.toml", "--out", "run"];

    // Without a split, the error has the command that makes one.
    let output = run(&train, at);
    let says = text(&output.stderr);
    assert!(!output.status.success(), "{says}");
    let command = says.split('`').nth(1).unwrap_or_else(|| panic!("no command in: {says}"));
    assert_eq!(command, "siskin data split --data photos/birds --make 6,3 --out photos/birds/splits.json");
    let args: Vec<&str> = command.split(' ').skip(1).collect();
    both(&args, at);

    // Too few classes for an episode: the key to change is named.
    let output = run(&["train", "birds.toml", "--set", "episode.way=5", "--out", "run"], at);
    let says = text(&output.stderr);
    assert!(says.contains("birds (val) has 3 classes to draw from") && says.contains("`way` of"), "{says}");

    let (_, notes) = both(&train, at);
    assert!(!notes.contains("Note:"), "a colour network needs no note: {notes}");
    let (out, _) = both(&["test", "run"], at);
    assert!(out.contains("3-way 1-shot, 2 queries per class, 3 episodes"), "{out}");

    let grey = ["train", "birds.toml", "--set", "backbone.name=conv4s", "--set", "data.image_size=28"];
    let (_, notes) = both(&[&grey[..], &["--out", "grey"]].concat(), at);
    assert_eq!(notes.matches("sees their first channel (red) alone").count(), 1, "{notes}");
}
