//! Single equations and the pieces they are computed by, for programs that check or time them: golden values, values of the released
//! code, long chains, benchmarks. A classifier needs none of them.

pub use crate::gaussian::{Block, BlockAdjoint, SignedBlock};
pub use crate::inference::exact::LabelRegression;
pub use crate::inference::gibbs::{LogisticSoftmaxGibbs, OneVsEachGibbs, hermite_rule};
pub use crate::inference::laplace::Laplace;
pub use crate::inference::mean_field::{Fit, Local, LocalBar, MarginalsBar, Start, infer};
pub use crate::inference::natural::{Natural, natural};
pub use crate::inference::one_vs_each::{Differences, OveMeanField};
pub use crate::objective::direct::{direct, natural_bound};
pub use crate::objective::elbo::bound;
pub use crate::objective::predictive::predictive;
pub use crate::polya_gamma::PolyaGamma;
pub use crate::posterior::Blocks;
pub use crate::quadrature::expected::{ExpectedLogLik, expected_log_lik};
pub use crate::quadrature::log_sigmoid::e_log_sigmoid;
pub use crate::quadrature::log_z::LogZ;
pub use crate::quadrature::probabilities::{Predictive, Slope};
pub use crate::special::{
    Tilt, digamma, gamma_entropy, ln_gamma, log_minus_digamma1p, log2cosh_half, one_minus_trigamma1p,
    pg_mean1, pg_var1, solve_u, trigamma,
};
