//! Drawings to give to the command.

use std::fmt::Write as _;
use std::path::Path;

/// A drawing as a portable grey map: black strokes on white, one of four kinds, moved a little.
pub(crate) fn drawing(kind: i32, shift: i32) -> String {
    let mut out = "P2 105 105 255".to_string();
    for i in 0..105 * 105 {
        let (x, y) = (i % 105 - 52 - shift, i / 105 - 52 + shift);
        let near = |d: i32| d.abs() <= 2;
        let dark = x.abs() < 36
            && y.abs() < 36
            && match kind {
                0 => near(x) || near(y),
                1 => near(x * x / 30 + y * y / 30 - 30),
                2 => near(x - y) || near(x + y),
                _ => near(y + 30) || near(x + 30),
            };
        write!(out, " {}", if dark { 0 } else { 255 }).unwrap();
    }
    out
}

/// `letters/<class>/<n>.pgm` and `new/<class>.pgm`, beside a file that is no image.
pub(crate) fn letters(at: &Path) {
    for (kind, (class, shots)) in
        [("cross", 1), ("ring", 2), ("times", 1), ("corner", 3)].into_iter().enumerate()
    {
        std::fs::create_dir_all(at.join("letters").join(class)).unwrap();
        for shot in 0..shots {
            std::fs::write(at.join(format!("letters/{class}/{shot}.pgm")), drawing(kind as i32, shot))
                .unwrap();
        }
        std::fs::create_dir_all(at.join("new")).unwrap();
        std::fs::write(at.join(format!("new/{class}.pgm")), drawing(kind as i32, -3)).unwrap();
    }
    std::fs::write(at.join("new/broken.png"), b"no image").unwrap();
}
