"""cdkt_ml, cdkt_pl, cdkt_predict: what CDKT.py of revisit-logistic-softmax computes, from its description."""

import math

import torch
import torch.nn.functional as F
from common import Draw, layout, leaf, plain, tensor

SMALLEST = 1e-6
# The learned parameter of each kernel beside its output scale.
SHAPES = {"rbf": "lengthscale", "matern": "lengthscale", "linear": "variance", "poli1": "offset", "poli2": "offset"}


def gram(kernel, x, y, shape):
    """Of unit vectors."""
    inner = x @ y.T
    if kernel in ("bncossim", "cossim"):
        return inner
    if kernel == "linear":
        return shape * inner
    if kernel.startswith("poli"):
        return (inner + shape) ** int(kernel[-1])
    squared = (x[:, None, :] - y[None, :, :]).square().sum(-1)
    if kernel == "rbf":
        return torch.exp(-squared / (2 * shape**2))
    same = squared == 0  # the root has no slope there, and the kernel none either
    r = math.sqrt(5) * torch.where(same, torch.ones_like(squared), squared).sqrt() / shape
    return torch.where(same, torch.ones_like(r), (1 + r + r**2 / 3) * torch.exp(-r))


class Kernels:
    """K_c = s_c k(z, z'), with leaves for the raw parameters."""

    def __init__(self, case):
        self.name, self.way = case.get("kernel", "bncossim"), case["way"]
        self.scale = leaf(case["raw_outputscale"])
        self.shape_name = SHAPES.get(self.name)
        self.shape = leaf(case[f"raw_{self.shape_name}"]) if self.shape_name else None

    def of(self, x, y):
        shape = [None] * self.way if self.shape is None else F.softplus(self.shape)
        scale = F.softplus(self.scale)
        return torch.stack([scale[c] * gram(self.name, x, y, shape[c]) for c in range(self.way)])

    def gradients(self):
        found = {"draw_outputscale": self.scale.grad}
        if self.shape is not None:
            found[f"draw_{self.shape_name}"] = self.shape.grad
        return found


def sweep(K, y, mean, tau, state, clamp_gamma):
    """One round in the released order: tilt, gamma, alpha, Sigma, mu, omega; the tilt is a constant."""
    mu, v, alpha, omega = state
    C = K.shape[0]
    tilt = ((mu**2 + v).sqrt() / tau).detach()
    gamma = torch.exp(torch.digamma(alpha) - mu / (2 * tau)) / (2 * C * torch.cosh(tilt / 2))
    if clamp_gamma:
        gamma = torch.clamp(gamma, min=SMALLEST)
    alpha = 1 + gamma.sum(0)
    sites = torch.diag_embed(omega) / tau**2
    eye = torch.eye(K.shape[1])
    Sigma = torch.linalg.inv(torch.linalg.inv(K) + sites)
    prior = torch.linalg.solve(eye + K @ sites, (mean * torch.ones(K.shape[1])).expand(C, -1).unsqueeze(-1)).squeeze(-1)
    mu = (Sigma @ (y - gamma).unsqueeze(-1)).squeeze(-1) / (2 * tau) + prior
    below = tilt if clamp_gamma else tilt.clamp(min=SMALLEST)
    omega = torch.clamp((gamma + y) * torch.tanh(tilt / 2) / (2 * below), min=SMALLEST)
    return (mu, Sigma.diagonal(dim1=1, dim2=2), alpha, omega), gamma, Sigma, tilt


def mean_field(K, labels, mean, tau, start, steps, clamp_gamma=True):
    y = F.one_hot(labels, K.shape[0]).T.double()
    state = start
    for _ in range(steps):
        state, gamma, Sigma, tilt = sweep(K, y, mean, tau, state, clamp_gamma)
    return state, gamma, Sigma, tilt


def elbo(K, y, mean, tau, state, gamma, Sigma, tilt):
    mu, _, alpha, _ = state
    C = K.shape[0]
    apart = mean - mu
    trace = torch.linalg.solve(K, Sigma + apart.unsqueeze(-1) * apart.unsqueeze(-2)).diagonal(dim1=1, dim2=2).sum()
    return (
        -math.log(2) * (y + gamma).sum()
        + ((y - gamma) * mu).sum() / (2 * tau)
        - 0.5 * (torch.logdet(K).sum() - torch.logdet(Sigma).sum() + trace)
        + (alpha + torch.lgamma(alpha) + (1 - alpha) * torch.digamma(alpha)).sum()
        - (gamma * (torch.log(gamma + 1e-6) - 1)).sum()
        + (gamma * (torch.digamma(alpha) - math.log(C))).sum()
        - alpha.sum() / C
        - ((y + gamma) * torch.log(torch.cosh(tilt / 2) + 1e-6)).sum()
    )


def began(part):
    return tuple(tensor(part[key]) for key in ("mu_in", "sigma_in_diag", "alpha0", "omega0"))


