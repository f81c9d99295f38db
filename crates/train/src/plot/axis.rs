//! Scales, ticks and frames.

use super::svg::{Anchor, Area, Svg};

/// A linear map from data to pixels.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scale {
    domain: (f64, f64),
    pixels: (f64, f64),
}

impl Scale {
    /// Maps `domain` to `pixels`; a domain of no width is widened.
    pub(super) fn new(domain: (f64, f64), pixels: (f64, f64)) -> Self {
        Self { domain: widened(domain), pixels }
    }

    pub(super) fn at(&self, value: f64) -> f64 {
        let part = (value - self.domain.0) / (self.domain.1 - self.domain.0);
        self.pixels.0 + part * (self.pixels.1 - self.pixels.0)
    }
}

/// The smallest interval that holds all finite values; `None` if there are none.
pub(super) fn extent(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    values.filter(|v| v.is_finite()).fold(None, |range, v| match range {
        None => Some((v, v)),
        Some((low, high)) => Some((f64::min(low, v), f64::max(high, v))),
    })
}

fn widened((low, high): (f64, f64)) -> (f64, f64) {
    if high > low {
        return (low, high);
    }
    let room = if low == 0.0 { 1.0 } else { 0.5 * low.abs() };
    (low - room, low + room)
}

/// Round numbers over a range.
#[derive(Debug, Clone)]
pub(super) struct Ticks {
    pub(super) values: Vec<f64>,
    step: f64,
}

impl Ticks {
    /// About `count` multiples of 1, 2 or 5 times a power of ten inside `range`.
    pub(super) fn inside(range: (f64, f64), count: usize) -> Self {
        let (low, high) = widened(range);
        let step = round_step((high - low) / count.max(1) as f64);
        // A tick that rounding puts a hair outside still belongs.
        let first = (low / step - 1e-9).ceil() as i64;
        let last = (high / step + 1e-9).floor() as i64;
        Self { values: (first..=last).map(|i| i as f64 * step).collect(), step }
    }

    /// `range` widened to whole steps, for a frame whose ends carry ticks.
    pub(super) fn around(range: (f64, f64), count: usize) -> (Self, (f64, f64)) {
        let (low, high) = widened(range);
        let step = round_step((high - low) / count.max(1) as f64);
        let outer = ((low / step + 1e-9).floor() * step, (high / step - 1e-9).ceil() * step);
        (Self::inside(outer, count), outer)
    }

    /// As many decimals as the step needs; whole thousands and millions as 20k and 20M.
    pub(super) fn label(&self, value: f64) -> String {
        let (unit, letter) = match self.step {
            s if s >= 1e6 => (1e6, "M"),
            s if s >= 1e3 => (1e3, "k"),
            _ => (1.0, ""),
        };
        let decimals = (-self.step.log10().floor()).max(0.0) as usize;
        let text = format!("{:.decimals$}", value.abs() / unit);
        let zero = !text.contains(|c: char| c.is_ascii_digit() && c != '0');
        match (zero, value < 0.0) {
            (true, _) => text,
            // A true minus sign is as wide as a plus sign.
            (false, true) => format!("−{text}{letter}"),
            (false, false) => format!("{text}{letter}"),
        }
    }
}

/// The smallest of 1, 2, 5 times a power of ten that is at least `step`.
fn round_step(step: f64) -> f64 {
    let power = 10f64.powf(step.log10().floor());
    let factor = [1.0, 2.0, 5.0].into_iter().find(|f| f * power >= step * (1.0 - 1e-9));
    factor.unwrap_or(10.0) * power
}

/// A plotting area with its two scales.
pub(super) struct Frame {
    pub(super) area: Area,
    pub(super) x: Scale,
    pub(super) y: Scale,
}

impl Frame {
    pub(super) fn new(area: Area, x: (f64, f64), y: (f64, f64)) -> Self {
        Self { area, x: Scale::new(x, (area.x, area.right())), y: Scale::new(y, (area.bottom(), area.y)) }
    }

    pub(super) fn at(&self, point: (f64, f64)) -> (f64, f64) {
        (self.x.at(point.0), self.y.at(point.1))
    }

    /// Level grid lines with numbers to their left.
    pub(super) fn y_ticks(&self, svg: &mut Svg, ticks: &Ticks, numbers: bool) {
        for &value in &ticks.values {
            let y = self.y.at(value);
            svg.line((self.area.x, y), (self.area.right(), y), "sk-grid");
            if numbers {
                svg.text((self.area.x - 6.0, y + 3.8), Anchor::End, "sk-muted", &ticks.label(value));
            }
        }
    }

    /// The base line with marks and, if `numbers`, their numbers.
    pub(super) fn x_ticks(&self, svg: &mut Svg, ticks: &Ticks, numbers: bool) {
        let base = self.area.bottom();
        svg.line((self.area.x, base), (self.area.right(), base), "sk-axis");
        for &value in &ticks.values {
            let x = self.x.at(value);
            svg.line((x, base), (x, base + 4.0), "sk-axis");
            if numbers {
                svg.text((x, base + 16.0), Anchor::Middle, "sk-muted", &ticks.label(value));
            }
        }
    }

    /// The name of the x axis, below its numbers.
    pub(super) fn x_name(&self, svg: &mut Svg, name: &str) {
        let x = self.area.x + self.area.w / 2.0;
        svg.text((x, self.area.bottom() + 32.0), Anchor::Middle, "", name);
    }

    /// The name of the y axis, `distance` to the left of it.
    pub(super) fn y_name(&self, svg: &mut Svg, name: &str, distance: f64) {
        let at = (self.area.x - distance, self.area.y + self.area.h / 2.0);
        svg.turned_text(at, Anchor::Middle, -90.0, "", name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_inside() {
        let labels = |t: &Ticks| t.values.iter().map(|&v| t.label(v)).collect::<Vec<_>>();
        assert_eq!(labels(&Ticks::inside((0.0, 1.0), 5)), ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
        assert_eq!(labels(&Ticks::inside((-3.0, 3.0), 3)), ["−2", "0", "2"]);
        assert_eq!(labels(&Ticks::inside((0.0, 60000.0), 3)), ["0", "20k", "40k", "60k"]);
        assert_eq!(labels(&Ticks::inside((-5e6, 5e6), 2)), ["−5M", "0", "5M"]);
        assert_eq!(labels(&Ticks::inside((0.0, 150.0), 3)), ["0", "50", "100", "150"]);
        let (ticks, outer) = Ticks::around((0.613, 0.657), 4);
        assert_eq!(labels(&ticks), ["0.60", "0.62", "0.64", "0.66"]);
        assert!((outer.0 - 0.6).abs() < 1e-12 && (outer.1 - 0.66).abs() < 1e-12);
    }

    #[test]
    fn a_range_of_no_width_is_drawn() {
        assert!(Ticks::inside((2.0, 2.0), 4).values.len() >= 3);
        assert_eq!(Scale::new((2.0, 2.0), (0.0, 10.0)).at(2.0), 5.0);
        assert_eq!(extent([f64::NAN, 1.0, -2.0].into_iter()), Some((-2.0, 1.0)));
        assert_eq!(extent([f64::NAN].into_iter()), None);
    }
}
