#!/usr/bin/env python3
"""Conv4 of PyTorch and of siskin-cpu, alternately in one run on the same number of threads.

    cargo build --release -p siskin-cpu --example conv4
    python scripts/bench_conv_vs_torch.py target/release/examples/conv4 --threads 1 --side 84

Prints medians of wall time and CPU time and their ratios. CPU time is what counts on one thread and on a busy
machine; on several threads PyTorch's waiting threads spin, so compare wall time there. Needs only torch.
"""

import argparse
import json
import statistics
import subprocess
import time

import torch
from torch import nn


def conv4(channels):
    def block(c):
        return [nn.Conv2d(c, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(2)]

    return nn.Sequential(*block(channels), *block(64), *block(64), *block(64), nn.Flatten())


def timed(work):
    wall, cpu = time.perf_counter(), time.process_time()
    result = work()
    return result, {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}


class Torch:
    def __init__(self, args, channels_last):
        self.net = conv4(args.channels)
        self.x = torch.randn(args.images, args.channels, args.side, args.side)
        if channels_last:
            self.net = self.net.to(memory_format=torch.channels_last)
            self.x = self.x.contiguous(memory_format=torch.channels_last)
        self.step()

    def step(self):
        self.net.train()
        self.net.zero_grad()
        y, forward = timed(lambda: self.net(self.x))
        dy = torch.randn_like(y)
        _, backward = timed(lambda: y.backward(dy))
        self.net.eval()
        with torch.no_grad():
            _, evaluation = timed(lambda: self.net(self.x))
        return {"forward": forward, "backward": backward, "eval": evaluation}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary", help="the conv4 example")
    parser.add_argument("--images", type=int, default=85)
    parser.add_argument("--side", type=int, default=84)
    parser.add_argument("--channels", type=int)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=7)
    args = parser.parse_args()
    if args.channels is None:
        args.channels = 1 if args.side == 28 else 3
    torch.set_num_threads(args.threads)
    nets = {"torch": Torch(args, False), "torch channels_last": Torch(args, True)}
    rounds = {name: [] for name in [*nets, "siskin"]}
    for _ in range(args.rounds):
        for name, net in nets.items():
            rounds[name].append(net.step())
        numbers = [args.images, args.side, args.channels, args.threads, 2]
        out = subprocess.run([args.binary, *map(str, numbers)], check=True, capture_output=True, text=True).stdout
        rounds["siskin"] += [json.loads(line) for line in out.splitlines()]

    def median(name, parts, clock):
        return statistics.median(sum(r[p][clock] for p in parts) for r in rounds[name])

    isa = rounds["siskin"][0]["isa"]
    print(f"torch {torch.__version__}, siskin with {isa}, {args.threads} thread(s), "
          f"{args.images} images {args.channels}x{args.side}x{args.side}, medians of {args.rounds} rounds")
    print(f"{'':22}{'':20}{'wall ms':>10}{'cpu ms':>10}{'wall x':>9}{'cpu x':>9}")
    passes = {"train": ["forward", "backward"], "forward": ["forward"], "backward": ["backward"], "eval": ["eval"]}
    for label, parts in passes.items():
        own = {clock: median("siskin", parts, clock) for clock in ("wall", "cpu")}
        for name in rounds:
            t = {clock: median(name, parts, clock) for clock in ("wall", "cpu")}
            ratios = "" if name == "siskin" else f"{t['wall'] / own['wall']:9.2f}{t['cpu'] / own['cpu']:9.2f}"
            print(f"{label:22}{name:20}{t['wall'] * 1e3:10.1f}{t['cpu'] * 1e3:10.1f}{ratios}")


if __name__ == "__main__":
    main()
