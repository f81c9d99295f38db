"""bayesian_maml, maml, protonet, matchingnet, relationnet, head_fit, pretraining: the episodic networks and transfer heads."""

import math

import torch
import torch.nn.functional as F
from common import Draw, layout, leaf, plain, tensor

# ---- Bayesian MAML


def weights_of(theta, dim, way):
    return theta[: dim * way].reshape(dim, way), theta[dim * way : dim * way + way], theta[-1]


def log_prior(theta, released):
    w, log_lambda = theta[:-1], theta[-1]
    if not released:  # the chaser: lambda has no density
        return torch.distributions.Normal(0.0, 1.0).log_prob(w).sum()
    gamma = math.log(0.1) - 0.1 * log_lambda.exp()
    return torch.distributions.Normal(0.0, torch.exp(-log_lambda)).log_prob(w).sum() + gamma


def energy_gradients(theta, x, labels, way, released):
    found = []
    for particle in theta:
        W, b, _ = weights_of(particle, x.shape[1], way)
        energy = F.cross_entropy(x @ W + b, labels, reduction="sum") - log_prior(particle, released)
        found.append(torch.autograd.grad(energy, particle, create_graph=True, retain_graph=True)[0])
    return torch.stack(found)


def svgd(theta, x, labels, way, rate, released):
    apart = theta[:, None, :] - theta[None, :, :]
    squared = apart.square().sum(-1)
    same = squared == 0
    distance = torch.where(same, torch.zeros_like(squared), torch.where(same, torch.ones_like(squared), squared).sqrt())
    h = distance.flatten().median() / math.log(len(theta))
    kernel = torch.exp(-distance / h)
    repulsion = (kernel.unsqueeze(-1) * apart).sum(1) / h
    energies = energy_gradients(theta, x, labels, way, released)
    moved = theta - rate * (kernel @ energies - repulsion)
    return moved, {"energy_gradients": energies, "kernel": kernel, "repulsion": repulsion, "bandwidth": h}


def mixture(theta, x, way):
    scores = torch.stack([(x @ weights_of(p, x.shape[1], way)[0] + weights_of(p, x.shape[1], way)[1]).log_softmax(1) for p in theta])
    return scores.logsumexp(0) - math.log(len(theta))


def bayesian_maml(case):
    rows, way, released = layout(case), case["way"], case["variant"] == "BayesianMAML"
    x, theta = leaf(case["features"]), leaf(case["theta"])
    flat = rows.flat(x)
    shown, asked, labels = flat[rows.support], flat[rows.query], rows.labels[rows.support]
    at, steps = theta, []
    for _ in range(case["steps"]):
        moved, parts = svgd(at, shown, labels, way, case["inner_lr"], released)
        steps.append({"theta": at, **parts, "next_theta": moved})
        at = moved
    scores = mixture(at, asked, way)
    if released:
        loss = F.nll_loss(scores, rows.labels[rows.query])
    else:
        leader = at
        order = torch.cat([rows.support, rows.query])
        for _ in range(case["steps"]):
            leader, _ = svgd(leader, flat[order], rows.labels[order], way, case["leader_lr"], released)
        loss = (at - leader.detach()).square().sum()
    found = {"scores": scores, "log_prior": torch.stack([log_prior(p, released) for p in theta]), "svgd": steps, "loss": loss}
    found["dfeatures"], found["dtheta"] = torch.autograd.grad(loss, [x, theta])
    return found


BMAML = [("BayesianMAML", 4, 1, 2, 5, 5, 1, 0.01), ("BayesianMAML", 2, 3, 1, 3, 7, 4, 0.05), ("ChaserBayesianMAML", 3, 2, 1, 3, 5, 1, 0.01),
         ("ChaserBayesianMAML", 2, 1, 3, 4, 6, 3, 0.02), ("BayesianMAML", 5, 1, 1, 2, 20, 1, 0.01), ("ChaserBayesianMAML", 4, 1, 1, 2, 3, 5, 0.01)]


def new_bayesian_maml():
    for i, (variant, way, shot, query, dim, particles, steps, rate) in enumerate(BMAML):
        draw = Draw(700 + i)
        case = {"name": f"{variant}, {way}-way {shot}-shot, {particles} particles, {steps} steps", "variant": variant, "way": way, "shot": shot, "query": query,
                "dim": dim, "particles": particles, "steps": steps, "inner_lr": rate, "features": draw.normal(way, shot + query, dim),
                "theta": draw.normal(particles, dim * way + way + 1, scale=0.7)}
        if variant.startswith("Chaser"):
            case["leader_lr"] = rate / 2
        yield case | plain(bayesian_maml(case))


# ---- MAML


