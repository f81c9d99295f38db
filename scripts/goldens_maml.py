"""Makes crates/methods/tests/golden/{maml,abml,bmaml,bmaml_chaser}.json: small tasks differentiated by PyTorch in double precision.

    pip install torch
    python scripts/goldens_maml.py

maml.json: a Conv4 of 3 channels with a linear head on 16x16 images; meta-loss and its gradient after two inner steps,
second and first order. abml.json: the same network with a Gaussian over its weights and given noise. bmaml.json
and bmaml_chaser.json: particles of a linear classifier; two Stein variational steps, the mixture loss or the chaser
loss, and their gradients.
Flat vectors of parameters are in the order of our module: for each block filters, bias, gain, shift; then W and b.
"""

import json
import math
import pathlib

import torch
import torch.nn.functional as F

torch.set_default_dtype(torch.float64)
OUT = pathlib.Path(__file__).parent.parent / "crates/methods/tests/golden"
WIDTH, SIDE, WAY = 3, 16, 3
SHAPES = [s for i in range(4) for s in ([WIDTH, 1 if i == 0 else WIDTH, 3, 3], [WIDTH], [WIDTH], [WIDTH])]
SHAPES += [[WIDTH, WAY], [WAY]]


def single(x):
    """Numbers that float32 holds and that are short in decimal."""
    return torch.round(x * 64) / 64


def logits(theta, images):
    parts, at = [], 0
    for shape in SHAPES:
        n = math.prod(shape)
        parts.append(theta[at : at + n].reshape(shape))
        at += n
    x = images
    for i in range(4):
        weight, bias, gain, shift = parts[4 * i : 4 * i + 4]
        x = F.conv2d(x, weight, bias, padding=1)
        x = F.batch_norm(x, None, None, gain, shift, training=True)
        x = F.max_pool2d(torch.relu(x), 2)
    return x.flatten(1) @ parts[-2] + parts[-1]


def loss(theta, part):
    return F.cross_entropy(logits(theta, part[0]), part[1])


def first_theta():
    parts = []
    for i, shape in enumerate(SHAPES):
        noise = torch.randn(shape)
        if i < 16 and i % 4 == 2:
            noise = 1 + 0.3 * noise
        elif len(shape) < 4:
            noise = 0.3 * noise
        parts.append(noise.flatten())
    return single(torch.cat(parts))


def flat(x):
    return x.detach().flatten().tolist()


def task():
    support = torch.round(8 * torch.randn(WAY, 1, SIDE, SIDE)) / 8, torch.arange(WAY) % WAY
    query = torch.round(8 * torch.randn(2 * WAY, 1, SIDE, SIDE)) / 8, torch.arange(2 * WAY) % WAY
    return support, query


def task_json(support, query):
    return {
        "width": WIDTH,
        "side": SIDE,
        "way": WAY,
        "support": flat(support[0]),
        "support_labels": support[1].tolist(),
        "query": flat(query[0]),
        "query_labels": query[1].tolist(),
    }


def maml():
    torch.manual_seed(1)
    theta = first_theta().requires_grad_()
    support, query = task()
    steps, rate = 2, 0.125
    golden = task_json(support, query) | {"theta": flat(theta), "steps": steps, "rate": rate}
    for order, graph in (("second", True), ("first", False)):
        at = theta
        for _ in range(steps):
            (g,) = torch.autograd.grad(loss(at, support), at, create_graph=graph)
            at = at - rate * g
        value = loss(at, query)
        golden["loss"] = value.item()
        golden[order] = flat(torch.autograd.grad(value, theta)[0])
    return golden


def kl(mu, rho, mu0, rho0):
    return 0.5 * (torch.exp(rho - rho0) + (mu - mu0) ** 2 * torch.exp(-rho0) - 1 - rho + rho0).sum()


