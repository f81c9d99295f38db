"""Makes crates/nn/tests/golden/conv4.safetensors: a small Conv4 in PyTorch, trained for three steps.

    pip install torch safetensors
    python scripts/make_conv4_golden.py

The file holds the network's state dict under the names of CloserLookFewShot (`feature.trunk.0.C.weight`, ...), the
images and the gradient that a head would return, and what PyTorch makes of them: features in train mode, parameter
gradients, the state after three Adam steps, and features in eval mode.
"""

import pathlib

import torch
from safetensors.torch import save_file
from torch import nn

WIDTH, IMAGES, SIDE, STEPS = 8, 6, 35, 3  # 35 -> 17 -> 8 -> 4 -> 2: an odd side in two poolings


class Block(nn.Module):
    def __init__(self, inputs):
        super().__init__()
        self.C = nn.Conv2d(inputs, WIDTH, 3, padding=1)
        self.BN = nn.BatchNorm2d(WIDTH)

    def forward(self, x):
        return torch.max_pool2d(torch.relu(self.BN(self.C(x))), 2)


class Conv4(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(*[Block(3 if i == 0 else WIDTH) for i in range(4)], nn.Flatten())

    def forward(self, x):
        return self.trunk(x)


def state(net, prefix):
    return {prefix + name: value.detach().clone() for name, value in net.state_dict().items()}


def main():
    torch.manual_seed(20240501)
    torch.set_num_threads(1)
    # In double precision: a bias before a batch-norm has gradient 0, and Adam would make full steps of its rounding.
    torch.set_default_dtype(torch.float64)
    net = Conv4()
    for tensor in net.state_dict().values():  # values that float32 can hold
        tensor.copy_(tensor.float())
    with torch.no_grad():
        for name, value in net.named_parameters():
            if ".BN." in name:  # away from 1 and 0, so that a swap shows
                value.add_(0.3 * torch.randn_like(value)).copy_(value.float())
    images = torch.randn(IMAGES, 3, SIDE, SIDE).float().double()
    out = state(net, "feature.")
    out["images"] = images.clone()

    optimiser = torch.optim.Adam(net.parameters(), lr=1e-3)
    cotangent = torch.randn(IMAGES, WIDTH * 4).float().double()
    out["cotangent"] = cotangent
    for step in range(STEPS):
        net.train()
        optimiser.zero_grad()
        features = net(images * (1 + step))
        (features * cotangent).sum().backward()
        if step == 0:
            out["train_features"] = features.detach().clone()
            out |= {f"gradient.{name}": p.grad.clone() for name, p in net.named_parameters()}
        optimiser.step()
    out |= state(net, "after.")
    net.eval()
    out["eval_features"] = net(images).detach().clone()

    path = pathlib.Path(__file__).parent.parent / "crates/nn/tests/golden/conv4.safetensors"
    save_file({name: value.float().contiguous() for name, value in out.items()}, path)
    print(path, path.stat().st_size, "bytes, torch", torch.__version__)


if __name__ == "__main__":
    main()