def maml_scores(case, weights, x):
    if case["network"] == "conv":
        named = lambda name: weights[f"feature.trunk.0.{name}"]
        x = F.conv2d(x, named("C.weight"), named("C.bias"), padding=1)
        x = F.batch_norm(x, None, None, named("BN.weight"), named("BN.bias"), training=True)
        x = F.max_pool2d(F.relu(x), 2)
    return F.linear(x.flatten(1), weights["classifier.weight"], weights["classifier.bias"])


def maml(case):
    rows, first = layout(case), {name: leaf(value) for name, value in case["weights"].items()}
    losses, scores = [], []
    for images in tensor(case["images"]):
        x = images.reshape(rows.rows, *images.shape[2:])
        weights = dict(first)
        for _ in range(case["inner_steps"]):
            loss = F.cross_entropy(maml_scores(case, weights, x[rows.support]), rows.labels[rows.support])
            slopes = torch.autograd.grad(loss, list(weights.values()), create_graph=True, allow_unused=True)
            if case["first_order"]:
                slopes = [slope.detach() for slope in slopes]
            weights = {name: value - case["inner_lr"] * slope for (name, value), slope in zip(weights.items(), slopes)}
        scores.append(maml_scores(case, weights, x[rows.query]))
        losses.append(F.cross_entropy(scores[-1], rows.labels[rows.query]))
    losses = torch.stack(losses)
    slopes = torch.autograd.grad(losses.sum(), list(first.values()))
    return {"losses": losses, "loss": losses.sum(), "dweights": dict(zip(first, slopes)), "scores": torch.stack(scores), "adapted_weights_of_last_task": weights}


MAML = [("linear", 4, 1, 3, 3, False, 3, 0.3, (5, 1, 1), 0), ("linear", 2, 3, 1, 1, True, 1, 0.7, (6, 1, 1), 0), ("conv", 3, 2, 1, 2, False, 2, 0.05, (2, 6, 6), 3),
        ("conv", 2, 1, 3, 3, True, 4, 0.1, (1, 8, 6), 2), ("conv", 4, 1, 1, 1, False, 5, 0.01, (3, 7, 7), 2)]


