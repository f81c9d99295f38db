//! An example episode: the support images of each class, and queries with their predicted probabilities.

use super::error::PlotError;
use super::png::data_uri;
use super::svg::{Anchor, Area, Svg, fit, text_width};
use super::theme::SERIES;

/// A small picture.
#[derive(Debug, Clone)]
pub struct Thumbnail {
    /// Width in pixels.
    pub width: u32,
    /// Height in pixels.
    pub height: u32,
    /// `[H, W, 1]` grey or `[H, W, 3]` RGB, row-major.
    pub pixels: Vec<u8>,
}

/// A class of the episode.
#[derive(Debug, Clone)]
pub struct PlotClass {
    /// Its name.
    pub name: String,
    /// Its support images.
    pub support: Vec<Thumbnail>,
}

/// A query and what was predicted for it.
#[derive(Debug, Clone)]
pub struct PlotQuery {
    /// The image.
    pub image: Thumbnail,
    /// The true class.
    pub label: usize,
    /// The probability of each class.
    pub probs: Vec<f64>,
}

/// An episode to be drawn: a small chart for each class and for each query, which a page puts side by side as far as it is wide.
#[derive(Debug, Clone)]
pub struct EpisodePlot {
    /// The classes with their support.
    pub classes: Vec<PlotClass>,
    /// The queries.
    pub queries: Vec<PlotQuery>,
}

const EDGE: f64 = 8.0;
const QUERY: f64 = 84.0;
const QUERY_WIDTH: f64 = 374.0;
const BAR: f64 = 17.0;
/// The width of the chart of a class.
const CLASS: f64 = 152.0;
/// Room for the name of a class, beside its colour.
const NAME: f64 = CLASS - 2.0 * EDGE - 18.0;
/// A support image with its gap, three beside each other.
const SUPPORT: f64 = 44.0;
/// Support images shown of each class.
const SHOWN: usize = 9;

impl EpisodePlot {
    /// The support images of each class.
    pub fn classes(&self) -> Result<Vec<String>, PlotError> {
        let most = self.classes.iter().map(|c| c.support.len().min(SHOWN)).max().unwrap_or(0);
        let height = SUPPORT * most.div_ceil(3) as f64 + 26.0 + EDGE;
        let chart = |(c, class): (usize, &PlotClass)| {
            let mut svg = Svg::new(CLASS, height);
            support(&mut svg, c, class, (EDGE, EDGE / 2.0))?;
            Ok(svg.finish(&format!("Examples of {}", class.name)))
        };
        self.classes.iter().enumerate().map(chart).collect()
    }

    /// Each query with its probabilities.
    pub fn queries(&self) -> Result<Vec<String>, PlotError> {
        let height = (QUERY + 30.0).max(BAR * self.classes.len() as f64 + 14.0) + EDGE;
        let chart = |query: &PlotQuery| {
            let mut svg = Svg::new(QUERY_WIDTH, height);
            self.query(&mut svg, query, (EDGE, EDGE / 2.0))?;
            let name = self.classes.get(query.label).map_or("?", |c| c.name.as_str());
            Ok(svg.finish(&format!("An image of {name} and its probabilities")))
        };
        self.queries.iter().map(chart).collect()
    }

    /// The image, its true class with a tick or a cross, and a bar for each class.
    fn query(&self, svg: &mut Svg, query: &PlotQuery, (x, y): (f64, f64)) -> Result<(), PlotError> {
        picture(svg, &query.image, Area { x, y, w: QUERY, h: QUERY })?;
        let (predicted, _) = siskin_calib::top(&query.probs);
        let right = predicted == query.label;
        mark(svg, (x + 6.0, y + QUERY + 14.0), right);
        let name = self.classes.get(query.label).map_or("?", |c| c.name.as_str());
        let class = if right { "sk-good" } else { "sk-bad" };
        svg.text((x + 17.0, y + QUERY + 18.0), Anchor::Start, class, &fit(name, 11.0, QUERY + 30.0));

        let bars = Area { x: x + QUERY + 98.0, y, w: 118.0, h: BAR };
        for (c, &p) in query.probs.iter().enumerate() {
            let y = bars.y + BAR * c as f64;
            let base = y + 11.5;
            let name = self.classes.get(c).map_or("?", |c| c.name.as_str());
            let weight = if c == query.label { "sk-head" } else { "sk-muted" };
            svg.text((bars.x - 8.0, base), Anchor::End, weight, &fit(name, 12.0, 84.0));
            svg.rect(Area { y: y + 3.0, h: 10.0, ..bars }, 2.0, "sk-track");
            let length = bars.w * p.clamp(0.0, 1.0);
            let colour = format!("sk-fill{}", c % SERIES);
            svg.rect(Area { y: y + 3.0, h: 10.0, w: length, ..bars }, 2.0, &colour);
            svg.text((bars.right() + 50.0, base), Anchor::End, weight, &format!("{:.1}%", 100.0 * p));
        }
        Ok(())
    }
}

