#!/usr/bin/env python3
"""Golden values of the parts of the comparison methods, computed by PyTorch.

    python scripts/goldens_methods.py        # writes crates/methods/tests/golden/*.json

Everything is in double precision and tiny; the Rust tests read the JSON. Needs torch only.
"""

import json
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

OUT = Path(__file__).resolve().parent.parent / "crates/methods/tests/golden"
torch.set_default_dtype(torch.float64)


def flat(t):
    return [float(f"{v:.9g}") for v in t.detach().reshape(-1).tolist()]


def write(name, values):
    plain = {k: flat(v) if torch.is_tensor(v) else v for k, v in values.items()}
    (OUT / f"{name}.json").write_text(json.dumps(plain) + "\n")


def draw(seed, *shape, scale=1.0):
    generator = torch.Generator().manual_seed(seed)
    # Single-precision values: the same numbers on both sides.
    return (scale * torch.randn(*shape, generator=generator)).float().double()


def episode(way, shot, query):
    """Class-major rows: labels, support rows, query rows."""
    each = shot + query
    labels = [c for c in range(way) for _ in range(each)]
    support = [c * each + i for c in range(way) for i in range(shot)]
    queries = [c * each + i for c in range(way) for i in range(shot, each)]
    return labels, support, queries


def proto_net():
    labels, support, query = episode(3, 2, 2)
    z = draw(1, 12, 4).requires_grad_()
    y = torch.tensor(labels)
    prototypes = torch.stack([z[support][y[support] == c].mean(0) for c in range(3)])
    scores = -((z[query][:, None] - prototypes[None]) ** 2).sum(2)
    loss = F.cross_entropy(scores, y[query])
    loss.backward()
    write("proto_net", dict(way=3, dim=4, labels=labels, support=support, query=query, features=z, loss=loss,
                            dfeatures=z.grad, probabilities=scores.softmax(1)))


def matching_net():
    dim, way, shot, queries = 3, 2, 2, 3
    s = draw(10, way * shot, dim).requires_grad_()
    f = draw(11, queries, dim).requires_grad_()
    labels, truth = [0, 0, 1, 1], [0, 1, 1]
    encoder = nn.LSTM(dim, dim, 1, batch_first=True, bidirectional=True)
    cell = nn.LSTMCell(2 * dim, dim)
    with torch.no_grad():
        for i, p in enumerate([*encoder.parameters(), *cell.parameters()]):
            p.copy_(draw(20 + i, *p.shape, scale=0.5))
    out = encoder(s[None])[0][0]
    g = s + out[:, :dim] + out[:, dim:]
    h, c = f, torch.zeros_like(f)
    for _ in range(g.shape[0]):
        attention = torch.softmax(h @ g.T, 1)
        h, c = cell(torch.cat([f, attention @ g], 1), (h, c))
        h = h + f
    unit = lambda x: x / (x.norm(dim=1, keepdim=True) + 1e-5)
    scores = 100 * torch.relu(unit(h) @ unit(g).T)
    one_hot = F.one_hot(torch.tensor(labels), way).double()
    log_p = (torch.softmax(scores, 1) @ one_hot + 1e-6).log()
    loss = F.nll_loss(log_p, torch.tensor(truth))
    loss.backward()
    values = dict(dim=dim, way=way, support=s, query=f, labels=labels, truth=truth, g=g, f=h, log_p=log_p, loss=loss,
                  dsupport=s.grad, dquery=f.grad)
    parts = {"forward": [encoder.weight_ih_l0, encoder.weight_hh_l0, encoder.bias_ih_l0, encoder.bias_hh_l0],
             "backward": [encoder.weight_ih_l0_reverse, encoder.weight_hh_l0_reverse, encoder.bias_ih_l0_reverse,
                          encoder.bias_hh_l0_reverse],
             "attention": [cell.weight_ih, cell.weight_hh, cell.bias_ih, cell.bias_hh]}
    for part, tensors in parts.items():
        for name, t in zip(["input_weight", "hidden_weight", "input_bias", "hidden_bias"], tensors):
            values[f"{part}.{name}"], values[f"d.{part}.{name}"] = t, t.grad
    write("matching_net", values)


