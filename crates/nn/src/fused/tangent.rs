//! Batch-norm, ReLU and max-pool of values and tangents as one operation of Burn's autodiff.

use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::NoCheckpointing;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::{Autodiff, Flex};
use burn::tensor::{Device, Tensor};
use siskin_cpu::{TangentGrads, TangentNorm};

use crate::Error;
use crate::dual::Dual;
use crate::fused::flex::{FlexTensor, dims, primitive, register, slice, tensor};

/// The block after its convolution, or `None` on another device than the CPU. `z`: [N, C, H, W]; tangents of gain and
/// shift are constants.
pub(crate) fn tangent_norm(
    z: &Dual<4>,
    gain: &Dual<1>,
    shift: &Dual<1>,
    pool: bool,
) -> Result<Option<Dual<4>>, Error> {
    if z.value.device().inner() != Device::flex() {
        return Ok(None);
    }
    let maps = [&z.value, &z.tangent].map(|t| primitive::<Autodiff<Flex>, 4>(t.clone().autodiff()));
    let vectors = [&gain.value, &shift.value].map(|t| primitive::<Autodiff<Flex>, 1>(t.clone().autodiff()));
    let nodes = [maps[0].node(), maps[1].node(), vectors[0].node(), vectors[1].node()];
    let constant = |t: &Tensor<1>| primitive::<Flex, 1>(t.clone().inner()).to_contiguous();
    let kept = Kept {
        maps: maps.map(|t| t.into_primitive().to_contiguous()),
        vectors: vectors.map(|t| t.into_primitive().to_contiguous()),
        tangents: [&gain.tangent, &shift.tangent].map(constant),
        pool,
    };
    let [n, c, h, w] = dims(&kept.maps[0]);
    let (oh, ow) = kept.norm().output_size(h, w);
    let mut out = vec![0.0; 2 * n * c * oh * ow];
    kept.norm().forward(slice(&kept.maps[0]), slice(&kept.maps[1]), [n, c, h, w], &mut out)?;
    let out = tensor(out, [2 * n, c, oh, ow]);
    let out = match NormBackward.prepare::<NoCheckpointing>(nodes).compute_bound().stateful() {
        OpsKind::Tracked(prepared) => prepared.finish(kept, out),
        OpsKind::UnTracked(prepared) => prepared.finish(out),
    };
    let both = Tensor::<4>::from_primitive::<Autodiff<Flex>>(out);
    Ok(Some(Dual { value: both.clone().narrow(0, 0, n), tangent: both.narrow(0, n, n) }))
}

/// What the backward pass needs.
#[derive(Clone, Debug)]
struct Kept {
    maps: [FlexTensor; 2],
    vectors: [FlexTensor; 2],
    tangents: [FlexTensor; 2],
    pool: bool,
}

impl Kept {
    fn norm(&self) -> TangentNorm<'_> {
        let ([gamma, beta], [gamma_dot, beta_dot]) = (&self.vectors, &self.tangents);
        TangentNorm {
            gamma: slice(gamma),
            gamma_dot: slice(gamma_dot),
            beta: slice(beta),
            beta_dot: slice(beta_dot),
            pool: self.pool,
        }
    }
}

#[derive(Debug)]
struct NormBackward;

impl Backward<Flex, 4> for NormBackward {
    type State = Kept;

    fn backward(self, ops: Ops<Kept, 4>, grads: &mut Gradients, _checkpointer: &mut Checkpointer) {
        let dout = grads.consume::<Flex>(&ops.node).to_contiguous();
        let kept = ops.state;
        let [z, z_dot] = &kept.maps;
        let [mut dz, mut dz_dot] = [z, z_dot].map(|t| vec![0.0; slice(t).len()]);
        let [mut dgamma, mut dbeta] = kept.vectors.each_ref().map(|t| vec![0.0; slice(t).len()]);
        let out = TangentGrads { z: &mut dz, z_dot: &mut dz_dot, gamma: &mut dgamma, beta: &mut dbeta };
        kept.norm()
            .backward(slice(z), slice(z_dot), dims(z), slice(&dout), out)
            .expect("shapes were checked by the forward pass");
        let inputs = [z, z_dot, &kept.vectors[0], &kept.vectors[1]];
        let values = [dz, dz_dot, dgamma, dbeta];
        for ((node, input), value) in ops.parents.into_iter().zip(inputs).zip(values) {
            if let Some(node) = node {
                register(grads, node.id, input, value);
            }
        }
    }
}
