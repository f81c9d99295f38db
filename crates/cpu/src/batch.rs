//! Images that go through a network in one pass.

/// Images as one slice `[n, c, h, w]`.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a> {
    /// Their values.
    pub values: &'a [f32],
    /// How many they are.
    pub n: usize,
    /// Height.
    pub h: usize,
    /// Width.
    pub w: usize,
}

impl<'a> Batch<'a> {
    /// From the values and `[n, h, w]`.
    pub fn new(values: &'a [f32], [n, h, w]: [usize; 3]) -> Self {
        Self { values, n, h, w }
    }
}