def relation_net(name, size, loss_type, truth):
    """Two classes, two channels; the module as in the released code, with its convolution biases."""
    way, queries, channels, hidden = 2, len(truth), 2, 4
    padding = 1 if size < 10 else 0
    protos = draw(30, way, channels, size, size).requires_grad_()
    query = draw(31, queries, channels, size, size).requires_grad_()

    def block(inp):
        return nn.Sequential(nn.Conv2d(inp, channels, 3, padding=padding), nn.BatchNorm2d(channels, momentum=1),
                             nn.ReLU(), nn.MaxPool2d(2))

    shrink = lambda s: (s - 2 + 2 * padding) // 2
    side = shrink(shrink(size))
    net = nn.Sequential(block(2 * channels), block(channels), nn.Flatten(),
                        nn.Linear(channels * side * side, hidden), nn.ReLU(), nn.Linear(hidden, 1))
    with torch.no_grad():
        for i, p in enumerate(net.parameters()):
            p.copy_(draw(40 + i, *p.shape, scale=0.5) + (1.0 if p.dim() == 1 and i in (2, 6) else 0.0))
    pairs = torch.cat([protos[None].expand(queries, -1, -1, -1, -1), query[:, None].expand(-1, way, -1, -1, -1)], 2)
    pairs = pairs.reshape(queries * way, 2 * channels, size, size)
    raw = net(pairs).reshape(queries, way)
    y = torch.tensor(truth)
    if loss_type == "mse":
        loss = F.mse_loss(torch.sigmoid(raw), F.one_hot(y, way).double())
    else:
        loss = F.cross_entropy(raw, y)
    loss.backward()
    net.eval()
    evaluated = net(pairs).reshape(queries, way)
    (conv1, bn1, _, _), (conv2, bn2, _, _), _, fc1, _, fc2 = net
    values = dict(size=size, way=way, channels=channels, hidden=hidden, prototypes=protos, query=query, truth=truth,
                  raw=raw, loss=loss, dprototypes=protos.grad, dquery=query.grad, evaluated=evaluated,
                  d_conv1=conv1.weight.grad, d_fc1=fc1.weight.grad)
    values.update({"block1.weight": conv1.weight, "block1.norm.weight": bn1.weight, "block1.norm.bias": bn1.bias,
                   "block2.weight": conv2.weight, "block2.norm.weight": bn2.weight, "block2.norm.bias": bn2.bias,
                   "fc1.weight": fc1.weight, "fc1.bias": fc1.bias, "fc2.weight": fc2.weight, "fc2.bias": fc2.bias})
    write(name, values)


class Cosine(nn.Module):
    """scale * g_k <x / (|x| + 1e-5), v_k / |v_k|>."""

    def __init__(self, g, v, scale):
        super().__init__()
        self.g, self.v, self.scale = nn.Parameter(g), nn.Parameter(v), scale

    def forward(self, x):
        unit = x / (x.norm(dim=1, keepdim=True) + 1e-5)
        return self.scale * unit @ (self.g * self.v / self.v.norm(dim=1, keepdim=True)).T


class Linear(nn.Module):
    def __init__(self, w, b):
        super().__init__()
        self.w, self.b = nn.Parameter(w), nn.Parameter(b)

    def forward(self, x):
        return x @ self.w.T + self.b


def fit(head, x, y, orders):
    """The test-time fit of the released code: SGD on batches of 4."""
    optimiser = torch.optim.SGD(head.parameters(), lr=0.01, momentum=0.9, dampening=0.9, weight_decay=0.001)
    for order in orders:
        for i in range(0, len(order), 4):
            rows = order[i:i + 4]
            optimiser.zero_grad()
            F.cross_entropy(head(x[rows]), y[rows]).backward()
            optimiser.step()


