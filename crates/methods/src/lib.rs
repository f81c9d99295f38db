//! Few-shot methods, one file each.
