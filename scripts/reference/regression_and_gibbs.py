"""dkt, ove, ls_gibbs: what DKT.py of deep-kernel-transfer and the Gibbs samplers of ove-polya-gamma-gp compute."""

import math

import numpy
import torch
import torch.nn.functional as F
from common import Draw, layout, leaf, plain, tensor

NODES, WEIGHTS = (tensor(x.tolist()) for x in numpy.polynomial.hermite.hermgauss(20))


def log_normal(z, cov):
    lower = torch.linalg.cholesky(cov)
    half = torch.linalg.solve_triangular(lower, z.unsqueeze(-1), upper=False)
    return -0.5 * half.square().sum() - lower.diagonal().log().sum() - 0.5 * len(z) * math.log(2 * math.pi)


def dkt_gram(kernel, scale, variance, x, y):
    if kernel == "linear":
        return scale * variance * (x @ y.T)
    return scale * (F.normalize(x) @ F.normalize(y).T)


def dkt(case):
    rows, kernel, noise = layout(case), case["kernel"], case["noise"]
    way, dim = rows.way, case["dim"]
    x, mean, raw_scale = leaf(case["features"]), leaf(case["mean"]), leaf(case["raw_outputscale"])
    raw_variance = leaf(case["raw_variance"]) if kernel == "linear" else None
    variance = F.softplus(raw_variance) if kernel == "linear" else [None] * way
    norm = None
    if kernel == "bncossim":
        norm = torch.nn.BatchNorm1d(dim, eps=case["norm_eps"]).train()
        norm.weight.data, norm.bias.data = tensor(case["norm_weight"]), tensor(case["norm_bias"])
    seen = norm(rows.flat(x)) if norm else rows.flat(x)
    total = 0.0
    for c in range(way):
        targets = torch.where(rows.labels == c, 1.0, -1.0)
        K = dkt_gram(kernel, F.softplus(raw_scale[c]), variance[c], seen, seen) + noise * torch.eye(rows.rows)
        total = total + log_normal(targets - mean[c], K)
    loss = -total / rows.rows / way
    loss.backward()
    found = {"loss": loss, "dfeatures": x.grad, "dmean": mean.grad, "draw_outputscale": raw_scale.grad}
    if kernel == "linear":
        found["draw_variance"] = raw_variance.grad
    second = rows.flat(tensor(case["test_features"]))
    if norm:
        found |= {"dnorm_weight": norm.weight.grad, "dnorm_bias": norm.bias.grad, "running_mean": norm.running_mean.clone(), "running_var": norm.running_var.clone()}
        second = norm.eval()(second)
    shown, asked, labels = second[rows.support], second[rows.query], rows.labels[rows.support]
    scores = []
    for c in range(way):
        scale, v = F.softplus(raw_scale[c]), variance[c]
        targets = torch.where(labels == c, 1.0, -1.0)
        K = dkt_gram(kernel, scale, v, shown, shown) + noise * torch.eye(len(shown))
        scores.append(mean[c] + dkt_gram(kernel, scale, v, asked, shown) @ torch.linalg.solve(K, targets - mean[c]))
    scores = torch.stack(scores, 1)
    right = int((scores.argmax(1) == rows.labels[rows.query]).sum())
    return found | {"test_scores": scores, "test_probs": scores.softmax(1), "test_correct": [right, len(asked)]}


DKT = [(4, 2, 3, 7, "bncossim", 0.1), (6, 1, 1, 20, "bncossim", 0.1), (2, 3, 2, 3, "bncossim", 0.5), (4, 1, 2, 9, "cossim", 0.02), (2, 2, 4, 6, "linear", 0.1)]


def new_dkt():
    for i, (way, shot, query, dim, kernel, noise) in enumerate(DKT):
        draw = Draw(400 + i)
        case = {"name": f"{way}-way {shot}-shot, {kernel}, noise {noise}", "way": way, "shot": shot, "query": query, "dim": dim, "kernel": kernel, "noise": noise,
                "mean": draw.normal(way, scale=0.6), "raw_outputscale": draw.normal(way), "features": draw.normal(way, shot + query, dim),
                "test_features": draw.normal(way, shot + query, dim)}
        case["outputscale"] = plain(F.softplus(tensor(case["raw_outputscale"])))
        if kernel == "linear":
            case["raw_variance"] = draw.normal(way)
        if kernel == "bncossim":
            case |= {"norm_eps": 1e-5, "norm_weight": draw.uniform(0.3, 1.7, dim), "norm_bias": draw.normal(dim, scale=0.4)}
        yield case | plain(dkt(case))


def gibbs_gram(case, log_scale, x, y):
    x, y = F.normalize(x), F.normalize(y)
    if case["kernel"] == "cosine":
        return log_scale.exp() * (x @ y.T)
    return log_scale.exp() * torch.exp(-(x[:, None, :] - y[None, :, :]).square().sum(-1) / 2)