def abml():
    torch.manual_seed(2)
    mu0 = first_theta().requires_grad_()
    rho0 = single(-4 + 0.5 * torch.randn(len(mu0))).requires_grad_()
    support, query = task()
    steps, rate, samples, kl_weight, hyper = 2, 0.0625, 2, 0.5, 0.25
    noise = single(torch.randn(steps + 1, samples, len(mu0)))

    def nll(mu, rho, part, eps):
        return sum(loss(mu + torch.exp(rho / 2) * e, part) for e in eps) / samples

    golden = task_json(support, query) | {
        "mu": flat(mu0),
        "rho": flat(rho0),
        "noise": flat(noise),
        "steps": steps,
        "rate": rate,
        "samples": samples,
        "kl_weight": kl_weight,
        "hyper_prior_weight": hyper,
    }
    n_s, n = len(support[1]), len(support[1]) + len(query[1])
    for order, graph in (("second", True), ("first", False)):
        mu, rho = mu0 * 1, rho0 * 1  # nodes of their own: a step differentiates by these, not by the prior
        for k in range(steps):
            inner = nll(mu, rho, support, noise[k + 1]) + kl_weight * kl(mu, rho, mu0, rho0) / n_s
            d_mu, d_rho = torch.autograd.grad(inner, (mu, rho), create_graph=graph, retain_graph=True)
            mu, rho = mu - rate * d_mu, rho - rate * d_rho
        value = sum(nll(mu, rho, part, noise[0]) * len(part[1]) / n for part in (support, query))
        value = value + kl_weight * kl(mu, rho, mu0, rho0) / n
        value = value + hyper * (0.5 * mu0**2 + 0.01 * torch.exp(-rho0)).sum() / n
        golden["loss"] = value.item()
        golden[order] = flat(torch.cat(torch.autograd.grad(value, (mu0, rho0))))
    return golden


def energy(particle, x, y, hierarchical):
    d = x.shape[1]
    w, b = particle[: d * WAY].reshape(d, WAY), particle[d * WAY : (d + 1) * WAY]
    value = F.cross_entropy(x @ w + b, y, reduction="sum")
    weights = particle[: (d + 1) * WAY]
    if not hierarchical:
        return value + 0.5 * (weights**2).sum()
    log_lambda = particle[-1]
    value = value + 0.5 * torch.exp(log_lambda) * (weights**2).sum() - 0.5 * len(weights) * log_lambda
    return value + 0.1 * torch.exp(log_lambda) - log_lambda


def svgd(particles, x, y, rate, hierarchical):
    m = len(particles)
    total = sum(energy(p, x, y, hierarchical) for p in particles)
    (grads,) = torch.autograd.grad(total, particles, create_graph=True)
    apart = particles[:, None, :] - particles[None, :, :]
    squared = (apart**2).sum(-1)
    pairs = torch.sort(squared[torch.triu(torch.ones(m, m), 1) > 0])[0]
    half = len(pairs) // 2
    median = pairs[half] if len(pairs) % 2 else (pairs[half - 1] + pairs[half]) / 2
    h = median / math.log(m)
    k = torch.exp(-squared / h)
    push = (2 / h) * (k[:, :, None] * apart).sum(1)
    return particles - rate / m * (k @ grads - push)


def mixture_logs(particles, x):
    d = x.shape[1]
    w, b = particles[:, : d * WAY].reshape(-1, d, WAY), particles[:, d * WAY : (d + 1) * WAY]
    logs = F.log_softmax(torch.einsum("nd,mdc->mnc", x, w) + b[:, None, :], -1)
    return torch.logsumexp(logs, 0) - math.log(len(particles))


def bmaml(seed, hierarchical, chaser):
    torch.manual_seed(seed)
    dim, m, steps, rate, leader_rate = 4, 4, 2, 0.5, 0.25
    labels = torch.arange(9) % WAY
    support, query = [0, 1, 2, 8], [3, 4, 5, 6, 7]
    x = torch.rand(9, dim).requires_grad_()
    start = (0.7 * torch.randn(m, (dim + 1) * WAY + hierarchical)).requires_grad_()
    at = start
    for _ in range(steps):
        at = svgd(at, x[support], labels[support], rate, hierarchical)
    if chaser:
        leader = at
        for _ in range(steps):
            leader = svgd(leader, x, labels, leader_rate, hierarchical)
        value = ((at - leader.detach()) ** 2).sum()
    else:
        value = F.nll_loss(mixture_logs(at, x[query]), labels[query])
    d_start, d_x = torch.autograd.grad(value, (start, x))
    return {
        "dim": dim,
        "way": WAY,
        "count": m,
        "steps": steps,
        "rate": rate,
        "leader_rate": leader_rate,
        "labels": labels.tolist(),
        "support": support,
        "query": query,
        "x": flat(x),
        "particles": flat(start),
        "adapted": flat(at),
        "probabilities": flat(mixture_logs(at, x[query]).exp()),
        "loss": value.item(),
        "dparticles": flat(d_start),
        "dx": flat(d_x),
    }


OUT.mkdir(parents=True, exist_ok=True)
for name, golden in {
    "maml": maml(),
    "abml": abml(),
    "bmaml": bmaml(3, hierarchical=True, chaser=False),
    "bmaml_chaser": bmaml(4, hierarchical=False, chaser=True),
}.items():
    (OUT / f"{name}.json").write_text(json.dumps(golden) + "\n")