def handed_on(state, Sigma):
    return {"mu_out": state[0], "sigma_out_diag": state[1], "sigma_out": Sigma}


def ml(case):
    rows, tau, episodes = layout(case), case["tau"], []
    y = F.one_hot(rows.labels, rows.way).T.double()
    for part in case["episodes"]:
        kernels, x, mean = Kernels(case), leaf(part["features"]), leaf(case["mean"])
        z = F.normalize(rows.flat(x))
        K = kernels.of(z, z)
        state, gamma, Sigma, tilt = mean_field(K, rows.labels, mean, tau, began(part), case["steps"])
        loss = -elbo(K, y, mean, tau, state, gamma, Sigma, tilt)
        loss.backward()
        found = {"loss": loss, "dfeatures": x.grad, **kernels.gradients(), **handed_on(state, Sigma)}
        if case.get("mean_learned"):
            found["dmean"] = mean.grad
        episodes.append(found)
    return {"episodes": episodes}


def conditioned(kernels, K, Sigma, mu, shown, asked):
    """Joint Gaussian of each class at `asked`; the prior mean does not enter."""
    across = kernels.of(shown, asked)
    weights = torch.linalg.solve(K, across)
    mean = (weights.transpose(1, 2) @ mu.unsqueeze(-1)).squeeze(-1)
    cov = kernels.of(asked, asked) - across.transpose(1, 2) @ weights + weights.transpose(1, 2) @ Sigma @ weights
    return mean, cov


def pl(case):
    rows, tau, episodes = layout(case), case["tau"], []
    support = torch.arange(case["way"] * case["shot"])
    for part in case["episodes"]:
        kernels, x = Kernels(case), leaf(part["features"])
        z = F.normalize(rows.flat(x))
        K = kernels.of(z[support], z[support])
        state, _, Sigma, _ = mean_field(K, rows.labels[support], case["mean"], tau, began(part), case["steps"])
        mean, cov = conditioned(kernels, K, Sigma, state[0], z[support], z)
        lower = torch.linalg.cholesky(cov)
        f = mean.unsqueeze(-1) + lower @ tensor(part["standard_normals"]).transpose(1, 2)
        loss = F.cross_entropy(F.logsigmoid(f / tau).mean(-1).T, rows.labels)
        loss.backward()
        episodes.append({
            "loss": loss, "dfeatures": x.grad, **kernels.gradients(), **handed_on(state, Sigma),
            "support_rows": support, "support_labels": rows.labels[support], "scored_labels": rows.labels,
            "predictive_mean": mean, "predictive_scale_tril": lower,
        })
    return {"episodes": episodes}


def likelihood(f, tau):
    sigma = torch.sigmoid(f / tau)
    return sigma / sigma.sum(-2, keepdim=True)


