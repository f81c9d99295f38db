//! Every kind of bad input, made here, must give a clear message with its path, or a counted skip.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use siskin_data::check::{Problem, check};
use siskin_data::{Cache, Error, Fault, OnBadImage, Opened, Opener, Silent, Source};

/// A data set folder and a cache, both temporary.
struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    /// Two sound classes of three images each.
    fn new() -> Self {
        let place = Place { dir: tempfile::tempdir().unwrap() };
        for class in ["auk", "owl"] {
            (0..3).for_each(|i| place.put(&format!("{class}/{i}.png"), &png(class.as_bytes()[0] + i)));
        }
        place
    }

    fn root(&self) -> PathBuf {
        self.dir.path().join("birds")
    }

    fn put(&self, path: &str, bytes: &[u8]) {
        let path = self.root().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    fn open(&self, path: &Path, on_bad: OnBadImage) -> Result<Opened, Error> {
        let cache = Cache::new(self.dir.path().join("cache"));
        Opener { cache: &cache, on_bad, shorter_side: Some(168), progress: &Silent }.open(&Source::at(path))
    }

    /// With `error` the message must name the path; with `skip` the file must be the one bad file, and the six others
    /// must be there. Gives the fault.
    fn expect_one_bad(&self, source: &Path, path: &str) -> Fault {
        let error = self.open(source, OnBadImage::Error).unwrap_err();
        assert!(matches!(error, Error::BadFile { .. }), "{error}");
        assert!(error.to_string().contains(path), "{error}");
        let opened = self.open(source, OnBadImage::Skip).unwrap();
        assert_eq!(opened.bad.len(), 1, "{:?}", opened.bad);
        assert!(opened.bad[0].path.contains(path), "{:?}", opened.bad);
        assert_eq!(check(&opened).images, 6);
        opened.bad[0].fault.clone()
    }
}

/// A grey 4 x 4 PNG of one value.
fn png(value: u8) -> Vec<u8> {
    let mut out = Vec::new();
    let mut encoder = png::Encoder::new(&mut out, 4, 4);
    encoder.set_color(png::ColorType::Grayscale);
    encoder.write_header().unwrap().write_image_data(&[value; 16]).unwrap();
    out
}

fn jpeg() -> Vec<u8> {
    let mut out = Vec::new();
    let pixels: Vec<u8> = (0..32 * 32 * 3).map(|i| (i * 37 % 251) as u8).collect();
    jpeg_encoder::Encoder::new(&mut out, 90).encode(&pixels, 32, 32, jpeg_encoder::ColorType::Rgb).unwrap();
    out
}

#[test]
fn a_sound_folder_is_read_and_then_comes_from_the_cache() {
    let place = Place::new();
    let first = place.open(&place.root(), OnBadImage::Error).unwrap();
    assert!(!first.cached && first.bad.is_empty());
    let second = place.open(&place.root(), OnBadImage::Error).unwrap();
    assert!(second.cached);
    assert_eq!(first.items.content_hash(), second.items.content_hash());
    place.put("owl/9.png", &png(9));
    let third = place.open(&place.root(), OnBadImage::Error).unwrap();
    assert!(!third.cached, "a new file is noticed");
    assert_eq!(check(&third).images, 7);
}

#[test]
fn files_that_are_no_images() {
    let whole = jpeg();
    for (name, bytes, fault) in [
        ("zero.jpg", &b""[..], Fault::Empty),
        ("text.png", b"this is not a picture", Fault::UnknownFormat),
        ("cut.jpg", &whole[..whole.len() / 2], Fault::Truncated),
    ] {
        let place = Place::new();
        place.put(&format!("owl/{name}"), bytes);
        assert_eq!(place.expect_one_bad(&place.root(), name), fault);
    }
}

