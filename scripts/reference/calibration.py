"""calibration_cdkt, calibration_dkt, calibration_ove: measures, the grid of two temperatures, and where LBFGS stops."""

import numpy
import torch
import torch.nn.functional as F
from common import Draw, plain, tensor

BINS = 15


def binned(probs, labels):
    """ECE, MCE and the accuracy of each bin (lo, hi] of the largest probability."""
    confidence, predicted = probs.max(1)
    right = (predicted == labels).double()
    borders = torch.linspace(0, 1, BINS + 1)
    ece, mce, accuracy = 0.0, 0.0, []
    for low, high in zip(borders[:-1], borders[1:]):
        inside = (confidence > low) & (confidence <= high)
        accuracy.append(right[inside].mean().item() if inside.any() else 0.0)
        if inside.any():
            gap = abs(confidence[inside].mean().item() - accuracy[-1])
            ece, mce = ece + gap * inside.double().mean().item(), max(mce, gap)
    return ece, mce, accuracy


def measure(case):
    labels, logits = torch.tensor(case["labels"]), tensor(case["logits"]) / case["temperature"]
    probs = logits.softmax(1)
    ece, mce, accuracy = binned(probs, labels)
    found = {"probs": probs, "ece": ece, "mce": mce, "ece_as_released": ece, "mce_as_released": mce, "reported_ece": ece, "reported_mce": mce,
             "reported_brier": (probs - F.one_hot(labels, case["way"])).square().sum(1).mean(), "bin_accuracy": accuracy}
    alone = torch.sigmoid(logits)
    found["ece_one_vs_rest"] = found["ece_one_vs_rest_as_released"] = binned(alone / alone.sum(1, keepdim=True), labels)[0]
    return found


def grid(case):
    samples, labels, t = tensor(case["samples"]), torch.tensor(case["labels"]), case["temperatures"]
    table = numpy.zeros((2, len(t), len(t)))
    for i, first in enumerate(t):
        sigma = torch.sigmoid(samples / first)
        p = (sigma / sigma.sum(1, keepdim=True)).mean(0).T
        for j, second in enumerate(t):
            table[0, i, j], table[1, i, j], _ = binned((p.log() / second).softmax(1), labels)
    found = {"ece_row_0": table[0, 0].tolist(), "mce_row_0": table[1, 0].tolist(), "ece_column_0": table[0, :, 0].tolist(), "mce_column_0": table[1, :, 0].tolist()}
    for name, values in (("min_ece", table[0]), ("min_mce", table[1])):
        i, j = (int(k) for k in numpy.unravel_index(values.argmin(), values.shape))
        found[name] = {"likelihood": t[i], "second": t[j], "index": [i, j], "value": values[i, j].item(), "next_value": numpy.sort(values.ravel())[1].item()}
    return found


def temperature(case):
    logits, labels = tensor(case["logits"]) / case["temperature"], torch.tensor(case["labels"])
    return {"nll": F.cross_entropy(logits, labels), "ece": binned(logits.softmax(1), labels)[0]}


def check(case):
    found = {"measure": measure, "grid": grid, "temperature": temperature}[case["kind"]](case)
    return {name: value for name, value in found.items() if name in case}


FIELDS = {
    "cdkt": ["ece", "mce", "ece_as_released", "mce_as_released", "reported_ece", "reported_mce", "reported_brier", "bin_accuracy"],
    "dkt": ["ece", "ece_one_vs_rest", "ece_as_released", "ece_one_vs_rest_as_released"],
    "ove": ["ece", "ece_as_released", "reported_ece", "reported_mce", "bin_accuracy"],
}


def new(program, seed):
    for i, (way, rows, t, scale) in enumerate([(5, 90, 1.0, 1.5), (2, 40, 1.0, 4.0), (10, 70, 0.6, 0.5), (3, 30, 1.7, 30.0)]):
        draw = Draw(seed + i)
        case = {"name": f"{way}-way, {rows} rows, temperature {t}", "kind": "measure", "rows": rows, "way": way, "temperature": t,
                "logits": draw.normal(rows, way, scale=scale), "labels": draw.integers(way, rows)}
        found = plain(measure(case))
        yield case | {name: found[name] for name in ["probs", *FIELDS[program]]}
    if program == "cdkt":
        for i, (way, rows, times) in enumerate([(4, 30, 6), (2, 25, 12)]):
            draw = Draw(seed + 50 + i)
            case = {"name": f"grid, {way}-way", "kind": "grid", "times": times, "way": way, "rows": rows, "samples": draw.normal(times, way, rows, scale=2.0),
                    "labels": draw.integers(way, rows), "temperatures": [round(0.2 + 0.01 * k, 2) for k in range(40)]}
            yield case | plain(grid(case))
    if program == "dkt":
        for i, (way, rows) in enumerate([(4, 50), (2, 80)]):
            draw = Draw(seed + 50 + i)
            logits, labels = draw.normal(rows, way, scale=2.0), draw.integers(way, rows)
            chosen = torch.tensor([2.0], requires_grad=True)
            optimiser = torch.optim.LBFGS([chosen], lr=0.01, max_iter=300)

            def closure():
                optimiser.zero_grad()
                loss = F.cross_entropy(tensor(logits) / chosen, torch.tensor(labels))
                loss.backward()
                return loss

            optimiser.step(closure)
            case = {"name": f"temperature, {way}-way", "kind": "temperature", "rows": rows, "way": way, "logits": logits, "labels": labels, "iterations": 300, "lr": 0.01, "temperature": chosen.item()}
            yield case | plain(temperature(case))
