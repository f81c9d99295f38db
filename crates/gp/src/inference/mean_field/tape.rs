//! T sweeps recorded, and their adjoint. Every objective uses this one tape: it runs the sweeps, puts its own cotangents on
//! the final state ([`Top`]), and gets those of the prior back ([`PriorBar`]), by unrolling or by the implicit rule.

use faer::Mat;

use super::local::{Local, LocalBar};
use super::sweep::{State, Sweep, blocks};
use super::{Start, Stop, Updates};
use crate::gaussian::{Block, BlockAdjoint};
use crate::task::{Gradient, Standard, Task};
use crate::{Error, Result};

/// Sweeps keep their Gaussian blocks up to this many numbers in all; beyond, the reverse pass factors again.
const KEEP: usize = 1 << 23;

/// Recorded sweeps of one task, in units of x = f/tau.
#[derive(Debug)]
pub(crate) struct Tape<'t> {
    task: &'t Task,
    x: Standard<'t>,
    order: Updates,
    start: Start,
    sweeps: Vec<Sweep>,
    last: State,
}

/// Cotangents of the final state of a tape: what an objective puts on top.
#[derive(Debug, Clone)]
pub(crate) struct Top {
    /// Of the final means, [N, C].
    pub mu: Mat<f64>,
    /// Of the final variances, [N, C].
    pub v: Mat<f64>,
    /// Of the linear term of the last Gaussian block beyond its part in the moments, [N, C].
    pub b: Mat<f64>,
    /// Of the precisions of the last Gaussian block beyond their part in the moments, [N, C].
    pub w: Mat<f64>,
    /// Of the local factors of the last sweep beyond their part in the Gaussian block.
    pub local: LocalBar,
    /// Of each kernel matrix, directly: C times [N, N].
    pub k: Vec<Mat<f64>>,
    /// Of the prior mean, directly, [N, C].
    pub a: Mat<f64>,
}

/// Cotangents of the standardised prior, and of the start where it is given.
#[derive(Debug, Clone)]
pub(crate) struct PriorBar {
    /// Of each kernel matrix, symmetric.
    pub k: Vec<Mat<f64>>,
    /// Of the prior mean, [N, C].
    pub a: Mat<f64>,
    /// Of a given start's means and variances; `None` when the start is the prior, whose share is in `k` and `a`.
    pub start: Option<(Mat<f64>, Mat<f64>)>,
}

/// Cotangents on their way from one sweep to the one before.
struct Carry {
    mu: Mat<f64>,
    v: Mat<f64>,
    local: LocalBar,
}

impl Top {
    /// All zero.
    pub(crate) fn zeros(n: usize, c: usize) -> Self {
        let zero = || Mat::zeros(n, c);
        let k = (0..c).map(|_| Mat::zeros(n, n)).collect();
        Self { mu: zero(), v: zero(), b: zero(), w: zero(), local: LocalBar::zeros(n, c), k, a: zero() }
    }
}

impl<'t> Tape<'t> {
    /// The sweeps to a number ([`Tape::record`]) or to a tolerance ([`Tape::converge`]).
    pub(crate) fn new(task: &'t Task, order: Updates, start: &Start, stop: Stop) -> Result<Self> {
        match stop {
            Stop::Steps(steps) => Self::record(task, order, start, steps),
            Stop::Tolerance { tol, max_steps } => Self::converge(task, order, start, tol, max_steps),
        }
    }

    /// The adjoint of a tape that was stopped so: [`Tape::unroll`] or [`Tape::implicit`].
    pub(crate) fn back(&self, top: Top, stop: Stop) -> Result<PriorBar> {
        match stop {
            Stop::Steps(_) => self.unroll(top),
            Stop::Tolerance { max_steps, .. } => self.implicit(top, max_steps),
        }
    }

    /// Runs `steps >= 1` sweeps and keeps what the adjoint needs.
    pub(crate) fn record(task: &'t Task, order: Updates, start: &Start, steps: usize) -> Result<Self> {
        if steps == 0 {
            return Err(Error::OutOfRange { what: "steps", value: 0.0, must: "at least 1" });
        }
        let x = task.standardise();
        let numbers = 2 * steps * x.classes() * x.points() * x.points();
        let mut state = State::new(&x, start, task.tau())?;
        let mut sweeps: Vec<Sweep> = Vec::with_capacity(steps);
        let never = std::sync::atomic::AtomicBool::new(false);
        for _ in 0..steps {
            let local = state.local(order, x.y);
            let sweep = Sweep::run(&x, order, state, local, &never)?;
            state = sweep.output();
            if let Some(before) = sweeps.last_mut().filter(|_| numbers > KEEP) {
                before.blocks = Vec::new();
            }
            sweeps.push(sweep);
        }
        Ok(Self { task, x, order, start: start.clone(), sweeps, last: state })
    }

