#!/usr/bin/env python3
"""Rounding errors of Winograd's algorithm F(m x m, 3 x 3) for several choices of its points.

    python scripts/winograd_points.py [--channels 64] [--tiles 200] [--seed 0]

Needs NumPy. Every step is made in float32 (transforms of the input and of the filter, the products summed over channels, the
transform of the output) and compared with the convolution by its definition in float64. Errors are relative to the root mean
square of the result. The matrices are made from the points by Toom and Cook's interpolation, in float64.
"""
import argparse

import numpy as np

HALF = np.sqrt(0.5)
CHOICES = [
    ("F(4x4, 3x3), points 0, ±1, ±2", 4, [0.0, 1.0, -1.0, 2.0, -2.0]),
    ("F(4x4, 3x3), points 0, ±1, ±1/2", 4, [0.0, 1.0, -1.0, 0.5, -0.5]),
    ("F(4x4, 3x3), points 0, ±1/√2, ±√2 (used here)", 4, [0.0, HALF, -HALF, 2 * HALF, -2 * HALF]),
    ("F(2x2, 3x3), points 0, ±1", 2, [0.0, 1.0, -1.0]),
    ("F(6x6, 3x3), points 0, ±1, ±2, ±1/2", 6, [0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5]),
    ("F(6x6, 3x3), points 0, ±0.6, ±1, ±5/3", 6, [0.0, 0.6, -0.6, 1.0, -1.0, 5 / 3, -5 / 3]),
]
TAPS = 3


def matrices(outputs, points):
    """A [n, outputs], G [n, taps], B [n, n] with y = Aᵀ[(G g) ⊙ (Bᵀ d)], n = outputs + taps - 1; the last point is infinity."""
    n = outputs + TAPS - 1
    rows = lambda width: np.array([[p**k for k in range(width)] for p in points] + [[0.0] * (width - 1) + [1.0]])
    # Interpolation at the points and at infinity: the transposed inverse of the evaluation of a polynomial of n coefficients.
    others = [[p - q for q in points if q != p] for p in points]
    scale = np.array([np.prod(differences) for differences in others] + [1.0])
    b = np.linalg.inv(rows(n)) * scale
    return rows(outputs), rows(TAPS) / scale[:, None], b


def errors(outputs, points, channels, tiles, seed):
    rng = np.random.default_rng(seed)
    n = outputs + TAPS - 1
    d = rng.standard_normal((tiles, channels, n, n)).astype(np.float32)
    g = rng.standard_normal((channels, channels, TAPS, TAPS)).astype(np.float32) / np.float32(np.sqrt(9 * channels))
    a, gm, b = (m.astype(np.float32) for m in matrices(outputs, points))
    v = b.T @ d @ b
    u = gm @ g @ gm.T
    m = np.einsum("tcij,ocij->toij", v, u, optimize=True).astype(np.float32)
    y = (a.T @ m @ a).astype(np.float64)
    windows = np.lib.stride_tricks.sliding_window_view(d.astype(np.float64), (TAPS, TAPS), axis=(2, 3))
    wanted = np.einsum("tcijkl,ockl->toij", windows, g.astype(np.float64), optimize=True)
    size = np.sqrt(np.mean(wanted**2))
    return np.sqrt(np.mean((y - wanted) ** 2)) / size, np.abs(y - wanted).max() / size


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--channels", type=int, default=64)
    parser.add_argument("--tiles", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    print(f"{'':48} {'rms':>8} {'largest':>8}  multiplications an output")
    for name, outputs, points in CHOICES:
        rms, largest = errors(outputs, points, options.channels, options.tiles, options.seed)
        print(f"{name:48} {rms:8.1e} {largest:8.1e}  {((outputs + TAPS - 1) / outputs) ** 2:.2f} of 9")


main()
