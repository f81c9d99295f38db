"""Makes crates/nn/tests/golden/second_order.safetensors: gradients and Hessian products of small networks.

    pip install torch safetensors
    python scripts/make_second_order_golden.py [--differences]

PyTorch in double precision, twice backwards: `<network>.gradient` and `<network>.product` of the mean cross-entropy of six
images, for weights, images and a direction that both sides make by the formula of `numbers`. With `--differences` it prints
how far difference quotients of gradients are from the product, which shows what they are worth as a test.
"""

import pathlib
import sys

import numpy
import torch
from make_backbone_golden import ResNet12
from safetensors.torch import save_file
from torch import nn

WAY = 3
LABELS = torch.tensor([0, 1, 2, 0, 1, 2])


class Block(nn.Module):
    def __init__(self, inputs, width, pool):
        super().__init__()
        self.C = nn.Conv2d(inputs, width, 3, padding=1)
        self.BN = nn.BatchNorm2d(width)
        self.pool = pool

    def forward(self, x):
        x = torch.relu(self.BN(self.C(x)))
        return torch.max_pool2d(x, 2) if self.pool else x


def row(channels, width, blocks):
    sizes = [channels] + [width] * blocks
    return nn.Sequential(*[Block(sizes[i], width, i < 4) for i in range(blocks)], nn.Flatten())


# Name, network, its features, shape of an image: as CASES of crates/nn/tests/second_order.rs.
CASES = [
    ("conv4s", lambda: row(1, 4, 4), 4, (1, 28, 28)),
    ("conv4", lambda: row(3, 3, 4), 3 * 4, (3, 33, 33)),
    ("conv6", lambda: row(3, 4, 6), 4 * 4, (3, 32, 32)),
    ("resnet12", lambda: ResNet12(2), 20, (3, 20, 20)),
]


def numbers(n, step):
    """About -1 to 1, in the single precision of the other side."""
    x = (numpy.arange(1, n + 1) * step % 2003).astype(numpy.float32)
    return torch.tensor((x / numpy.float32(1001.5) - numpy.float32(1.0)).astype(numpy.float32))


def scaled(n, step, factor):
    return (numbers(n, step) * numpy.float32(factor)).double()


class Loss:
    """The mean cross-entropy as a function of one flat vector: backbone, then W [features, WAY], then b."""

    def __init__(self, net, features, shape):
        self.net, self.features = net.double().train(), features
        self.images = numbers(6 * shape[0] * shape[1] * shape[2], 7919).double().reshape(6, *shape)
        self.names = [name for name, _ in net.named_parameters()]
        self.shapes = [tuple(p.shape) for p in net.parameters()] + [(features, WAY), (WAY,)]
        self.size = sum(numpy.prod(shape, dtype=int) for shape in self.shapes)

    def __call__(self, theta):
        parts = [p.reshape(shape) for p, shape in zip(theta.split([int(numpy.prod(s)) for s in self.shapes]), self.shapes)]
        x = torch.func.functional_call(self.net, dict(zip(self.names, parts)), self.images)
        return nn.functional.cross_entropy(x @ parts[-2] + parts[-1], LABELS)

    def gradient(self, theta):
        theta = theta.detach().requires_grad_()
        return torch.autograd.grad(self(theta), theta)[0]

    def product(self, theta, v):
        theta = theta.detach().requires_grad_()
        (slope,) = torch.autograd.grad(self(theta), theta, create_graph=True)
        return torch.autograd.grad(slope @ v, theta)[0]


def differences(name, loss, theta, v, product):
    for h in (1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8):
        quotient = (loss.gradient(theta + h * v) - loss.gradient(theta - h * v)) / (2 * h)
        apart = ((quotient - product).norm() / product.norm()).item()
        print(f"{name}: interval {h:.0e}: |difference - product| / |product| = {apart:.1e}")


def main():
    out = {}
    for name, net, features, shape in CASES:
        loss = Loss(net(), features, shape)
        theta, v = scaled(loss.size, 4423, 0.3), scaled(loss.size, 3571, 0.1)
        out[f"{name}.gradient"], out[f"{name}.product"] = loss.gradient(theta), loss.product(theta, v)
        print(name, loss.size, "parameters, |product|", out[f"{name}.product"].norm().item())
        if "--differences" in sys.argv:
            differences(name, loss, theta, v, out[f"{name}.product"])
    path = pathlib.Path(__file__).parent.parent / "crates/nn/tests/golden/second_order.safetensors"
    save_file({key: value.float().contiguous() for key, value in out.items()}, path)
    print(path.name, path.stat().st_size, "bytes, torch", torch.__version__)


if __name__ == "__main__":
    main()
