//! Convolution blocks on plain `f32` slices: the hot path of training on a CPU.
