//! Sums and products of forms: `rbf+rational-quadratic`, `linear+poly2`, `rbf*matern52+constant`.
//!
//! The parts must see the same of two points: all their distance, or all their product. Every part of a sum but the first has a variance,
//! its first shape. To a sum of functions of the distance a part `linear` and a part `white` may be added: `rbf+linear+white`; they come last.

use super::form::MOST_SHAPES;
use super::{AnyForm, Beside, Form, Statistic};

pub(super) const NAMES: &[&str] = &[
    "rbf+rational-quadratic",
    "rbf*matern52",
    "linear+constant",
    "rbf+linear",
    "rbf+white",
    "rbf+linear+white",
];

/// The names of the parts that are no function of the distance.
const LINEAR: &str = "linear";
const WHITE: &str = "white";

pub(super) fn named(name: &str) -> Option<AnyForm> {
    let (sign, product) = match (name.contains('+'), name.contains('*')) {
        (true, _) => ('+', false),
        (false, true) => ('*', true),
        (false, false) => return None,
    };
    let mut names: Vec<&str> = name.split(sign).collect();
    let white = names.iter().filter(|name| **name == WHITE).count();
    names.retain(|name| *name != WHITE);
    let mut parts = names.into_iter().map(AnyForm::named).collect::<Option<Vec<_>>>()?;
    let linear = parts.iter().filter(|part| part.name() == LINEAR).count();
    if product
        || white > 1
        || linear > 1
        || !parts.iter().any(|part| part.is_stationary() && part.name() != "constant")
    {
        return if white == 0 { Combined::new(parts, product).map(Into::into) } else { None };
    }
    parts.retain(|part| part.name() != LINEAR);
    Combined::beside(parts, linear == 1, white == 1).map(Into::into)
}

/// A sum or a product of forms.
#[derive(Debug, Clone)]
pub struct Combined {
    parts: Vec<AnyForm>,
    product: bool,
    statistic: Statistic,
    shapes: Vec<&'static str>,
    beside: Beside,
}

impl Combined {
    /// A sum of functions of the distance with a linear part, a white part, or both; `None` where there is nothing to add or too much.
    fn beside(parts: Vec<AnyForm>, linear: bool, white: bool) -> Option<Combined> {
        let mut sum = match parts.len() {
            1 => Combined {
                shapes: parts[0].shapes().to_vec(),
                parts,
                product: false,
                statistic: Statistic::SquaredDistance,
                beside: Beside::default(),
            },
            _ => Combined::new(parts, false)?,
        };
        if !linear && !white {
            return (sum.parts.len() > 1).then_some(sum);
        }
        let mut add = |wanted: bool, name: &'static str| {
            wanted.then(|| {
                sum.shapes.push(name);
                sum.shapes.len() - 1
            })
        };
        let linear = add(linear, "variance of the linear part");
        let white = add(white, "variance of the white part");
        sum.beside = Beside { linear, white };
        (sum.shapes.len() <= MOST_SHAPES).then_some(sum)
    }

    /// The sum or the product of two forms or more; `None` if they do not fit together or have more than eight shapes.
    pub fn new(parts: Vec<AnyForm>, product: bool) -> Option<Combined> {
        let of_points: Vec<&AnyForm> = parts.iter().filter(|part| part.name() != "constant").collect();
        let first = *of_points.first()?;
        let alike = |part: &&AnyForm| part.statistic() == first.statistic();
        let mut shapes = Vec::new();
        for (i, part) in parts.iter().enumerate() {
            if i > 0 && !product {
                shapes.push("variance of a part");
            }
            shapes.extend_from_slice(part.shapes());
        }
        let statistic = first.statistic();
        (parts.len() > 1 && of_points.iter().all(alike) && shapes.len() <= MOST_SHAPES).then_some(Combined {
            parts,
            product,
            statistic,
            shapes,
            beside: Beside::default(),
        })
    }

    /// Of each part its variance, if it has one, and its own shapes.
    fn split<'a>(
        &'a self,
        mut shape: &'a [f64],
    ) -> impl Iterator<Item = (&'a AnyForm, Option<f64>, &'a [f64])> {
        self.parts.iter().enumerate().map(move |(i, part)| {
            let weighted = i > 0 && !self.product;
            let variance = weighted.then(|| shape[0]);
            let (own, rest) = shape[usize::from(weighted)..].split_at(part.shapes().len());
            shape = rest;
            (part, variance, own)
        })
    }
}