#[test]
fn a_wrong_extension_does_no_harm() {
    let place = Place::new();
    place.put("owl/jpeg_inside.png", &jpeg());
    let report = check(&place.open(&place.root(), OnBadImage::Error).unwrap());
    assert_eq!((report.images, report.grey, report.colour), (7, 6, 1));
}

#[test]
fn one_pixel_is_an_image() {
    let place = Place::new();
    let mut out = Vec::new();
    png::Encoder::new(&mut out, 1, 1).write_header().unwrap().write_image_data(&[7]).unwrap();
    place.put("owl/dot.png", &out);
    let report = check(&place.open(&place.root(), OnBadImage::Error).unwrap());
    assert_eq!(report.sizes, Some([(1, 1), (4, 4)]));
}

#[test]
fn a_header_that_claims_65500_squared_is_refused() {
    let place = Place::new();
    let mut claim = jpeg();
    let frame = claim.windows(2).position(|w| w == [0xff, 0xc0]).unwrap();
    claim[frame + 5..frame + 9].copy_from_slice(&[0xff, 0xdc, 0xff, 0xdc]);
    place.put("owl/moon.jpg", &claim);
    let fault = place.expect_one_bad(&place.root(), "moon.jpg");
    assert!(matches!(fault, Fault::TooManyPixels { width: 65_500, height: 65_500, .. }), "{fault}");
}

#[test]
fn small_classes_and_classes_that_differ_in_case_and_duplicates_are_named() {
    let place = Place::new();
    place.put("tern/only.png", &png(200));
    place.put("Owl/1.png", &png(201));
    place.put("Owl/2.png", &png(202));
    place.put("auk/copy.png", &png(b'o'));
    place.put("auk/again.png", &png(b'a'));
    let report = check(&place.open(&place.root(), OnBadImage::Error).unwrap());
    let problems: Vec<String> = report.problems.iter().map(Problem::to_string).collect();
    assert_eq!(
        problems,
        [
            "the same image is in different classes: auk/copy.png, owl/0.png",
            "the same image is more than once in class auk: auk/0.png, auk/again.png",
            "the classes Owl, owl differ only in upper and lower case",
            "classes with fewer than 2 images: tern (1)",
        ]
    );
}

#[cfg(unix)]
#[test]
fn unreadable_files_loops_and_names() {
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::{PermissionsExt, symlink};
    let place = Place::new();
    symlink(place.root(), place.root().join("owl/loop")).unwrap();
    assert_eq!(place.expect_one_bad(&place.root(), "owl/loop"), Fault::LinkLoop);

    let place = Place::new();
    symlink("gone.png", place.root().join("owl/dead.png")).unwrap();
    assert!(matches!(place.expect_one_bad(&place.root(), "dead.png"), Fault::Unreadable { .. }));

    if cfg!(target_os = "linux") {
        let place = Place::new();
        let name = std::ffi::OsStr::from_bytes(b"caf\xe9.png");
        fs::write(place.root().join("owl").join(name), png(1)).unwrap();
        assert_eq!(place.expect_one_bad(&place.root(), "caf"), Fault::NameNotUtf8);
    }

    let place = Place::new();
    place.put("owl/locked.png", &png(1));
    let locked = place.root().join("owl/locked.png");
    fs::set_permissions(&locked, fs::Permissions::from_mode(0o000)).unwrap();
    if fs::File::open(&locked).is_ok() {
        // Permissions do not stop root. The start of this process's memory, which is not mapped, stops every user.
        fs::remove_file(&locked).unwrap();
        symlink("/proc/self/mem", &locked).unwrap();
    }
    assert!(matches!(place.expect_one_bad(&place.root(), "locked.png"), Fault::Unreadable { .. }));
}

/// A .tar with the six sound images and one more entry made by `extra`.
fn tar(place: &Place, extra: impl FnOnce(&mut tar::Builder<fs::File>)) -> PathBuf {
    let path = place.dir.path().join("birds.tar");
    let mut builder = tar::Builder::new(fs::File::create(&path).unwrap());
    for class in ["auk", "owl"] {
        (0..3).for_each(|i| add(&mut builder, &format!("{class}/{i}.png"), &png(class.as_bytes()[0] + i)));
    }
    extra(&mut builder);
    builder.into_inner().unwrap();
    path
}

