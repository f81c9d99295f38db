//! Backbones in Burn.