impl Form for Combined {
    fn name(&self) -> String {
        let names: Vec<String> = self.parts.iter().map(|part| part.name()).collect();
        let mut name = names.join(if self.product { "*" } else { "+" });
        for (part, place) in [(LINEAR, self.beside.linear), (WHITE, self.beside.white)] {
            if place.is_some() {
                name = format!("{name}+{part}");
            }
        }
        name
    }

    fn beside(&self) -> Beside {
        self.beside
    }

    fn statistic(&self) -> Statistic {
        self.statistic
    }

    fn shapes(&self) -> &[&'static str] {
        &self.shapes
    }

    fn value(&self, s: f64, shape: &[f64]) -> f64 {
        let values =
            self.split(shape).map(|(part, variance, own)| variance.unwrap_or(1.0) * part.value(s, own));
        if self.product { values.product() } else { values.sum() }
    }

    fn slopes(&self, s: f64, _: f64, shape: &[f64], by_shape: &mut [f64]) -> f64 {
        let values: Vec<f64> = self.split(shape).map(|(part, _, own)| part.value(s, own)).collect();
        // What stands beside the statistic has its slopes elsewhere.
        [self.beside.linear, self.beside.white].into_iter().flatten().for_each(|place| by_shape[place] = 0.0);
        let (mut slope, mut place) = (0.0, 0);
        for (i, (part, variance, own)) in self.split(shape).enumerate() {
            // What the part is multiplied by.
            let factor = match self.product {
                true => (0..values.len()).filter(|&j| j != i).map(|j| values[j]).product(),
                false => variance.unwrap_or(1.0),
            };
            if variance.is_some() {
                by_shape[place] = values[i];
                place += 1;
            }
            let mine = &mut by_shape[place..place + own.len()];
            slope += factor * part.slopes(s, values[i], own, mine);
            mine.iter_mut().for_each(|by| *by *= factor);
            place += own.len();
        }
        slope
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_go_there_and_back_and_parts_must_fit() {
        for name in [
            "rbf+rational-quadratic",
            "rbf*matern52+constant",
            "linear+poly2",
            "constant+rbf",
            "cosine*arc-cosine",
        ] {
            assert_eq!(AnyForm::named(name).map(|form| form.name()).as_deref(), Some(name));
        }
        for name in ["rbf+linear", "rbf*matern52+linear+white", "matern52+white", "rbf+two-scale+linear"] {
            assert_eq!(AnyForm::named(name).map(|form| form.name()).as_deref(), Some(name));
        }
        // The parts that are no function of the distance come last.
        assert_eq!(AnyForm::named("white+linear+rbf").unwrap().name(), "rbf+linear+white");
        for name in [
            "rbf*linear",
            "rbf*white",
            "linear+white",
            "white",
            "white+white+rbf",
            "rbf+linear+linear",
            "rbf+",
            "+",
            "rbf*nothing",
            "cosine+linear",
            "constant+constant",
            "two-scale+two-scale+rbf",
        ] {
            assert!(AnyForm::named(name).is_none(), "{name}");
        }
    }

    #[test]
    fn values_are_sums_and_products() {
        let form = AnyForm::named("rbf*matern52+constant").unwrap();
        let [rbf, matern] = ["rbf", "matern52"].map(|name| AnyForm::named(name).unwrap());
        // Lengthscales 1 and 2, the constant's weight 3 and variance 5.
        let want = rbf.value(0.7, &[1.0]) * matern.value(0.7, &[2.0]) + 15.0;
        assert!((form.value(0.7, &[1.0, 2.0, 3.0, 5.0]) - want).abs() < 1e-14);
        assert_eq!(form.shapes().len(), 4);
    }
}