/// Adds a file under any name, also one that the tar library would not write.
fn add(builder: &mut tar::Builder<fs::File>, name: &str, bytes: &[u8]) {
    let mut header = tar::Header::new_gnu();
    header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
    header.set_size(bytes.len() as u64);
    header.set_mode(0o644);
    header.set_cksum();
    builder.append(&header, bytes).unwrap();
}

#[test]
fn archive_entries_that_lead_outside_and_links_are_refused() {
    for name in ["../evil.png", "owl/../../evil.png", "/etc/evil.png", "C:/evil.png", "..\\evil.png"] {
        let place = Place::new();
        let path = tar(&place, |builder| add(builder, name, &png(1)));
        assert_eq!(place.expect_one_bad(&path, name), Fault::OutsideArchive, "{name}");
    }
    for kind in [tar::EntryType::Symlink, tar::EntryType::Link] {
        let place = Place::new();
        let path = tar(&place, |builder| {
            let mut header = tar::Header::new_gnu();
            header.set_entry_type(kind);
            header.set_size(0);
            builder.append_link(&mut header, "owl/link.png", "/etc/passwd").unwrap();
        });
        assert_eq!(place.expect_one_bad(&path, "owl/link.png"), Fault::LinkInArchive);
    }
    let place = Place::new();
    let path = tar(&place, |builder| {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(tar::EntryType::Fifo);
        header.set_path("owl/pipe.png").unwrap();
        header.set_size(0);
        header.set_cksum();
        builder.append(&header, &b""[..]).unwrap();
    });
    assert_eq!(place.expect_one_bad(&path, "owl/pipe.png"), Fault::SpecialFile);
}

#[test]
fn zip_entries_that_lead_outside_and_links_are_refused() {
    let place = Place::new();
    for (extra, link, fault) in
        [("../evil.png", false, Fault::OutsideArchive), ("owl/link.png", true, Fault::LinkInArchive)]
    {
        let path = place.dir.path().join(format!("birds-{link}.zip"));
        let mut zip = zip::ZipWriter::new(fs::File::create(&path).unwrap());
        let options = zip::write::SimpleFileOptions::default();
        for class in ["auk", "owl"] {
            for i in 0..3 {
                zip.start_file(format!("{class}/{i}.png"), options).unwrap();
                zip.write_all(&png(class.as_bytes()[0] + i)).unwrap();
            }
        }
        if link {
            zip.add_symlink(extra, "/etc/passwd", options).unwrap();
        } else {
            zip.start_file(extra, options).unwrap();
            zip.write_all(&png(1)).unwrap();
        }
        zip.finish().unwrap();
        assert_eq!(place.expect_one_bad(&path, extra), fault);
    }
}

#[test]
fn bombs_are_refused_as_a_whole() {
    let place = Place::new();
    // 100 MB of zeros in one entry: about 100 kB packed.
    let zeros = vec![0u8; 100 << 20];
    let gz = place.dir.path().join("bomb.tar.gz");
    let encoder =
        flate2::write::GzEncoder::new(fs::File::create(&gz).unwrap(), flate2::Compression::default());
    let mut builder = tar::Builder::new(encoder);
    let mut header = tar::Header::new_gnu();
    header.set_size(zeros.len() as u64);
    header.set_cksum();
    builder.append_data(&mut header, "owl/1.bmp", &zeros[..]).unwrap();
    builder.into_inner().unwrap().finish().unwrap();
    let zip_path = place.dir.path().join("bomb.zip");
    let mut zip = zip::ZipWriter::new(fs::File::create(&zip_path).unwrap());
    zip.start_file("owl/1.bmp", zip::write::SimpleFileOptions::default()).unwrap();
    zip.write_all(&zeros).unwrap();
    zip.finish().unwrap();
    for path in [gz, zip_path] {
        for policy in [OnBadImage::Error, OnBadImage::Skip] {
            let error = place.open(&path, policy).unwrap_err();
            assert!(matches!(error, Error::ArchiveBomb { .. }), "{error}");
            assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
        }
    }
}

