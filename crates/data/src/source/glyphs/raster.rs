//! How does a pen line become pixels? By the distance of each pixel's centre from the line.

use super::hand::Point;

/// Draws `lines` black on white on a `side` x `side` page. `reach` is the part of the page the unit box of the
/// lines takes, `width` the width of the pen in pixels.
pub(super) fn draw(lines: &[Vec<Point>], side: usize, reach: f64, width: f64) -> Vec<u8> {
    let (middle, scale) = (0.5 * side as f64, reach * side as f64);
    let place = |p: Point| [middle + scale * p[0], middle + scale * p[1]];
    let mut ink = vec![0.0f64; side * side];
    for line in lines {
        for s in line.windows(2) {
            let (a, b) = (place(s[0]), place(s[1]));
            let margin = 0.5 * width + 1.0;
            let range = |u: f64, v: f64| {
                let low = (u.min(v) - margin).clamp(0.0, side as f64) as usize;
                let high = (u.max(v) + margin).ceil().clamp(0.0, side as f64) as usize;
                low..high
            };
            for y in range(a[1], b[1]) {
                for x in range(a[0], b[0]) {
                    let d = distance_to_segment([x as f64 + 0.5, y as f64 + 0.5], a, b);
                    let cover = (0.5 + 0.5 * width - d).clamp(0.0, 1.0);
                    let pixel = &mut ink[y * side + x];
                    *pixel = pixel.max(cover);
                }
            }
        }
    }
    ink.iter().map(|&i| (255.0 * (1.0 - i)).round() as u8).collect()
}

fn distance_to_segment(p: Point, a: Point, b: Point) -> f64 {
    let (along, to) = ([b[0] - a[0], b[1] - a[1]], [p[0] - a[0], p[1] - a[1]]);
    let square = along[0] * along[0] + along[1] * along[1];
    let t = if square > 0.0 { ((along[0] * to[0] + along[1] * to[1]) / square).clamp(0.0, 1.0) } else { 0.0 };
    let (dx, dy) = (to[0] - t * along[0], to[1] - t * along[1]);
    (dx * dx + dy * dy).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_horizontal_line_covers_its_width() {
        // A line through the middle of a 28-pixel page, 2 pixels wide: rows 13 and 14 are black, the rest white.
        let page = draw(&[vec![[-0.5, 0.0], [0.5, 0.0]]], 28, 0.5, 2.0);
        let column: Vec<u8> = (0..28).map(|y| page[y * 28 + 14]).collect();
        for (y, &v) in column.iter().enumerate() {
            assert_eq!(v, if y == 13 || y == 14 { 0 } else { 255 }, "row {y}");
        }
        assert!(page[14 * 28..14 * 28 + 6].iter().all(|&v| v == 255));
    }

    #[test]
    fn lines_beyond_the_page_are_cut() {
        let page = draw(&[vec![[-9.0, -9.0], [9.0, 9.0]], vec![[5.0, 5.0], [5.0, 6.0]]], 28, 0.8, 1.5);
        assert_eq!(page.len(), 28 * 28);
        assert_eq!(page[0], 0);
    }
}