def fitted_heads():
    way, shot, dim, epochs = 3, 2, 4, 12
    x, query = draw(50, way * shot, dim), draw(51, 2, dim)
    labels = [c for c in range(way) for _ in range(shot)]
    y = torch.tensor(labels)
    orders = [torch.randperm(way * shot, generator=torch.Generator().manual_seed(60 + e)).tolist() for e in range(epochs)]
    w, b = draw(52, way, dim, scale=0.3), draw(53, way, scale=0.3)
    linear = Linear(w.clone(), b.clone())
    fit(linear, x, y, orders)
    write("linear_head", dict(way=way, dim=dim, support=x, labels=labels, query=query, orders=orders, weight=w, bias=b,
                              fitted_weight=linear.w, fitted_bias=linear.b, probabilities=linear(query).softmax(1)))
    cosine = Cosine(w.norm(dim=1, keepdim=True), w.clone(), 2.0)
    fit(cosine, x, y, orders)
    write("cosine_head", dict(way=way, dim=dim, support=x, labels=labels, query=query, orders=orders, weight=w, scale=2.0,
                              fitted_g=cosine.g, fitted_v=cosine.v, probabilities=cosine(query).softmax(1)))


def pretraining_heads():
    """Loss and gradients of the heads in pre-training."""
    dim, classes = 4, 5
    x = draw(70, 6, dim).requires_grad_()
    truth = [0, 4, 2, 2, 1, 3]
    w, b = draw(71, classes, dim), draw(72, classes)
    values = dict(dim=dim, classes=classes, features=x, truth=truth, weight=w, bias=b)
    for name, head in (("linear", Linear(w, b)), ("cosine", Cosine(w.norm(dim=1, keepdim=True) * 1.5, w.clone(), 10.0))):
        loss = F.cross_entropy(head(x), torch.tensor(truth))
        grads = torch.autograd.grad(loss, [x, *head.parameters()])
        values[f"{name}.loss"] = loss
        for i, g in enumerate(grads):
            values[f"{name}.d{i}"] = g
    values["cosine.g"] = w.norm(dim=1, keepdim=True) * 1.5
    write("pretraining_heads", values)


def dkt():
    """Label regression with batch normalisation: loss and gradients in training, probabilities at test."""
    noise, way, dim = 0.1, 3, 5
    labels, support, query = episode(way, 1, 3)
    y = torch.tensor(labels)
    points = len(labels)
    features = (draw(80, way, dim)[y] + draw(81, points, dim)).requires_grad_()
    mean, raw_scale = draw(82, 1, scale=0.2).requires_grad_(), draw(83, way, scale=0.3).requires_grad_()
    norm = nn.BatchNorm1d(dim)
    with torch.no_grad():
        norm.weight.copy_(draw(84, dim))
        norm.bias.copy_(draw(85, dim, scale=0.3))
    learned = [mean, raw_scale, norm.weight, norm.bias]
    start = torch.cat([p.detach().clone() for p in learned])

    def target(c, y):
        return torch.where(y == c, 1.0, -1.0)

    z = F.normalize(norm(features), dim=1)
    loss = 0
    for c in range(way):
        k = F.softplus(raw_scale[c]) * z @ z.T + noise * torch.eye(points)
        marginal = torch.distributions.MultivariateNormal(mean * torch.ones(points), k)
        loss = loss - marginal.log_prob(target(c, y)) / points / way
    grads = torch.autograd.grad(loss, [features, *learned])

    # At test: the running statistics of that one batch, one support row of each class.
    norm.eval()
    z = F.normalize(norm(features), dim=1)
    scores = []
    for c in range(way):
        scale = F.softplus(raw_scale[c])
        k = scale * z[support] @ z[support].T + noise * torch.eye(way)
        scores.append(mean + scale * z[query] @ z[support].T @ torch.linalg.solve(k, target(c, y[support]) - mean))
    write("dkt", dict(features=features, labels=labels, learned=start, loss=loss, dfeatures=grads[0],
                      dlearned=torch.cat(grads[1:]), probabilities=torch.stack(scores, 1).softmax(1)))


def cosine_kernel(features, scale):
    z = F.normalize(features, dim=1)
    return scale * z @ z.T


def expected_log_sigmoid(mean, variance, nodes=400):
    """E log sigma(x), x ~ N(mean, variance), by Gauss-Hermite; nodes and weights from the Jacobi matrix."""
    off = torch.sqrt(torch.arange(1, nodes) * 1.0)
    x, vectors = torch.linalg.eigh(torch.diag(off, 1) + torch.diag(off, -1))
    points = mean[..., None] + variance.clamp(min=0).sqrt()[..., None] * x
    return (F.logsigmoid(points) * vectors[0] ** 2).sum(-1)