def differences(labels, way):
    """A: point by point, for each the other classes ascending, f_y - f_c; f is class-major."""
    N = len(labels)
    A = torch.zeros(N * (way - 1), way * N)
    row = 0
    for n, label in enumerate(labels.tolist()):
        for c in range(way):
            if c != label:
                A[row, label * N + n], A[row, c * N + n] = 1.0, -1.0
                row += 1
    return A


def augmented(z, kappa, omega, cov):
    """log of the Gaussian integral with the constants that the code keeps."""
    M = len(omega)
    return log_normal(z, cov + torch.diag(1 / omega)) + 0.5 * M * math.log(2 * math.pi) - 0.5 * omega.log().sum() + 0.5 * (kappa**2 / omega).sum() - M * math.log(2)


def ove_scores(mean, cov):
    """sum over j of E log sigmoid(f_i - f_j), with the variance taken for the standard deviation. mean [Q, C], cov [Q, C, C]."""
    C, scores = mean.shape[1], []
    for i in range(C):
        total = 0.0
        for j in range(C):
            if j != i:
                m, v = mean[:, i] - mean[:, j], cov[:, i, i] + cov[:, j, j] - 2 * cov[:, i, j]
                total = total + (F.logsigmoid(m[:, None] + math.sqrt(2) * v[:, None] * NODES) * WEIGHTS).sum(1) / math.sqrt(math.pi)
        scores.append(total)
    return torch.stack(scores, 1)


def ove(case):
    rows, part = layout(case), case["marginal"]
    way, N = rows.way, rows.rows
    x, log_scale = leaf(case["features"]), leaf(case["log_scale"])
    flat = rows.flat(x)
    K = torch.block_diag(*[gibbs_gram(case, log_scale, flat, flat)] * way)
    A, omegas = differences(rows.labels, way), tensor(part["omega"])
    half = torch.full_like(omegas[0], 0.5)
    each = torch.stack([augmented(half / omega, half, omega, A @ K @ A.T) for omega in omegas])
    loss = -each.mean() / N
    loss.backward()
    marginal = {"loss": loss, "dfeatures": x.grad, "dlog_scale": log_scale.grad, "log_marginal": each}
    gain = K @ A.T @ torch.linalg.inv(A @ K @ A.T + torch.diag(1 / omegas[0]))
    conditional = {"conditional_mean": (gain @ (half / omegas[0])).reshape(way, N), "conditional_cov": K - gain @ A @ K}

    part = case["predictive"]
    x, log_scale = leaf(case["features"]), leaf(case["log_scale"])
    flat = rows.flat(x)
    shown, asked, S, Q = flat[rows.support], flat[rows.query], len(rows.support), len(rows.query)
    K = torch.block_diag(*[gibbs_gram(case, log_scale, shown, shown)] * way)
    across = gibbs_gram(case, log_scale, asked, shown)
    own = gibbs_gram(case, log_scale, asked, asked).diagonal()
    A, means, covs = differences(rows.labels[rows.support], way), [], []
    for omega in tensor(part["omega"]):
        inverse = torch.linalg.inv(A @ K @ A.T + torch.diag(1 / omega))
        mean, cov = [], []
        for q in range(Q):
            k = torch.block_diag(*[across[q : q + 1]] * way)
            gain = k @ A.T @ inverse
            mean.append(gain @ (0.5 / omega))
            cov.append(own[q] * torch.eye(way) - gain @ A @ k.T)
        means.append(torch.stack(mean))
        covs.append(torch.stack(cov))
    scores = torch.stack([ove_scores(mean, cov) for mean, cov in zip(means, covs)]).mean(0)
    loss = F.cross_entropy(scores, rows.labels[rows.query])
    loss.backward()
    mean = torch.stack(means)
    each = [torch.stack([F.logsigmoid(mean[..., i] - mean[..., j]) for j in range(way) if j != i]).sum(0) for i in range(way)]
    predictive = {"loss": loss, "dfeatures": x.grad, "dlog_scale": log_scale.grad, "latent_mean": mean, "latent_cov": torch.stack(covs), "scores": scores,
                  "probs": scores.softmax(1), "likelihood_at_mean": torch.stack(each, -1).exp() / torch.stack(each, -1).exp().sum(-1, keepdim=True)}
    return {"marginal": marginal, **conditional, "predictive": predictive, "quadrature": {"nodes": NODES, "weights": WEIGHTS}}


