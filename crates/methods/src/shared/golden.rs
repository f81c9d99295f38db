//! Values that PyTorch computed, for the tests: `python scripts/goldens_methods.py` writes them.

use siskin_nn::Features;

/// One file of golden values.
pub(crate) struct Golden(serde_json::Value);

impl Golden {
    /// Parses the text of a file.
    pub(crate) fn parse(text: &str) -> Golden {
        Golden(serde_json::from_str(text).unwrap())
    }

    /// The numbers named so.
    pub(crate) fn f64s(&self, name: &str) -> Vec<f64> {
        let values = self.0[name].as_array().unwrap_or_else(|| panic!("no golden values {name}"));
        values.iter().map(|v| v.as_f64().unwrap()).collect()
    }

    /// The one number named so.
    pub(crate) fn f64(&self, name: &str) -> f64 {
        self.0[name].as_f64().unwrap_or_else(|| self.f64s(name)[0])
    }

    /// The counts named so.
    pub(crate) fn usizes(&self, name: &str) -> Vec<usize> {
        self.f64s(name).iter().map(|&v| v as usize).collect()
    }
    /// The lists of counts named so.
    pub(crate) fn lists(&self, name: &str) -> Vec<Vec<usize>> {
        serde_json::from_value(self.0[name].clone()).unwrap()
    }

    /// The table of `dim` columns named so.
    pub(crate) fn table(&self, name: &str, dim: usize) -> Features {
        let values = self.f64s(name);
        Features { rows: values.len() / dim, dim, values }
    }
}

/// Panics where `found` is not `wanted` up to `tolerance` times the largest value.
pub(crate) fn assert_close(what: &str, found: &[f64], wanted: &[f64], tolerance: f64) {
    assert_eq!(found.len(), wanted.len(), "{what}");
    let largest = wanted.iter().fold(0.0f64, |m, v| m.max(v.abs()));
    for (i, (f, w)) in found.iter().zip(wanted).enumerate() {
        assert!((f - w).abs() <= tolerance * largest, "{what}[{i}]: {f} is not {w}");
    }
}
