"""What the formulas share: cases as dictionaries of JSON, episodes laid out class by class, random inputs."""

import torch

torch.set_default_dtype(torch.float64)
torch.set_num_threads(1)


def tensor(value):
    return torch.tensor(value, dtype=torch.float64)


def leaf(value):
    return tensor(value).requires_grad_()


def plain(value):
    """Tensors as nested lists, in full."""
    if torch.is_tensor(value):
        return value.detach().tolist()
    if isinstance(value, dict):
        return {key: plain(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [plain(inner) for inner in value]
    return value


class Layout:
    """Rows of an episode: class by class, in each class the support first."""

    def __init__(self, way, shot, query):
        each = shot + query
        self.way, self.rows = way, way * each
        self.labels = torch.arange(way).repeat_interleave(each)
        rows = torch.arange(self.rows)
        self.support, self.query = rows[rows % each < shot], rows[rows % each >= shot]

    def flat(self, features):
        return features.reshape(self.rows, -1)


def layout(case):
    return Layout(case["way"], case["shot"], case["query"])


class Draw:
    """Random inputs of new cases. `Draw.batch` gives others of the same shapes."""

    batch = 0

    def __init__(self, seed):
        self.generator = torch.Generator().manual_seed(seed + 10_000 * Draw.batch)

    def normal(self, *shape, scale=1.0):
        return plain(scale * torch.randn(*shape, generator=self.generator))

    def uniform(self, low, high, *shape):
        return plain(low + (high - low) * torch.rand(*shape, generator=self.generator))

    def integers(self, high, *shape):
        return plain(torch.randint(high, shape, generator=self.generator))

    def order(self, n):
        return plain(torch.randperm(n, generator=self.generator))