def predict(case):
    rows, tau, kernels = layout(case), case["tau"], Kernels(case)
    z = F.normalize(rows.flat(tensor(case["features"])))
    shown, asked = z[rows.support], z[rows.query]
    K = kernels.of(shown, shown)
    mu0 = tensor(case["mu0"])
    start = (mu0, torch.full_like(mu0, case["v0"]), tensor(case["alpha0"]), tensor(case["omega0"]))
    labels = rows.labels[rows.support]
    state, _, Sigma, _ = mean_field(K, labels, case["mean"], tau, start, case["steps"], clamp_gamma=False)
    mean, cov = conditioned(kernels, K, Sigma, state[0], shown, asked)
    lower = torch.linalg.cholesky(cov)
    samples = (mean.unsqueeze(-1) + lower @ tensor(case["standard_normals"]).transpose(1, 2)).permute(2, 0, 1)
    found = {
        "support_mu": state[0], "support_sigma": Sigma, "predictive_mean": mean, "predictive_var": cov.diagonal(dim1=1, dim2=2),
        "predictive_scale_tril": lower, "samples": samples, "predicted_of_block": likelihood(samples, tau).mean(0).argmax(0),
    }
    draws, generator = 200_000, torch.Generator().manual_seed(1)
    parts = []
    for _ in range(4):
        normals = torch.randn(draws // 4, *mean.shape, 1, generator=generator)
        parts.append(likelihood(mean + (lower @ normals).squeeze(-1), tau).mean(0))
    parts = torch.stack(parts)
    spread = (parts.max(0).values - parts.min(0).values).max()
    # Compared in files from elsewhere by their own spread, so not by `--check`.
    return found, {"probs_monte_carlo": parts.mean(0), "probs_monte_carlo_draws": draws, "probs_monte_carlo_spread": spread}


def raw_parameters(draw, way, kernel):
    found = {"raw_outputscale": draw.normal(way, scale=0.7)}
    if kernel in SHAPES:
        found[f"raw_{SHAPES[kernel]}"] = draw.normal(way, scale=0.5)
    for name in list(found):
        found[name.removeprefix("raw_")] = plain(F.softplus(tensor(found[name])))
    return found


def started(draw, C, N, first):
    part = {"alpha0": draw.uniform(5, 10, N), "omega0": draw.uniform(0, 1, C, N)}
    if first:
        part |= {"mu_in": draw.normal(C, N), "sigma_in_diag": [[0.01] * N] * C}
    return part


def chained(case, function, episodes, points):
    """Each episode begins with the state that the one before left."""
    draw, C = case.pop("draw"), case["way"]
    case["episodes"] = []
    for i in range(episodes):
        N = C * (case["shot"] + case["query"])
        part = {"features": draw.uniform(0, 1, C, case["shot"] + case["query"], case["dim"]), **started(draw, C, points(case), i == 0)}
        if function is pl:
            part["standard_normals"] = draw.normal(C, 8, N)
        if i > 0:
            before = case["episodes"][-1]
            part |= {"mu_in": before["mu_out"], "sigma_in_diag": before["sigma_out_diag"]}
        case["episodes"].append(part)
        found = plain(function({**case, "episodes": [part]}))["episodes"][0]
        part |= found
    return case


ML = [  # way, shot, query, dim, tau, steps, kernel, mean, learned
    (4, 2, 1, 19, 0.2, 2, "bncossim", 0.0, False), (2, 3, 3, 17, 0.7, 2, "bncossim", -2.5, True), (6, 1, 1, 20, 1.3, 3, "cossim", 0.4, False),
    (3, 1, 2, 6, 0.5, 2, "rbf", -1.0, True), (2, 1, 1, 5, 0.2, 1, "matern", 0.0, False), (3, 2, 1, 12, 1.0, 2, "linear", 0.0, False),
    (2, 2, 1, 9, 0.5, 2, "poli1", 0.0, False), (3, 1, 1, 7, 0.3, 4, "poli2", -0.5, True), (5, 1, 2, 30, 0.1, 2, "bncossim", 0.0, False),
]


def new_ml():
    for i, (way, shot, query, dim, tau, steps, kernel, mean, learned) in enumerate(ML):
        draw = Draw(100 + i)
        case = {"name": f"{way}-way {shot}-shot tau {tau}, {kernel}, {steps} steps", "way": way, "shot": shot, "query": query, "dim": dim, "tau": tau,
                "steps": steps, "kernel": kernel, "mean": mean, "mean_learned": learned, **raw_parameters(draw, way, kernel), "draw": draw}
        yield chained(case, ml, 3 if i == 0 else 2, lambda case: case["way"] * (case["shot"] + case["query"]))


PL = [(3, 2, 2, 15, 0.2, 2, None, 0.0), (4, 1, 1, 12, 0.5, 2, None, -1.0), (2, 3, 1, 11, 1.4, 3, None, 0.3), (3, 1, 2, 6, 0.5, 2, "rbf", 0.0), (2, 2, 2, 10, 1.0, 1, "linear", 0.0)]


def new_pl():
    for i, (way, shot, query, dim, tau, steps, kernel, mean) in enumerate(PL):
        draw = Draw(200 + i)
        case = {"name": f"{way}-way {shot}-shot tau {tau}, {kernel}", "way": way, "shot": shot, "query": query, "dim": dim, "tau": tau, "steps": steps,
                "mean": mean, **raw_parameters(draw, way, kernel or "bncossim"), "draw": draw}
        if kernel:
            case["kernel"] = kernel
        yield chained(case, pl, 2, lambda case: case["way"] * case["shot"])


PREDICT = [(4, 1, 2, 12, 0.2, -5.0, "bncossim", 30), (3, 3, 1, 13, 0.5, -5.0, "bncossim", 20), (2, 2, 3, 11, 1.0, 1.5, "cossim", 30),
           (3, 1, 1, 5, 0.3, 0.0, "matern", 7), (5, 2, 1, 8, 1.0, -5.0, "rbf", 30), (2, 1, 2, 6, 0.4, 0.0, "poli2", 30)]


def new_predict():
    for i, (way, shot, query, dim, tau, mean, kernel, steps) in enumerate(PREDICT):
        draw, S = Draw(300 + i), way * shot
        case = {"name": f"{way}-way {shot}-shot tau {tau}, {kernel}, mean {mean}", "way": way, "shot": shot, "query": query, "dim": dim, "tau": tau,
                "mean": mean, "kernel": kernel, "steps": steps, **raw_parameters(draw, way, kernel),
                "features": draw.uniform(0, 1, way, shot + query, dim), "alpha0": draw.uniform(5, 10, S), "omega0": draw.uniform(0, 1, way, S),
                "mu0": draw.normal(way, S, scale=0.01), "v0": 0.01, "standard_normals": draw.normal(way, 8, way * query)}
        found, drawn = predict(case)
        yield case | plain(found) | plain(drawn)