def new_maml():
    for i, (network, way, shot, query, tasks, first_order, steps, rate, shape, width) in enumerate(MAML):
        draw = Draw(800 + i)
        weights, dim = {}, math.prod(shape)
        if network == "conv":
            dim = width * (shape[1] // 2) * (shape[2] // 2)
            weights = {"C.weight": draw.normal(width, shape[0], 3, 3, scale=0.4), "C.bias": draw.normal(width, scale=0.2),
                       "BN.weight": draw.uniform(0.5, 1.5, width), "BN.bias": draw.normal(width, scale=0.3)}
            weights = {f"feature.trunk.0.{name}": value for name, value in weights.items()}
        weights |= {"classifier.weight": draw.normal(way, dim, scale=0.4), "classifier.bias": draw.normal(way, scale=0.1)}
        case = {"name": f"{network}, {way}-way {shot}-shot, {steps} steps, first order {first_order}", "way": way, "shot": shot, "query": query, "tasks": tasks,
                "network": network, "first_order": first_order, "inner_steps": steps, "inner_lr": rate, "images": draw.normal(tasks, way, shot + query, *shape), "weights": weights}
        yield case | plain(maml(case))


# ---- metric networks


def protonet(case):
    rows, x = layout(case), leaf(case["features"])
    flat = rows.flat(x)
    means = torch.stack([flat[rows.support][rows.labels[rows.support] == c].mean(0) for c in range(rows.way)])
    scores = -(flat[rows.query][:, None, :] - means).square().sum(-1)
    loss = F.cross_entropy(scores, rows.labels[rows.query])
    loss.backward()
    return {"loss": loss, "dfeatures": x.grad, "scores": scores, "probs": scores.softmax(1)}


def new_protonet():
    for i, (way, shot, query, dim, scale) in enumerate([(7, 2, 3, 9, 0.8), (3, 1, 4, 2, 2.0), (2, 5, 1, 16, 0.3), (4, 4, 2, 3, 5.0)]):
        draw = Draw(900 + i)
        case = {"name": f"{way}-way {shot}-shot, scale {scale}", "way": way, "shot": shot, "query": query, "dim": dim, "features": draw.normal(way, shot + query, dim, scale=scale)}
        yield case | plain(protonet(case))


def matchingnet(case):
    rows, x, dim = layout(case), leaf(case["features"]), case["dim"]
    encoder, cell = torch.nn.LSTM(dim, dim, 1, bidirectional=True), torch.nn.LSTMCell(2 * dim, dim)
    parameters = {f"G_encoder.{n}": p for n, p in encoder.named_parameters()} | {f"FCE.lstmcell.{n}": p for n, p in cell.named_parameters()}
    for name, parameter in parameters.items():
        parameter.data = tensor(case["weights"][name])
    flat = rows.flat(x)
    S, f = flat[rows.support], flat[rows.query]
    both, _ = encoder(S.unsqueeze(1))
    G = S + both[:, 0, :dim] + both[:, 0, dim:]
    h, c = f, torch.zeros_like(f)
    for _ in range(len(S)):
        read = (h @ G.T).softmax(1) @ G
        h, c = cell(torch.cat([f, read], 1), (h, c))
        h = h + f
    unit = lambda v: v / (v.norm(dim=1, keepdim=True) + 1e-5)
    attention = (100 * F.relu(unit(h) @ unit(G).T)).softmax(1)
    log_probs = (attention @ F.one_hot(rows.labels[rows.support], rows.way).double() + 1e-6).log()
    loss = F.nll_loss(log_probs, rows.labels[rows.query])
    loss.backward()
    return {"loss": loss, "dfeatures": x.grad, "dweights": {n: p.grad for n, p in parameters.items()}, "support_embedding": G, "query_embedding": h, "log_probs": log_probs}


def new_matchingnet():
    for i, (way, shot, query, dim, signed) in enumerate([(4, 1, 1, 3, False), (2, 3, 2, 4, True), (5, 2, 1, 6, False)]):
        draw, shapes = Draw(1000 + i), {}
        for prefix, suffix, inputs in (("G_encoder.", "_l0", dim), ("G_encoder.", "_l0_reverse", dim), ("FCE.lstmcell.", "", 2 * dim)):
            shapes |= {f"{prefix}weight_ih{suffix}": (4 * dim, inputs), f"{prefix}weight_hh{suffix}": (4 * dim, dim), f"{prefix}bias_ih{suffix}": (4 * dim,), f"{prefix}bias_hh{suffix}": (4 * dim,)}
        features = draw.normal(way, shot + query, dim) if signed else draw.uniform(0, 1, way, shot + query, dim)
        case = {"name": f"{way}-way {shot}-shot, both signs {signed}", "way": way, "shot": shot, "query": query, "dim": dim, "features": features,
                "weights": {name: draw.uniform(-0.5, 0.5, *shape) for name, shape in shapes.items()}}
        yield case | plain(matchingnet(case))


def relation_scores(case, weights, proto, query, running):
    way, Q = len(proto), len(query)
    x = torch.cat([proto.unsqueeze(0).expand(Q, *proto.shape), query.unsqueeze(1).expand(Q, way, *query.shape[1:])], 2).flatten(0, 1)
    train, seen = running is None, {}
    for i, layer in enumerate(("layer1", "layer2")):
        x = F.conv2d(x, weights[f"{layer}.C.weight"], weights[f"{layer}.C.bias"], padding=case["padding"][i])
        if train:
            seen[f"{layer}.BN.running_mean"], seen[f"{layer}.BN.running_var"] = x.mean((0, 2, 3)).detach(), x.var((0, 2, 3)).detach()
            x = F.batch_norm(x, None, None, weights[f"{layer}.BN.weight"], weights[f"{layer}.BN.bias"], training=True)
        else:
            x = F.batch_norm(x, running[f"{layer}.BN.running_mean"], running[f"{layer}.BN.running_var"], weights[f"{layer}.BN.weight"], weights[f"{layer}.BN.bias"])
        x = F.max_pool2d(F.relu(x), 2)
    x = F.relu(F.linear(x.flatten(1), weights["fc1.weight"], weights["fc1.bias"]))
    x = F.linear(x, weights["fc2.weight"], weights["fc2.bias"])
    return (torch.sigmoid(x) if case["loss_type"] == "mse" else x).reshape(Q, way), seen


def relationnet(case):
    rows, maps = layout(case), leaf(case["maps"])
    weights = {name: leaf(value) for name, value in case["weights"].items()}
    flat = maps.reshape(rows.rows, *maps.shape[2:])
    proto = torch.stack([flat[rows.support][rows.labels[rows.support] == c].mean(0) for c in range(rows.way)])
    scores, running = relation_scores(case, weights, proto, flat[rows.query], None)
    truth = rows.labels[rows.query]
    loss = F.mse_loss(scores, F.one_hot(truth, rows.way).double()) if case["loss_type"] == "mse" else F.cross_entropy(scores, truth)
    loss.backward()
    tested, _ = relation_scores(case, weights, proto, flat[rows.query], running)
    return {"loss": loss, "dmaps": maps.grad, "dweights": {n: w.grad for n, w in weights.items()}, "running": running, "scores_train_mode": scores, "scores_eval_mode": tested}


def new_relationnet():
    for i, (way, shot, query, shape, loss_type) in enumerate([(4, 2, 1, (3, 5, 5), "mse"), (2, 1, 3, (2, 6, 7), "softmax"), (3, 1, 1, (2, 12, 10), "mse"), (2, 3, 2, (4, 13, 13), "softmax")]):
        draw, (c, h, w) = Draw(1100 + i), shape
        padding = 1 if h < 10 and w < 10 else 0
        shrink = lambda side: (side + 2 * padding - 2) // 2
        features = c * shrink(shrink(h)) * shrink(shrink(w))
        shapes = {"layer1.C.weight": (c, 2 * c, 3, 3), "layer1.C.bias": (c,), "layer2.C.weight": (c, c, 3, 3), "layer2.C.bias": (c,), "fc1.weight": (8, features), "fc1.bias": (8,), "fc2.weight": (1, 8), "fc2.bias": (1,)}
        weights = {name: draw.normal(*shape, scale=0.5) for name, shape in shapes.items()}
        for layer in ("layer1", "layer2"):
            weights |= {f"{layer}.BN.weight": draw.uniform(0.5, 1.5, c), f"{layer}.BN.bias": draw.normal(c, scale=0.3)}
        case = {"name": f"{way}-way {shot}-shot, {h}x{w} maps, {loss_type}", "way": way, "shot": shot, "query": query, "shape": list(shape), "loss_type": loss_type,
                "padding": [padding, padding], "maps": draw.uniform(0, 1, way, shot + query, *shape), "weights": weights}
        yield case | plain(relationnet(case))


# ---- transfer


def head_scores(head, weights, x, scale):
    if head == "linear":
        return F.linear(x, weights["weight"], weights["bias"])
    unit = x / (x.norm(dim=1, keepdim=True) + 1e-5)
    return scale * F.linear(unit, weights["g"] * weights["v"] / weights["v"].norm(dim=1, keepdim=True))


def head_fit(case):
    rows, x = layout(case), layout(case).flat(tensor(case["features"]))
    weights = {name: leaf(value) for name, value in case["start"].items()}
    optimiser = torch.optim.SGD(weights.values(), **case["sgd"])
    shown, labels = x[rows.support], rows.labels[rows.support]
    for order in case["orders"]:
        for i in range(0, len(order), case["batch"]):
            chosen = order[i : i + case["batch"]]
            optimiser.zero_grad()
            F.cross_entropy(head_scores(case["head"], weights, shown[chosen], 2), labels[chosen]).backward()
            optimiser.step()
    scores = head_scores(case["head"], weights, x[rows.query], 2)
    return {"end": weights, "scores": scores, "probs": scores.softmax(1)}


def new_head_fit():
    for i, (head, way, shot, query, dim) in enumerate([("linear", 5, 1, 2, 8), ("linear", 4, 3, 1, 3), ("cosine", 5, 5, 1, 6), ("cosine", 2, 1, 4, 3), ("cosine", 7, 2, 1, 5)]):
        draw = Draw(1200 + i)
        start = {"weight": draw.normal(way, dim, scale=0.4), "bias": draw.normal(way, scale=0.1)} if head == "linear" else {"g": draw.uniform(0.3, 1.2, way, 1), "v": draw.normal(way, dim)}
        case = {"name": f"{head}, {way}-way {shot}-shot", "head": head, "way": way, "shot": shot, "query": query, "dim": dim, "features": draw.normal(way, shot + query, dim),
                "sgd": {"lr": 0.01, "momentum": 0.9, "dampening": 0.9, "weight_decay": 0.001}, "batch": 4, "orders": [draw.order(way * shot) for _ in range(100)], "start": start}
        yield case | plain(head_fit(case))


def pretraining(case):
    x, weights = leaf(case["features"]), {name: leaf(value) for name, value in case["weights"].items()}
    scores = head_scores(case["head"], weights, x, case.get("scale"))
    loss = F.cross_entropy(scores, torch.tensor(case["labels"]))
    loss.backward()
    return {"loss": loss, "scores": scores, "dfeatures": x.grad, "dweights": {name: value.grad for name, value in weights.items()}}


def new_pretraining():
    for i, (head, classes, rows, dim) in enumerate([("linear", 3, 16, 4), ("linear", 64, 5, 2), ("cosine", 100, 8, 4), ("cosine", 200, 3, 2), ("cosine", 300, 4, 2)]):
        draw = Draw(1300 + i)
        weights = {"weight": draw.normal(classes, dim), "bias": draw.normal(classes)} if head == "linear" else {"g": draw.uniform(0.2, 1.5, classes, 1), "v": draw.normal(classes, dim)}
        case = {"name": f"{head}, {classes} classes", "head": head, "dim": dim, "classes": classes, "features": draw.normal(rows, dim), "labels": draw.integers(classes, rows), "weights": weights}
        if head == "cosine":
            case["scale"] = 2 if classes <= 200 else 10
        yield case | plain(pretraining(case))
