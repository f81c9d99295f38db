//! From files to episodes: sources, images, cache, splits, sampling.