def log_integral(k, b, w):
    """log int N(x | 0, K) exp(b'x - x' W x / 2) dx."""
    system = torch.eye(len(b)) + k * w
    return 0.5 * b @ torch.linalg.solve(system, k @ b) - 0.5 * torch.logdet(system)


def condition(k, cross, own, b, w):
    """Mean and covariance at queries with kernel `cross` to the points and `own` among themselves."""
    return cross @ torch.linalg.solve(torch.eye(len(b)) + w[:, None] * k, b), \
        own - cross @ torch.linalg.solve(k + torch.diag(1 / w), cross.T)


def positive(seed, *shape):
    return (0.05 + 0.5 * draw(seed, *shape).abs()).float().double()


def gibbs_episode(seed):
    """An episode with its kernel matrix, and all of it as golden values."""
    way, dim, scale = 3, 4, 1.7
    labels, support, query = episode(way, 2, 2)
    y = torch.tensor(labels)
    x = (draw(seed, way, dim)[y] + 0.7 * draw(seed + 1, len(labels), dim)).float().double().requires_grad_()
    values = dict(way=way, dim=dim, labels=labels, support=support, query=query, features=x, scale=scale)
    return way, support, query, y, x, cosine_kernel(x, scale), values


def ls_gibbs():
    """Logistic-softmax at fixed sites b = (y - m) / 2 and w = omega, class by class; the sites of PL are of the support."""
    way, support, query, y, x, k, values = gibbs_episode(90)

    def sites(seed, rows):
        counts = torch.floor(3 * draw(seed, way, len(rows)).abs())
        own = F.one_hot(y[rows], way).T.double()
        return (own - counts) / 2, positive(seed + 1, way, len(rows))

    b, w = sites(92, list(range(len(y))))
    logs = sum(log_integral(k, b[c], w[c]) for c in range(way))
    loss = -logs / len(y) + way * torch.log(torch.tensor(2.0))
    values.update(b=b, w=w, marginal=loss, dmarginal=torch.autograd.grad(loss, x, retain_graph=True)[0])

    b, w = sites(94, support)
    scores = []
    for c in range(way):
        mean, cov = condition(k[support][:, support], k[query][:, support], k[query][:, query], b[c], w[c])
        scores.append(expected_log_sigmoid(mean, cov.diagonal()))
    scores = torch.stack(scores, 1)
    loss = F.cross_entropy(scores, y[query])
    values.update(support_b=b, support_w=w, predictive=loss, dpredictive=torch.autograd.grad(loss, x)[0],
                  probabilities=scores.softmax(1))
    write("ls_gibbs", values)


def differences(y, way):
    """The matrix A of f_y - f_c for every point and other class c; f is laid out class by class."""
    rows = []
    for n, own in enumerate(y.tolist()):
        for c in range(way):
            if c != own:
                row = torch.zeros(way, len(y))
                row[own, n], row[c, n] = 1, -1
                rows.append(row.reshape(-1))
    return torch.stack(rows)


def ove():
    """One-vs-each at fixed omega; those of PL are of the support."""
    way, support, query, y, x, k, values = gibbs_episode(96)
    a = differences(y, way)
    omega, half = positive(98, len(a)), torch.full((len(a),), 0.5)
    gram = a @ torch.block_diag(*[k] * way) @ a.T
    loss = -(log_integral(gram, half, omega) - len(a) * torch.log(torch.tensor(2.0))) / len(y)
    values.update(omega=omega, marginal=loss, dmarginal=torch.autograd.grad(loss, x, retain_graph=True)[0])

    a = differences(y[support], way)
    omega, half = positive(99, len(a)), torch.full((len(a),), 0.5)
    gram = a @ torch.block_diag(*[k[support][:, support]] * way) @ a.T
    scores = []
    for q in query:
        cross = torch.block_diag(*[k[q, support][None]] * way) @ a.T
        mean, cov = condition(gram, cross, k[q, q] * torch.eye(way), half, omega)
        score = []
        for c in range(way):
            others = [o for o in range(way) if o != c]
            variance = cov[c, c] + cov.diagonal()[others] - 2 * cov[c, others]
            score.append(expected_log_sigmoid(mean[c] - mean[others], variance).sum())
        scores.append(torch.stack(score))
    scores = torch.stack(scores)
    loss = F.cross_entropy(scores, y[query])
    values.update(support_omega=omega, predictive=loss, dpredictive=torch.autograd.grad(loss, x)[0],
                  probabilities=scores.softmax(1))
    write("ove", values)


