#!/usr/bin/env python3
"""PyTorch's Conv4 and `siskin bench`, alternately in one run on the same number of threads.

    cargo build --release
    python scripts/bench_vs_torch.py --threads 1
    python scripts/bench_vs_torch.py --threads 2

For each case: PyTorch's backbone alone (forward, backward and Adam in training; forward in evaluation), in its default layout
and in channels_last, beside siskin's *whole* episode (network, Gaussian process, optimiser) and its network alone. Ratios of
medians over rounds, PyTorch / siskin. On one thread compare CPU time; on several, PyTorch's waiting threads spin, so
compare wall time. Needs only torch.
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
    work()
    return {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}


class Torch:
    """Conv4 of PyTorch on the images of one case."""

    def __init__(self, case, channels_last):
        channels = 1 if case["side"] == 28 else 3
        layout = torch.channels_last if channels_last else torch.contiguous_format
        self.net = conv4(channels).to(memory_format=layout)
        self.adam = torch.optim.Adam(self.net.parameters(), lr=1e-3)
        self.images = {
            part: torch.randn(case[part]["images"], channels, case["side"], case["side"]).contiguous(memory_format=layout)
            for part in ("train", "test")
        }
        self.train()
        self.test()

    def train(self):
        self.net.train()

        def step():
            self.adam.zero_grad()
            features = self.net(self.images["train"])
            features.backward(torch.full_like(features, 1e-3))
            self.adam.step()

        return timed(step)

    def test(self):
        self.net.eval()
        with torch.no_grad():
            return timed(lambda: self.net(self.images["test"]))


def bench(args, side, shot):
    command = [args.binary, "--threads", str(args.threads), "bench", "--json", "--repeats", str(args.repeats)]
    command += ["--side", str(side), "--shot", str(shot), "--precision", args.precision]
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    report = json.loads(out)
    return report, report["cases"][0]


def compare(args, side, shot):
    _, case = bench(args, side, shot)
    nets = {"torch": Torch(case, False), "torch channels_last": Torch(case, True)}
    rounds = {(name, part): [] for name in [*nets, "siskin", "siskin network"] for part in ("train", "test")}
    for _ in range(args.rounds):
        for name, net in nets.items():
            for _ in range(args.repeats):
                rounds[name, "train"].append(net.train())
                rounds[name, "test"].append(net.test())
        report, case = bench(args, side, shot)
        for part in ("train", "test"):
            rounds["siskin", part].append(case[part]["whole"])
            rounds["siskin network", part].append(case[part]["backbone"])

    def median(key, clock):
        return statistics.median(r[clock] for r in rounds[key])

    print(f"\n{case['backbone']} {side} px, {case['way']}-way {shot}-shot: "
          f"{case['train']['images']} images in training, {case['test']['images']} at test "
          f"(siskin {report['precision']}, {report['instructions']})")
    print(f"  {'':30}{'wall ms':>10}{'CPU ms':>10}{'whole: wall':>14}{'CPU':>7}{'network: wall':>16}{'CPU':>7}")
    for part, title in (("train", "training"), ("test", "test")):
        for name in [*nets, "siskin", "siskin network"]:
            t = {clock: median((name, part), clock) for clock in ("wall", "cpu")}
            line = f"  {title + ', ' + name:30}{t['wall'] * 1e3:10.1f}{t['cpu'] * 1e3:10.1f}"
            if name in nets:
                for own, width in (("siskin", 14), ("siskin network", 16)):
                    wall, cpu = (t[clock] / median((own, part), clock) for clock in ("wall", "cpu"))
                    line += f"{wall:{width}.2f}{cpu:7.2f}"
            print(line)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default="target/release/siskin")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=3, help="repeats of either side in a round")
    parser.add_argument("--side", type=int, action="append", help="28 or 84; both by default")
    parser.add_argument("--shot", type=int, action="append", help="1 or 5; 1 by default")
    parser.add_argument("--precision", default="f32", help="of siskin: f32, bf16 or bf16-emulated")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    print(f"torch {torch.__version__}, {args.threads} thread(s), medians over {args.rounds} rounds, ratios torch / siskin")
    for side in args.side or (28, 84):
        for shot in args.shot or (1,):
            compare(args, side, shot)


if __name__ == "__main__":
    main()
