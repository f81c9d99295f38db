//! A row of blocks with its loss in f64 by definition, and the gradients that it may have in f32.
//!
//! The loss is continuous in the weights, its gradient is not: where two pixels of a pool are equal or the input of a ReLU is
//! 0, it jumps. Rounding decides there, and every device rounds in its own way.

use crate::twin::{Forward, Grads, Params, block, block_backward, wide};
use crate::{F32, distance, head};
use siskin_cpu::BlockSpec;
use siskin_nn::{Architecture, Features, HeadLoss, NamedTensor, SentPart};

/// The forward and the backward pass at some weights.
#[derive(Clone)]
pub(crate) struct Oracle {
    specs: Vec<BlockSpec>,
    params: Vec<Params>,
    /// What each block reads, and its `[N, H, W]`.
    inputs: Vec<(Vec<f64>, [usize; 3])>,
    passes: Vec<Forward>,
    /// The slope of the loss in what each block gives.
    slopes: Vec<Vec<f64>>,
    pub(crate) loss: f64,
    /// By block.
    gradients: Vec<Grads>,
}

/// An output of a block whose gradient goes to another pixel, or to none, in f32 than in f64.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Jump {
    /// From 0.
    pub(crate) block: usize,
    output: usize,
    source: Option<usize>,
}

/// Padding and pooling of the blocks; nothing for a network that is no row of blocks.
fn shapes(architecture: Architecture) -> &'static [(usize, bool)] {
    match architecture {
        Architecture::Conv4 | Architecture::Conv4S => &[(1, true); 4],
        Architecture::Conv6 => &[(1, true), (1, true), (1, true), (1, true), (1, false), (1, false)],
        Architecture::Conv4NP => &[(0, true), (0, true), (1, false), (1, false)],
        _ => &[],
    }
}

impl Oracle {
    /// `model`: the tensors of a network's state. `shape`: `[N, C, H, W]` of the images. None where the network is no row of
    /// blocks.
    pub(crate) fn new(
        architecture: Architecture,
        model: &[NamedTensor],
        images: &[f32],
        [n, c, h, w]: [usize; 4],
    ) -> Option<Self> {
        let value =
            |name: String| model.iter().find(|t| t.name == name).expect("every block has it").values.clone();
        let (mut specs, mut params, mut inputs, mut passes) = (vec![], vec![], vec![], vec![]);
        let (mut x, mut shape, mut c_in) = (wide(images), [n, h, w], c);
        for (i, &(padding, pool)) in shapes(architecture).iter().enumerate() {
            let [weight, bias, gamma, beta] = ["conv.weight", "conv.bias", "norm.weight", "norm.bias"]
                .map(|name| value(format!("blocks.{i}.{name}")));
            let spec = BlockSpec { c_in, c_out: gamma.len(), padding, pool };
            let p = Params { weight, bias, gamma, beta };
            let f = block(&spec, &p, &x, shape, None);
            inputs.push((std::mem::replace(&mut x, f.y.clone()), shape));
            let side = |side: usize| (side + 2 * padding - 2) / if pool { 2 } else { 1 };
            (shape, c_in) = ([n, side(shape[1]), side(shape[2])], spec.c_out);
            specs.push(spec);
            params.push(p);
            passes.push(f);
        }
        let features = Features { dim: x.len() / n, rows: n, values: x };
        let HeadLoss { loss, dfeatures: mut slope, .. } = head(&features).expect("it takes all features");
        let blocks = specs.len();
        let mut oracle = Self { specs, params, inputs, passes, slopes: vec![], loss, gradients: vec![] };
        for i in (0..blocks).rev() {
            let gradient = oracle.backward(i, &slope);
            oracle.slopes.insert(0, std::mem::replace(&mut slope, gradient.x.clone()));
            oracle.gradients.insert(0, gradient);
        }
        (blocks > 0).then_some(oracle)
    }

    /// Block `i` backwards from the slope in what it gives.
    fn backward(&self, i: usize, slope: &[f64]) -> Grads {
        let (x, shape) = &self.inputs[i];
        block_backward(&self.specs[i], &self.params[i], x, *shape, &self.passes[i], slope)
    }

    /// How far features are from those here, relative to the largest.
    pub(crate) fn features_error(&self, found: &[f64]) -> f64 {
        distance(found, &self.passes[self.passes.len() - 1].y)
    }