#[test]
fn a_file_name_of_megabytes_is_refused() {
    let place = Place::new();
    let path = tar(&place, |builder| {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(tar::EntryType::GNULongName);
        header.set_path("././@LongLink").unwrap();
        let name = vec![b'a'; 8 << 20];
        header.set_size(name.len() as u64);
        header.set_cksum();
        builder.append(&header, &name[..]).unwrap();
        add(builder, "owl/x.png", &png(1));
    });
    let error = place.open(&path, OnBadImage::Skip).unwrap_err().to_string();
    assert!(error.contains("the headers between two entries are too large"), "{error}");
}

#[test]
fn damaged_archives_are_named() {
    let place = Place::new();
    for (name, bytes) in
        [("a.zip", &b"PK\x03\x04 nothing"[..]), ("b.tar.gz", b"no gzip"), ("c.tar", &[7; 2000])]
    {
        let path = place.dir.path().join(name);
        fs::write(&path, bytes).unwrap();
        let error = place.open(&path, OnBadImage::Skip).unwrap_err();
        assert!(matches!(error, Error::BadArchive { .. }), "{error}");
        assert!(error.to_string().contains(name), "{error}");
    }
}

#[test]
fn a_folder_and_its_archives_are_the_same_data_set() {
    let place = Place::new();
    let folder = place.open(&place.root(), OnBadImage::Error).unwrap();
    let tar = tar(&place, |_| {});
    let gz = place.dir.path().join("birds.tar.gz");
    let mut encoder =
        flate2::write::GzEncoder::new(fs::File::create(&gz).unwrap(), flate2::Compression::fast());
    encoder.write_all(&fs::read(&tar).unwrap()).unwrap();
    encoder.finish().unwrap();
    for path in [tar, gz] {
        let archive = place.open(&path, OnBadImage::Error).unwrap();
        assert_eq!(archive.items.content_hash(), folder.items.content_hash(), "{}", path.display());
    }
}

#[test]
fn a_damaged_cache_is_made_anew() {
    use std::sync::Mutex;
    struct Notes(Mutex<Vec<String>>);
    impl siskin_data::Progress for Notes {
        fn begin(&self, _: &str, _: u64) {}
        fn advance(&self, _: u64) {}
        fn end(&self) {}
        fn note(&self, message: &str) {
            self.0.lock().unwrap().push(message.to_owned());
        }
    }
    let place = Place::new();
    let whole = place.open(&place.root(), OnBadImage::Error).unwrap().items.content_hash();
    let packs = place.dir.path().join("cache/packs");
    let pack = fs::read_dir(&packs).unwrap().next().unwrap().unwrap().path();
    let bytes = fs::read(&pack).unwrap();
    fs::remove_file(&pack).unwrap();
    fs::write(&pack, &bytes[..bytes.len() - 5]).unwrap();
    let notes = Notes(Mutex::new(Vec::new()));
    let cache = Cache::new(place.dir.path().join("cache"));
    let opener =
        Opener { cache: &cache, on_bad: OnBadImage::Error, shorter_side: Some(168), progress: &notes };
    let opened = opener.open(&Source::at(place.root())).unwrap();
    assert!(!opened.cached && opened.items.content_hash() == whole);
    let notes = notes.0.into_inner().unwrap();
    assert!(notes[0].contains("cut short") && notes[0].contains("made anew"), "{notes:?}");
    assert_eq!(fs::read(&pack).unwrap(), bytes);
}
