//! Sets of a given size whose probability is proportional to the product of their members' weights:
//! `p(S | m) = prod_(c in S) w_c / e_m(w)`, e_m the elementary symmetric polynomial, `e_m = sum_(|S| = m) prod_(c in S) w_c`.
//!
//! With the weights in descending order, `r_kj = (sum over sets of j of the first k) / (w_1 ... w_j)` obeys
//! `r_kj = r_(k-1)j + (w_k / w_j) r_(k-1)(j-1)`: sums of positive numbers, no ratio above 1, however small the weights are.

/// Working memory; keep one for each thread.
#[derive(Debug, Default)]
pub(super) struct Symmetric {
    /// Places of the weights, the largest first.
    order: Vec<usize>,
    /// Logarithms of the weights in that order, and of the products of the first.
    log_w: Vec<f64>,
    log_top: Vec<f64>,
    /// `r_kj`, a row of `most + 1` for each k from 0 on.
    r: Vec<f64>,
    most: usize,
}

impl Symmetric {
    /// For weights given by their logarithms, and sets of at most `most` of them.
    pub(super) fn fill(&mut self, log_w: &[f64], most: usize) {
        let n = log_w.len();
        self.most = most.min(n);
        self.order.clear();
        self.order.extend(0..n);
        self.order.sort_by(|&a, &b| log_w[b].total_cmp(&log_w[a]).then(a.cmp(&b)));
        self.log_w.clear();
        self.log_w.extend(self.order.iter().map(|&c| log_w[c]));
        self.log_top.clear();
        self.log_top.push(0.0);
        for j in 0..self.most {
            self.log_top.push(self.log_top[j] + self.log_w[j]);
        }
        let width = self.most + 1;
        self.r.clear();
        self.r.resize((n + 1) * width, 0.0);
        self.r[0] = 1.0;
        for k in 1..=n {
            self.r[k * width] = 1.0;
            for j in 1..=self.most.min(k) {
                let with = self.ratio(k, j) * self.r[(k - 1) * width + j - 1];
                self.r[k * width + j] = self.r[(k - 1) * width + j] + with;
            }
        }
    }

    /// `w_k / w_j` of the k-th and the j-th largest, counted from 1.
    fn ratio(&self, k: usize, j: usize) -> f64 {
        (self.log_w[k - 1] - self.log_w[j - 1]).exp()
    }

    fn last(&self, m: usize) -> f64 {
        self.r[self.log_w.len() * (self.most + 1) + m]
    }

    /// `log e_m`.
    pub(super) fn log_e(&self, m: usize) -> f64 {
        self.last(m).ln() + self.log_top[m]
    }

    /// Adds to `p` the chance of each weight to be in a set whose size is m with chance `sizes[m]`, m up to `most`, times `factor`.
    pub(super) fn add_chances(&self, sizes: &[f64], factor: f64, p: &mut [f64]) {
        let width = self.most + 1;
        // The share of all sets, by size, that runs through r_kj.
        let mut through: Vec<f64> =
            (0..width).map(|m| sizes.get(m).copied().unwrap_or(0.0) / self.last(m)).collect();
        for k in (1..=self.log_w.len()).rev() {
            let mut member = 0.0;
            for j in 1..=self.most.min(k) {
                let with = self.ratio(k, j) * through[j];
                member += with * self.r[(k - 1) * width + j - 1];
                // The sets of j with the k-th are sets of j - 1 without it; `through[j - 1]` was used up for this k already.
                through[j - 1] += with;
            }
            p[self.order[k - 1]] += factor * member;
        }
    }

    /// The places of the m largest weights, ascending.
    pub(super) fn largest(&self, m: usize) -> Vec<usize> {
        let mut places = self.order[..m].to_vec();
        places.sort_unstable();
        places
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Every subset, one by one: `e_m` and the chances of members given the size.
    fn every_subset(w: &[f64], m: usize) -> (f64, Vec<f64>) {
        let (mut e, mut member) = (0.0, vec![0.0; w.len()]);
        for bits in (0..1usize << w.len()).filter(|bits| bits.count_ones() as usize == m) {
            let inside = |c: usize| bits >> c & 1 == 1;
            let product: f64 = (0..w.len()).filter(|&c| inside(c)).map(|c| w[c]).product();
            e += product;
            (0..w.len()).filter(|&c| inside(c)).for_each(|c| member[c] += product);
        }
        (e, member.iter().map(|p| p / e).collect())
    }

    proptest! {
        #[test]
        fn sums_and_chances_are_those_of_every_subset(log_w in prop::collection::vec(-8.0..0.0f64, 2..9), raw in prop::collection::vec(0.0..1.0f64, 9)) {
            let w: Vec<f64> = log_w.iter().map(|l| l.exp()).collect();
            let mut symmetric = Symmetric::default();
            symmetric.fill(&log_w, w.len());
            let sizes = &raw[..=w.len()];
            let (mut want, mut got) = (vec![0.0; w.len()], vec![0.0; w.len()]);
            for (m, size) in sizes.iter().enumerate() {
                let (e, member) = every_subset(&w, m);
                prop_assert!((symmetric.log_e(m) - e.ln()).abs() < 1e-11, "{m}");
                want.iter_mut().zip(&member).for_each(|(want, p)| *want += size * p);
            }
            symmetric.add_chances(sizes, 1.0, &mut got);
            for (got, want) in got.iter().zip(&want) {
                prop_assert!((got - want).abs() < 1e-11, "{got} {want}");
            }
        }
    }

    #[test]
    fn weights_far_below_what_a_float_holds_are_no_trouble() {
        let log_w: Vec<f64> = (0..40).map(|c| -50.0 * f64::from(c)).collect();
        let mut symmetric = Symmetric::default();
        symmetric.fill(&log_w, 40);
        assert!((symmetric.log_e(40) - log_w.iter().sum::<f64>()).abs() < 1e-6);
        let (mut sizes, mut p) = (vec![0.0; 41], vec![0.0; 40]);
        sizes[20] = 1.0;
        symmetric.add_chances(&sizes, 1.0, &mut p);
        assert!((p.iter().sum::<f64>() - 20.0).abs() < 1e-9 && p[19] > 0.999 && p[20] < 1e-3, "{p:?}");
        assert_eq!(symmetric.largest(2), [0, 1]);
    }
}
