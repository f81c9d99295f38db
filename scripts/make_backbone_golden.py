"""Makes crates/nn/tests/golden/{conv4,resnet12}.safetensors: small backbones in PyTorch, trained for three steps.

    pip install torch safetensors
    python scripts/make_backbone_golden.py

A file holds the network's state dict under the names of the few-shot code people have (`feature.trunk.0.C.weight` of
CloserLookFewShot, `layer1.0.conv1.weight` of the usual ResNet12), the images and the gradient that a head would
return, and what PyTorch makes of them: features in train mode, parameter gradients (0 for running statistics), the
state after three Adam steps, and features in eval mode.
"""

import pathlib

import torch
from safetensors.torch import save_file
from torch import nn

STEPS = 3


class ConvBlock(nn.Module):
    def __init__(self, inputs, width):
        super().__init__()
        self.C = nn.Conv2d(inputs, width, 3, padding=1)
        self.BN = nn.BatchNorm2d(width)

    def forward(self, x):
        return torch.max_pool2d(torch.relu(self.BN(self.C(x))), 2)


class Conv4(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.trunk = nn.Sequential(*[ConvBlock(3 if i == 0 else width, width) for i in range(4)], nn.Flatten())

    def forward(self, x):
        return self.trunk(x)


class ResidualBlock(nn.Module):
    def __init__(self, inputs, width):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, width, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.bn3 = nn.BatchNorm2d(width)
        self.downsample = nn.Sequential(nn.Conv2d(inputs, width, 1, bias=False), nn.BatchNorm2d(width))

    def forward(self, x):
        y = nn.functional.leaky_relu(self.bn1(self.conv1(x)), 0.1)
        y = nn.functional.leaky_relu(self.bn2(self.conv2(y)), 0.1)
        y = self.bn3(self.conv3(y)) + self.downsample(x)
        return torch.max_pool2d(nn.functional.leaky_relu(y, 0.1), 2)


class ResNet12(nn.Module):
    def __init__(self, width):
        super().__init__()
        widths = [3, width, width * 5 // 2, width * 5, width * 10]
        for i in range(4):
            self.add_module(f"layer{i + 1}", nn.Sequential(ResidualBlock(widths[i], widths[i + 1])))

    def forward(self, x):
        return self.layer4(self.layer3(self.layer2(self.layer1(x)))).mean(dim=(2, 3))


def state(net, prefix):
    tensors = {name: value for name, value in net.state_dict().items() if "num_batches" not in name}
    return {prefix + name: value.detach().clone() for name, value in tensors.items()}


def make(name, net, prefix, images):
    for value in net.state_dict().values():  # values that float32 can hold
        value.copy_(value.float())
    with torch.no_grad():
        for module in net.modules():
            if isinstance(module, nn.BatchNorm2d):  # away from 1 and 0, so that a swap shows
                for value in (module.weight, module.bias):
                    value.add_(0.3 * torch.randn_like(value)).copy_(value.float())
    out = state(net, "state." + prefix)
    out["images"] = images
    optimiser = torch.optim.Adam(net.parameters(), lr=1e-3)
    cotangent = None
    for step in range(STEPS):
        net.train()
        optimiser.zero_grad()
        features = net(images * (1 + step))
        if cotangent is None:
            cotangent = torch.randn_like(features).float().double()
            out["cotangent"] = cotangent
        (features * cotangent).sum().backward()
        if step == 0:
            out["train_features"] = features.detach().clone()
            gradients = {key: torch.zeros_like(value) for key, value in state(net, "").items()}
            gradients |= {key: value.grad.clone() for key, value in net.named_parameters()}
            out |= {f"gradient.{prefix}{key}": value for key, value in gradients.items()}
        optimiser.step()
    out |= state(net, "after." + prefix)
    net.eval()
    out["eval_features"] = net(images).detach().clone()

    path = pathlib.Path(__file__).parent.parent / f"crates/nn/tests/golden/{name}.safetensors"
    save_file({key: value.float().contiguous() for key, value in out.items()}, path)
    print(path.name, path.stat().st_size, "bytes, torch", torch.__version__)


def main():
    torch.manual_seed(20240501)
    torch.set_num_threads(1)
    # In double precision: a bias before a batch-norm has gradient 0, and Adam would make full steps of its rounding.
    torch.set_default_dtype(torch.float64)
    images = lambda *shape: torch.randn(*shape).float().double()
    make("conv4", Conv4(8), "feature.", images(6, 3, 35, 35))  # 35 -> 17 -> 8 -> 4 -> 2: odd sides in two poolings
    make("resnet12", ResNet12(2), "", images(3, 3, 35, 16))


if __name__ == "__main__":
    main()