def ls(case):
    rows, part = layout(case), case["marginal"]
    way, N = rows.way, rows.rows
    x, log_scale = leaf(case["features"]), leaf(case["log_scale"])
    flat = rows.flat(x)
    K = gibbs_gram(case, log_scale, flat, flat)
    y = F.one_hot(rows.labels, way).T.double()
    each, cond_mean, cond_var = [], [], []
    for counts, omega in zip(tensor(part["counts"]), tensor(part["omega"]).clamp(min=1e-6)):
        kappa, total, mean, var = (y - counts) / 2, 0.0, [], []
        for c in range(way):
            total = total + augmented(kappa[c] / omega[c], kappa[c], omega[c], K)
            gain = K @ torch.linalg.inv(K + torch.diag(1 / omega[c]))
            mean.append(gain @ (kappa[c] / omega[c]))
            var.append((K - gain @ K).diagonal())
        each.append(total)
        cond_mean.append(torch.stack(mean))
        cond_var.append(torch.stack(var))
    each = torch.stack(each)
    loss = -each.mean() / N
    loss.backward()
    marginal = {"loss": loss, "dfeatures": x.grad, "dlog_scale": log_scale.grad, "log_marginal": each}

    part = case["predictive"]
    x, log_scale = leaf(case["features"]), leaf(case["log_scale"])
    flat = rows.flat(x)
    shown, asked = flat[rows.support], flat[rows.query]
    K, across = gibbs_gram(case, log_scale, shown, shown), gibbs_gram(case, log_scale, asked, shown)
    own = gibbs_gram(case, log_scale, asked, asked).diagonal()
    y, means, variances = F.one_hot(rows.labels[rows.support], way).T.double(), [], []
    for counts, omega in zip(tensor(part["counts"]), tensor(part["omega"]).clamp(min=1e-6)):
        kappa = (y - counts) / 2
        gains = [across @ torch.linalg.inv(K + torch.diag(1 / omega[c])) for c in range(way)]
        means.append(torch.stack([gains[c] @ (kappa[c] / omega[c]) for c in range(way)], 1))
        variances.append(torch.stack([own - (gains[c] * across).sum(1) for c in range(way)], 1))
    mean, var = torch.stack(means), torch.stack(variances)
    score = lambda normals: F.logsigmoid(mean + var.sqrt() * normals).mean((0, 1)).log_softmax(-1)
    scores = score(tensor(part["standard_normals"]))
    loss = F.nll_loss(scores, rows.labels[rows.query])
    loss.backward()
    predictive = {"loss": loss, "dfeatures": x.grad, "dlog_scale": log_scale.grad, "latent_mean": mean, "latent_cov": torch.diag_embed(var), "scores": scores,
                  "probs": scores.exp()}
    generator = torch.Generator().manual_seed(2)
    calls = torch.stack([score(torch.randn(1000, *mean.shape, generator=generator)).detach() for _ in range(200)])
    drawn = {"scores_monte_carlo": calls.mean(0), "scores_monte_carlo_error": (calls.std(0) / math.sqrt(200)).max()}
    found = {"marginal": marginal, "conditional_mean": torch.stack(cond_mean), "conditional_var": torch.stack(cond_var), "predictive": predictive}
    return found, {"predictive": drawn}


GIBBS = [(4, 1, 2, 14, "cosine", 0.4, 3), (2, 3, 1, 9, "cosine", -0.8, 1), (3, 2, 2, 14, "cosine", 2.2, 2), (2, 2, 1, 4, "rbf", -0.5, 4), (6, 1, 1, 16, "rbf", 1.0, 2)]


def gibbs_cases(seed):
    for i, (way, shot, query, dim, kernel, log_scale, chains) in enumerate(GIBBS):
        draw = Draw(seed + i)
        yield draw, {"name": f"{way}-way {shot}-shot, {kernel}, scale {log_scale}", "way": way, "shot": shot, "query": query, "dim": dim, "kernel": kernel,
                     "log_scale": log_scale, "chains": chains, "features": draw.uniform(0, 1, way, shot + query, dim)}


def joined(case, found):
    """Outputs into a case, also into its parts."""
    for key, value in plain(found).items():
        if isinstance(value, dict):
            case.setdefault(key, {}).update(value)
        else:
            case[key] = value
    return case


def new_ove():
    for draw, case in gibbs_cases(500):
        others, chains = case["way"] - 1, case["chains"]
        N, S = case["way"] * (case["shot"] + case["query"]), case["way"] * case["shot"]
        case |= {"marginal": {"omega": draw.uniform(0.02, 0.6, chains, N * others)}, "predictive": {"omega": draw.uniform(0.02, 0.6, chains, S * others)}}
        yield joined(case, ove(case))


def new_ls():
    for draw, case in gibbs_cases(600):
        way, chains = case["way"], case["chains"]
        for name, n in (("marginal", way * (case["shot"] + case["query"])), ("predictive", way * case["shot"])):
            counts = tensor(draw.integers(4, chains, way, n))
            omega = tensor(draw.uniform(0.05, 0.9, chains, way, n))
            labels = torch.arange(way).repeat_interleave(n // way)
            omega = torch.where((counts == 0) & (F.one_hot(labels, way).T == 0), torch.zeros_like(omega), omega)
            case[name] = {"counts": plain(counts), "omega": plain(omega)}
        Q = way * case["query"]
        case["predictive"]["standard_normals"] = draw.normal(4, chains, Q, way)
        found, drawn = ls(case)
        yield joined(joined(case, found), drawn)