    /// The same of batch statistics, mean and unbiased variance of each batch-norm.
    pub(crate) fn statistics_error(&self, found: &SentPart) -> f64 {
        assert_eq!(found.statistics.len(), self.passes.len());
        let of = |([mean, variance], i): (&[Vec<f32>; 2], usize)| {
            let (f, spec, (_, [n, h, w])) = (&self.passes[i], &self.specs[i], &self.inputs[i]);
            let count = (n * (h + 2 * spec.padding - 2) * (w + 2 * spec.padding - 2)) as f64;
            let unbiased: Vec<f64> = f.var.iter().map(|v| v * count / (count - 1.0)).collect();
            distance(&wide(mean), &f.mean).max(distance(&wide(variance), &unbiased))
        };
        found.statistics.iter().zip(0..).map(of).fold(0.0, f64::max)
    }

    /// The same of a gradient.
    pub(crate) fn gradient_error(&self, found: &SentPart) -> f64 {
        distance(&wide(&found.gradient), &self.gradient())
    }

    fn gradient(&self) -> Vec<f64> {
        self.gradient_with(&[])
    }

    /// All parameters in order, filters, bias, gain and shift of each block, with changes of the first blocks. A bias before a
    /// batch-norm has no effect.
    fn gradient_with(&self, changes: &[Grads]) -> Vec<f64> {
        let mut all = self.gradients.clone();
        all.iter_mut().zip(changes).for_each(|(g, change)| add(g, change));
        let four = |(g, p): (Grads, &Params)| [g.weight, vec![0.0; p.bias.len()], g.gamma, g.beta].concat();
        all.into_iter().zip(&self.params).flat_map(four).collect()
    }

    /// Goes to the side of every jump on which `found` is, wherever rounding leaves the choice: again and again the jump that
    /// brings the gradient nearest to it, until none does. Returns how many choices there were, and what was changed.
    pub(crate) fn choose_as(&mut self, found: &SentPart) -> (usize, Vec<Jump>) {
        let mut choices: Vec<Jump> = vec![];
        for (block, pass) in self.passes.iter().enumerate() {
            let error = F32 * pass.largest_pre();
            let others =
                |output| pass.other_sources(output, error).into_iter().map(move |source| (output, source));
            let all = (0..pass.source.len()).flat_map(others);
            choices.extend(all.map(|(output, source)| Jump { block, output, source }));
        }
        let mut changes: Vec<Vec<Grads>> = choices.iter().map(|jump| self.changes(jump)).collect();
        let (mut jumps, mut nearest) = (vec![], self.apart(&[], found));
        loop {
            let distances = changes.iter().map(|changes| self.apart(changes, found));
            let Some((best, distance)) = distances.enumerate().min_by(|a, b| a.1.total_cmp(&b.1)) else {
                break;
            };
            if distance >= nearest {
                break;
            }
            nearest = distance;
            let jump = choices[best].clone();
            self.take(&jump, &changes[best]);
            // What lies below it, or at the same output, changes otherwise now.
            for (other, changes) in choices.iter().zip(&mut changes) {
                if other.block < jump.block || (other.block, other.output) == (jump.block, jump.output) {
                    *changes = self.changes(other);
                }
            }
            jumps.push(jump);
        }
        (choices.len(), jumps)
    }

    /// Squared Euclidean distance of the gradient with these changes.
    fn apart(&self, changes: &[Grads], found: &SentPart) -> f64 {
        let gradient = self.gradient_with(changes);
        gradient.iter().zip(&found.gradient).map(|(a, b)| (a - f64::from(*b)).powi(2)).sum()
    }

    /// How the gradients of the blocks up to that of a jump change on its other side. They are linear in the slopes: only what
    /// changes is taken back through the blocks.
    fn changes(&mut self, &Jump { block, output, source }: &Jump) -> Vec<Grads> {
        let mut slope = vec![0.0; self.slopes[block].len()];
        slope[output] = -self.slopes[block][output];
        let mut change = self.backward(block, &slope);
        let before = std::mem::replace(&mut self.passes[block].source[output], source);
        slope[output] = self.slopes[block][output];
        add(&mut change, &self.backward(block, &slope));
        self.passes[block].source[output] = before;
        let mut changes = vec![change];
        for i in (0..block).rev() {
            changes.insert(0, self.backward(i, &changes[0].x));
        }
        changes
    }

    fn take(&mut self, jump: &Jump, changes: &[Grads]) {
        self.passes[jump.block].source[jump.output] = jump.source;
        for (i, change) in changes.iter().enumerate() {
            add(&mut self.gradients[i], change);
            if i > 0 {
                self.slopes[i - 1].iter_mut().zip(&change.x).for_each(|(slope, x)| *slope += x);
            }
        }
    }
}

fn add(sum: &mut Grads, more: &Grads) {
    let all = [
        (&mut sum.weight, &more.weight),
        (&mut sum.gamma, &more.gamma),
        (&mut sum.beta, &more.beta),
        (&mut sum.x, &more.x),
    ];
    for (sum, more) in all {
        sum.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
    }
}