def cdkt():
    """Two sweeps of mean field from the prior, alpha and gamma solved together, and the bound after them."""
    way, dim, steps = 3, 12, 2
    start = dict(scale=1.4, mean=-0.6, tau=0.5)
    raw = torch.tensor(start["scale"]).expm1().log().requires_grad_()
    a, log_tau = torch.tensor(start["mean"]).requires_grad_(), torch.tensor(start["tau"]).log().requires_grad_()
    scale, tau = F.softplus(raw), log_tau.exp()
    labels, support, query = episode(way, 1, 2)
    y = torch.tensor(labels)
    points = len(labels)
    x = (draw(100, way, dim)[y] + draw(101, points, dim)).float().double().requires_grad_()
    k = cosine_kernel(x, scale) / tau**2
    mean = a / tau * torch.ones(points)
    own = F.one_hot(y, way).double()

    def local(mu, v):
        """rho and u = sum of gamma, the root of log u - psi(1 + u) = log s."""
        c = torch.sqrt(mu**2 + v)
        rho = -mu / 2 - torch.log(2 * torch.cosh(c / 2))
        log_s = torch.logsumexp(rho, 1) - torch.log(torch.tensor(1.0 * way))
        log_u = torch.zeros(points)
        for _ in range(60):
            # Newton; the last step makes the gradient that of the root.
            u = log_u.detach().exp()
            log_u = u.log() - (u.log() - torch.digamma(1 + u) - log_s) / (1 - u * torch.polygamma(1, 1 + u))
        return c, rho, log_u.exp()

    mu, v = mean[:, None].expand(points, way), k.diagonal()[:, None].expand(points, way)
    for _ in range(steps):
        c, rho, u = local(mu, v)
        gamma = torch.exp(torch.digamma(1 + u))[:, None] * rho.exp() / way
        omega = (gamma + own) * torch.tanh(c / 2) / (2 * c)
        covariances = [torch.linalg.inv(torch.linalg.inv(k) + torch.diag(omega[:, j])) for j in range(way)]
        means = [covariances[j] @ ((own - gamma)[:, j] / 2 + torch.linalg.solve(k, mean)) for j in range(way)]
        mu, v = torch.stack(means, 1), torch.stack([s.diagonal() for s in covariances], 1)
    alpha = 1 + local(mu, v)[2]
    entropy = alpha + torch.lgamma(alpha) + (1 - alpha) * torch.digamma(alpha)
    label = mu / 2 - torch.log(2 * torch.cosh(torch.sqrt(mu**2 + v) / 2))
    bound = (label * own).sum() + (entropy - 1 - torch.log(torch.tensor(1.0 * way))).sum()
    for j in range(way):
        q = torch.distributions.MultivariateNormal(means[j], covariances[j])
        bound = bound - torch.distributions.kl_divergence(q, torch.distributions.MultivariateNormal(mean, k))
    loss = -bound / points
    dx, *dlearned = torch.autograd.grad(loss, [x, raw, a, log_tau])
    write("cdkt", dict(way=way, dim=dim, steps=steps, labels=labels, support=support, query=query, features=x, **start,
                       loss=loss, dfeatures=dx, dlearned=torch.stack(dlearned)))


if __name__ == "__main__":
    OUT.mkdir(parents=True, exist_ok=True)
    proto_net()
    matching_net()
    relation_net("relation_net_mse", 5, "mse", [0, 1, 1])
    relation_net("relation_net_softmax", 10, "softmax", [1, 0])
    fitted_heads()
    pretraining_heads()
    dkt()
    ls_gibbs()
    ove()
    cdkt()