    /// Runs sweeps to a fixed point and keeps the last one only: what [`Tape::implicit`] needs. Not reaching the tolerance is
    /// an error here, for the gradient would be wrong.
    pub(crate) fn converge(
        task: &'t Task,
        order: Updates,
        start: &Start,
        tol: f64,
        max_steps: usize,
    ) -> Result<Self> {
        let fit = super::infer(task, order, start, Stop::Tolerance { tol, max_steps })?;
        if !fit.converged {
            return Err(Error::NotConverged {
                what: "mean-field inference",
                steps: fit.steps,
                change: fit.change,
                tol,
            });
        }
        let x = task.standardise();
        let sweep = fit.into_sweep();
        let last = sweep.output();
        Ok(Self { task, x, order, start: start.clone(), sweeps: vec![sweep], last })
    }

    /// The temperature.
    pub(crate) fn tau(&self) -> f64 {
        self.task.tau()
    }

    /// The task in x-units.
    pub(crate) fn x(&self) -> &Standard<'t> {
        &self.x
    }

    /// The final means, [N, C].
    pub(crate) fn mu(&self) -> &Mat<f64> {
        &self.last.mu
    }

    /// The final variances, [N, C].
    pub(crate) fn v(&self) -> &Mat<f64> {
        &self.last.v
    }

    /// The Gaussian block of each class, of the last sweep.
    pub(crate) fn blocks(&self) -> &[Block] {
        &self.top_sweep().blocks
    }

    /// The local factors that led to the final q(F).
    pub(crate) fn local(&self) -> &Local {
        &self.top_sweep().local
    }

    /// `sum_c KL(q(x^c) || N(a^c, K^c))` of the final q(F).
    pub(crate) fn kl(&self) -> f64 {
        self.top_sweep().kl()
    }

    /// A top with the cotangents of `-KL`: `mubar = -g`, `vbar = w/2`, directly `Kbar = (g g' - R)/2`, `abar = g`
    /// (those of b and w cancel).
    pub(crate) fn minus_kl(&self) -> Top {
        let (n, c) = (self.x.points(), self.x.classes());
        let mut top = Top::zeros(n, c);
        for (j, block) in self.blocks().iter().enumerate() {
            for i in 0..n {
                top.mu[(i, j)] = -block.g[i];
                top.v[(i, j)] = 0.5 * block.w[i];
                top.a[(i, j)] = block.g[i];
            }
            block.add_evidence_slope(0.5, &mut top.k[j]);
        }
        top
    }

    /// The adjoint of all sweeps and of the start: for each sweep, last to first, that of its Gaussian blocks
    /// ([`crate::gaussian::BlockAdjoint`]) and of its local update ([`Local::pullback`]); then `abar += mubar`, `diag Kbar += vbar` where it
    /// starts from the prior.
    pub(crate) fn unroll(&self, top: Top) -> Result<PriorBar> {
        let Top { mu, v, b, w, local, mut k, mut a } = top;
        let never = std::sync::atomic::AtomicBool::new(false);
        let (mut carry, mut direct) = (Carry { mu, v, local }, Some((b, w)));
        for sweep in self.sweeps.iter().rev() {
            let again;
            let blocks = if sweep.blocks.is_empty() {
                again = blocks(&self.x, self.order, &sweep.input, &sweep.local, &never)?;
                &again
            } else {
                &sweep.blocks
            };
            let mut bars = direct.take().unwrap_or_else(|| self.zeros());
            for (c, block) in blocks.iter().enumerate() {
                let (mubar, vbar) = (carry.mu.col_as_slice(c), carry.v.col_as_slice(c));
                let adjoint = block.adjoint(&self.x.k[c]);
                adjoint.prior(mubar, vbar, &mut k[c], a.col_as_slice_mut(c));
                adjoint.add_sites(mubar, vbar, bars.0.col_as_slice_mut(c), bars.1.col_as_slice_mut(c));
            }
            carry = self.through_local(sweep, carry.local, bars);
        }
        Ok(self.leave(k, a, carry))
    }

    /// The adjoint at a fixed point: that of the last sweep, repeated until its cotangents are `1e-13` of the first.
    pub(crate) fn implicit(&self, top: Top, max_steps: usize) -> Result<PriorBar> {
        const TOL: f64 = 1e-13;
        let Top { mu, v, b, w, local, mut k, mut a } = top;
        let sweep = self.top_sweep();
        let adjoints: Vec<BlockAdjoint<'_>> =
            sweep.blocks.iter().zip(&self.x.k).map(|(b, k)| b.adjoint(k)).collect();
        let (mut mu_sum, mut v_sum) = (mu.clone(), v.clone());
        let (mut carry, mut direct) = (Carry { mu, v, local }, Some((b, w)));
        let (mut largest, mut change) = (0.0f64, f64::INFINITY);
        for _ in 0..max_steps {
            let mut bars = direct.take().unwrap_or_else(|| self.zeros());
            for (c, adjoint) in adjoints.iter().enumerate() {
                let (mubar, vbar) = (carry.mu.col_as_slice(c), carry.v.col_as_slice(c));
                adjoint.add_sites(mubar, vbar, bars.0.col_as_slice_mut(c), bars.1.col_as_slice_mut(c));
            }
            carry = self.through_local(sweep, carry.local, bars);
            mu_sum += &carry.mu;
            v_sum += &carry.v;
            // Means and variances weigh as their influence on q: the variances by their own size.
            let size = carry.mu.norm_max().max((0..v_sum.ncols()).fold(0.0f64, |m, c| {
                let of_class = carry.v.col_as_slice(c).iter().zip(self.last.v.col_as_slice(c));
                of_class.fold(m, |m, (bar, v)| m.max((bar * v.sqrt()).abs()))
            }));
            largest = largest.max(size);
            change = if largest > 0.0 { size / largest } else { 0.0 };
            if change <= TOL {
                break;
            }
        }
        if change.is_nan() || change > TOL {
            return Err(Error::NotConverged { what: "implicit adjoint", steps: max_steps, change, tol: TOL });
        }
        for (c, adjoint) in adjoints.iter().enumerate() {
            adjoint.prior(mu_sum.col_as_slice(c), v_sum.col_as_slice(c), &mut k[c], a.col_as_slice_mut(c));
        }
        // A fixed point does not remember its start.
        Ok(PriorBar { k, a, start: None })
    }

    /// The gradient in the task's units. A start given in f-units moves with tau: `mu0/tau`, `v0/tau^2`.
    pub(crate) fn gradient(&self, value: f64, bar: PriorBar) -> Gradient {
        let mut gradient = self.task.gradient(value, bar.k, bar.a);
        gradient.residual = Some(self.residual());
        if let (Some((mu0bar, v0bar)), Start::Given { mu0, v0, .. }) = (&bar.start, &self.start) {
            let tau = self.task.tau();
            let mean = crate::linalg::inner(mu0bar, mu0) / (tau * tau);
            let variance = 2.0 * crate::linalg::inner(v0bar, v0) / (tau * tau * tau);
            gradient.dtau -= mean + variance;
        }
        gradient
    }

    /// What the last sweep moved a mean by, relative to the largest mean.
    fn residual(&self) -> f64 {
        let moved = (self.mu() - &self.top_sweep().input.mu).norm_max();
        moved / self.mu().norm_max().max(f64::MIN_POSITIVE)
    }

    fn top_sweep(&self) -> &Sweep {
        &self.sweeps[self.sweeps.len() - 1]
    }

    /// Two times [N, C] zeros.
    fn zeros(&self) -> (Mat<f64>, Mat<f64>) {
        let zeros = || Mat::zeros(self.x.points(), self.x.classes());
        (zeros(), zeros())
    }

    /// From the cotangents of a sweep's b and w, and of its sites beyond these, to those of its input.
    fn through_local(&self, sweep: &Sweep, mut local: LocalBar, (bbar, wbar): (Mat<f64>, Mat<f64>)) -> Carry {
        let mut before = LocalBar::zeros(self.x.points(), self.x.classes());
        local.b += bbar;
        // In the paper's order the block used the omega of the sweep before.
        if self.order.lags() {
            before.w = wbar
        } else {
            local.w += wbar
        }
        let input = &sweep.input;
        let bar = sweep.local.pullback(self.order, &input.alpha, self.x.y, &local);
        before.alpha = bar.alpha;
        Carry { mu: bar.mu, v: bar.v, local: before }
    }

    fn leave(&self, mut k: Vec<Mat<f64>>, mut a: Mat<f64>, carry: Carry) -> PriorBar {
        if let Start::Given { .. } = self.start {
            return PriorBar { k, a, start: Some((carry.mu, carry.v)) };
        }
        // mu0 = a, v0 = diag K
        a += &carry.mu;
        for (c, k) in k.iter_mut().enumerate() {
            for i in 0..k.nrows() {
                k[(i, i)] += carry.v[(i, c)];
            }
        }
        PriorBar { k, a, start: None }
    }
}
