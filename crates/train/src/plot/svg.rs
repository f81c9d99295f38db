//! SVG text: elements, escaping, numbers.

use std::fmt::Write;

use super::theme;

/// A rectangle of the drawing, in pixels.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Area {
    /// Left edge.
    pub x: f64,
    /// Upper edge.
    pub y: f64,
    /// Width.
    pub w: f64,
    /// Height.
    pub h: f64,
}

impl Area {
    /// The right edge.
    pub(super) fn right(&self) -> f64 {
        self.x + self.w
    }

    /// The lower edge.
    pub(super) fn bottom(&self) -> f64 {
        self.y + self.h
    }
}

/// Where a text stands relative to its point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// A drawing being written.
pub(super) struct Svg {
    width: f64,
    height: f64,
    body: String,
}

impl Svg {
    pub(super) fn new(width: f64, height: f64) -> Self {
        Self { width, height, body: String::new() }
    }

    pub(super) fn rect(&mut self, area: Area, radius: f64, class: &str) {
        let Area { x, y, w, h } = area;
        let round = if radius > 0.0 { format!(" rx=\"{}\"", num(radius)) } else { String::new() };
        self.push(format_args!(
            "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"{round} class=\"{class}\"/>",
            num(x),
            num(y),
            num(w.max(0.0)),
            num(h.max(0.0)),
        ));
    }

    pub(super) fn line(&mut self, from: (f64, f64), to: (f64, f64), class: &str) {
        self.polyline(&[from, to], class);
    }

    /// A path through the points; nothing for fewer than two.
    pub(super) fn polyline(&mut self, points: &[(f64, f64)], class: &str) {
        if points.len() < 2 {
            return;
        }
        let mut d = String::new();
        for (i, &(x, y)) in points.iter().enumerate() {
            let letter = if i == 0 { 'M' } else { 'L' };
            // Writing to a string does not fail.
            let _ = write!(d, "{letter}{} {}", num(x), num(y));
        }
        self.path(&d, class);
    }

    /// A closed shape.
    pub(super) fn polygon(&mut self, points: &[(f64, f64)], class: &str) {
        let d: String = points.iter().map(|&(x, y)| format!("{} {} ", num(x), num(y))).collect();
        self.path(&format!("M{}Z", d.trim_end()), class);
    }

    pub(super) fn path(&mut self, d: &str, class: &str) {
        self.push(format_args!("<path d=\"{d}\" class=\"{class}\"/>"));
    }

    pub(super) fn dot(&mut self, centre: (f64, f64), radius: f64, class: &str) {
        let (x, y) = centre;
        self.push(format_args!(
            "<circle cx=\"{}\" cy=\"{}\" r=\"{}\" class=\"{class}\"/>",
            num(x),
            num(y),
            num(radius)
        ));
    }

    /// `text` with its baseline at `at`.
    pub(super) fn text(&mut self, at: (f64, f64), anchor: Anchor, class: &str, text: &str) {
        self.turned_text(at, anchor, 0.0, class, text);
    }

    /// `text` turned by `degrees` about `at`.
    pub(super) fn turned_text(
        &mut self,
        at: (f64, f64),
        anchor: Anchor,
        degrees: f64,
        class: &str,
        text: &str,
    ) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let (x, y) = (num(at.0), num(at.1));
        let turn = if degrees == 0.0 {
            String::new()
        } else {
            format!(" transform=\"rotate({} {x} {y})\"", num(degrees))
        };
        self.push(format_args!(
            "<text x=\"{x}\" y=\"{y}\" text-anchor=\"{anchor}\" class=\"{class}\"{turn}>{}</text>",
            escape(text)
        ));
    }

    /// An image from a data URI; `smooth` blends its pixels when enlarged.
    pub(super) fn image(&mut self, area: Area, uri: &str, smooth: bool) {
        let rendering = if smooth { "auto" } else { "optimizeSpeed" };
        let crisp = if smooth { "" } else { " style=\"image-rendering:pixelated\"" };
        let Area { x, y, w, h } = area;
        self.push(format_args!(
            "<image x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" preserveAspectRatio=\"none\" \
             image-rendering=\"{rendering}\"{crisp} href=\"{uri}\"/>",
            num(x),
            num(y),
            num(w),
            num(h)
        ));
    }

    /// The whole document; `label` says to a screen reader what it shows.
    pub(super) fn finish(self, label: &str) -> String {
        let (w, h) = (num(self.width), num(self.height));
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"sk\" width=\"{w}\" height=\"{h}\" \
             viewBox=\"0 0 {w} {h}\" role=\"img\" aria-label=\"{}\">\n<style>{}</style>\n\
             <rect width=\"{w}\" height=\"{h}\" class=\"sk-bg\"/>\n{}</svg>\n",
            escape(label),
            theme::style(),
            self.body
        )
    }

    fn push(&mut self, element: std::fmt::Arguments<'_>) {
        // Writing to a string does not fail.
        let _ = self.body.write_fmt(element);
        self.body.push('\n');
    }
}

/// A coordinate with at most two decimals. What is not finite would make the file invalid, and becomes 0.
pub(super) fn num(value: f64) -> String {
    let value = if value.is_finite() { value } else { 0.0 };
    let text = format!("{value:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".into() } else { text.into() }
}

/// Text for XML and HTML, in content and in attributes. Control characters XML forbids are left out.
pub(super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\t' | '\n' | '\r' => out.push(c),
            c if c.is_control() || ('\u{fffe}'..='\u{ffff}').contains(&c) => {}
            c => out.push(c),
        }
    }
    out
}

/// Rough width of `text` in pixels at `size`, on the wide side.
pub(super) fn text_width(text: &str, size: f64) -> f64 {
    let width = |c: char| match c {
        'i' | 'j' | 'l' | 'I' | '.' | ',' | ':' | ';' | '\'' | '|' | '!' | ' ' | 't' | 'f' | '(' | ')' => {
            0.33
        }
        'm' | 'w' | 'M' | 'W' | '%' | '@' => 0.9,
        c if c.is_uppercase() => 0.68,
        _ => 0.57,
    };
    text.chars().map(width).sum::<f64>() * size
}

/// `text`, cut with an ellipsis where it is wider than `width` pixels at `size`.
pub(super) fn fit(text: &str, size: f64, width: f64) -> String {
    if text_width(text, size) <= width {
        return text.to_string();
    }
    let mut short = String::new();
    for c in text.chars() {
        short.push(c);
        if text_width(&short, size) + size > width {
            break;
        }
    }
    format!("{}…", short.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_valid() {
        let all = [1.0, 0.5, -0.001, 12.345, f64::NAN, f64::INFINITY, -3.1].map(num);
        assert_eq!(all, ["1", "0.5", "0", "12.35", "0", "0", "-3.1"]);
    }

    #[test]
    fn text_cannot_break_out() {
        assert_eq!(escape("<b> & \"x\" 'y'\u{0}"), "&lt;b&gt; &amp; &quot;x&quot; &#39;y&#39;");
        let mut svg = Svg::new(10.0, 10.0);
        svg.text((0.0, 0.0), Anchor::Start, "", "</text><script>");
        assert!(!svg.finish("\"><script>").contains("<script>"));
    }

    #[test]
    fn long_text_is_cut_to_fit() {
        let cut = fit("a very long class name indeed", 11.0, 60.0);
        assert!(cut.ends_with('…') && text_width(&cut, 11.0) <= 66.0, "{cut}");
        assert_eq!(fit("short", 11.0, 60.0), "short");
    }
}
