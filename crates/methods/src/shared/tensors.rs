//! Between lists on the host and tensors on a device.

use crate::shared::scores::Scores;
use burn::tensor::{Device, Int, Tensor, TensorData};
use siskin_nn::{Features, to_host};

/// The given rows of a table, in the given order.
pub(crate) fn rows(table: &Tensor<2>, rows: &[usize]) -> Tensor<2> {
    let indices: Vec<i32> = rows.iter().map(|&r| r as i32).collect();
    let indices = Tensor::<1, Int>::from_data(TensorData::new(indices, [rows.len()]), &table.device());
    table.clone().select(0, indices)
}

/// 1 at each row's label, else 0, `[labels, way]`.
pub(crate) fn one_hot(labels: &[usize], way: usize, device: &Device) -> Tensor<2> {
    let mut values = vec![0.0; labels.len() * way];
    for (row, &label) in labels.iter().enumerate() {
        values[row * way + label] = 1.0;
    }
    Features { values, rows: labels.len(), dim: way }.to_tensor(device)
}

/// The loss of scores [rows, way] as a recorded step gives it: with its value and with how often the highest score is at `truth`.
pub(crate) fn with_accuracy(
    scores: Tensor<2>,
    truth: &[usize],
    loss: impl FnOnce(Tensor<2>) -> Tensor<1>,
) -> (Tensor<1>, (f64, f64)) {
    let way = scores.dims()[1];
    let host = Scores { values: to_host(scores.clone().inner()).values, way };
    let loss = loss(scores);
    let value = scalar(&loss);
    (loss, (value, host.accuracy(truth)))
}

/// The value of a tensor of one number.
pub(crate) fn scalar(x: &Tensor<1>) -> f64 {
    to_host(x.clone().inner().reshape([1, 1])).values[0]
}