/// The colour and name of a class above its images.
fn support(svg: &mut Svg, c: usize, class: &PlotClass, (x, y): (f64, f64)) -> Result<(), PlotError> {
    svg.rect(Area { x, y: y + 2.0, w: 12.0, h: 12.0 }, 3.0, &format!("sk-fill{}", c % SERIES));
    svg.text((x + 18.0, y + 12.0), Anchor::Start, "", &label(class));
    for (i, image) in class.support.iter().take(SHOWN).enumerate() {
        let (column, row) = ((i % 3) as f64, (i / 3) as f64);
        let side = SUPPORT - 4.0;
        let area = Area { x: x + SUPPORT * column, y: y + 22.0 + SUPPORT * row, w: side, h: side };
        picture(svg, image, area)?;
    }
    Ok(())
}

/// The name of a class, and how many of its images are not shown, as far as there is room.
fn label(class: &PlotClass) -> String {
    let more = match class.support.len().saturating_sub(SHOWN) {
        0 => String::new(),
        more => format!(" (+{more})"),
    };
    fit(&class.name, 11.0, NAME - text_width(&more, 11.0)) + &more
}

/// The picture in the middle of `area`, as large as fits with its own proportions; few pixels stay crisp.
fn picture(svg: &mut Svg, image: &Thumbnail, area: Area) -> Result<(), PlotError> {
    let uri = data_uri(image.width, image.height, &image.pixels)?;
    let (w, h) = (f64::from(image.width), f64::from(image.height));
    let scale = (area.w / w).min(area.h / h);
    let (w, h) = (w * scale, h * scale);
    svg.rect(area, 3.0, "sk-track");
    let inside = Area { x: area.x + (area.w - w) / 2.0, y: area.y + (area.h - h) / 2.0, w, h };
    svg.image(inside, &uri, scale < 2.0);
    Ok(())
}

/// A tick or a cross about `at`.
fn mark(svg: &mut Svg, (x, y): (f64, f64), right: bool) {
    if right {
        svg.polyline(&[(x - 4.0, y), (x - 1.0, y + 3.5), (x + 5.0, y - 4.0)], "sk-tick-good");
    } else {
        svg.line((x - 4.0, y - 4.0), (x + 4.0, y + 4.0), "sk-tick-bad");
        svg.line((x - 4.0, y + 4.0), (x + 4.0, y - 4.0), "sk-tick-bad");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thumbnail(len: usize) -> Thumbnail {
        Thumbnail { width: 4, height: 4, pixels: vec![90; len] }
    }

    fn episode(label: usize, pixels: usize) -> EpisodePlot {
        let class = |name: &str| PlotClass { name: name.into(), support: vec![thumbnail(16); 11] };
        let query = PlotQuery { image: thumbnail(pixels), label, probs: vec![0.25, 0.75] };
        EpisodePlot { classes: vec![class("a"), class("b")], queries: vec![query] }
    }

    #[test]
    fn right_and_wrong_are_told_apart() {
        let marks = |svg: &str| {
            let count = |class: &str| svg.matches(&format!("class=\"{class}\"")).count();
            (count("sk-tick-good"), count("sk-tick-bad"))
        };
        assert_eq!(marks(&episode(1, 48).queries().unwrap()[0]), (1, 0));
        assert_eq!(marks(&episode(0, 48).queries().unwrap()[0]), (0, 2));
    }

    #[test]
    fn probabilities_are_written_and_drawn_to_scale() {
        let svg = &episode(1, 16).queries().unwrap()[0];
        assert!(svg.contains(">75.0%<") && svg.contains(">25.0%<"));
        assert!(svg.contains("width=\"88.5\" height=\"10\"") && svg.contains("width=\"29.5\" height=\"10\""));
        assert!(crate::plot::render_png(svg, 1.0).is_ok());
        let classes = episode(1, 16).classes().unwrap();
        assert!(classes.len() == 2 && classes[0].contains(">a (+2)<"));
        assert!(crate::plot::render_png(&classes[0], 1.0).is_ok());
    }

    #[test]
    fn a_long_name_leaves_room_for_what_is_not_shown() {
        let class = |images| PlotClass {
            name: "Blue_headed_Vireo_of_the_north".into(),
            support: vec![thumbnail(16); images],
        };
        let long = label(&class(SHOWN + 120));
        assert!(long.ends_with("… (+120)") && text_width(&long, 11.0) <= NAME, "{long}");
        assert!(label(&class(1)).ends_with('…'));
    }

    #[test]
    fn pixels_that_do_not_fit_are_refused() {
        assert!(matches!(episode(0, 17).queries(), Err(PlotError::Pixels { found: 17, .. })));
    }

    #[test]
    fn a_label_without_a_class_does_not_panic() {
        assert!(episode(7, 16).queries().unwrap()[0].contains(">?<"));
    }
}
