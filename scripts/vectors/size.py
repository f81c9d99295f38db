#!/usr/bin/env python3
"""Many rows: LogisticSoftmaxGPC by inducing points beside GPyTorch's SVGP, logistic regression and the exact posterior, in one run.

    python scripts/vectors/size.py [--sets digits,emnist] [--emnist FOLDER] [--vectors NAME=FILE.npy] [--rows 4000] [--epochs 20,level] [--inducing 300]

Needs the package `pysiskin`, scikit-learn, torch, gpytorch; for EMNIST Pillow and a folder with one folder of images per class. SVGP has as many
inducing points (k-means centres), an RBF kernel with a length for each input, independent latent functions, a softmax likelihood, Adam
(rate 0.02) on minibatches of 256, for each of `--epochs` anew; `level`: as long as our fit by so many points took, in CPU time. Everyone gets the same
scaled rows. --vectors adds a set: a .npy file of `siskin embed`, NAME_labels.npy beside. Prints accuracy, raw log-loss, raw ECE (15 bins), seconds of CPU time to fit and to predict. No figure is tuned on test rows.
"""
import argparse
import pathlib
import time
import warnings

import numpy as np
from sklearn import datasets
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from pysiskin import LogisticSoftmaxGPC, calibration


def emnist(folder):
    """The images below `folder` as rows of pixels, and the number of their class."""
    from PIL import Image

    classes = sorted(path for path in pathlib.Path(folder).iterdir() if path.is_dir())
    files = [(c, path) for c, of_class in enumerate(classes) for path in sorted(of_class.iterdir())]
    pixels = np.array([np.asarray(Image.open(path).convert("L"), dtype=np.float64).ravel() for _, path in files])
    return pixels / 255.0, np.array([c for c, _ in files])


def synthetic(rows, width, classes):
    return datasets.make_classification(
        rows + 2000, width, n_informative=40, n_redundant=40, n_classes=classes, n_clusters_per_class=1, class_sep=1.5, random_state=0
    )


class Svgp:
    """GPyTorch's stochastic variational Gaussian process with a softmax likelihood."""

    def __init__(self, inducing, epochs, seconds=None, seed=0):
        """As many epochs, or where `seconds` are given so much CPU time."""
        self.inducing, self.epochs, self.seconds, self.seed = inducing, epochs, seconds, seed

    def fit(self, x, y):
        import gpytorch
        import torch
        from sklearn.cluster import MiniBatchKMeans

        began = time.process_time()
        torch.manual_seed(self.seed)
        self.classes_ = np.unique(y)
        classes, width = len(self.classes_), x.shape[1]
        centres = MiniBatchKMeans(self.inducing, random_state=self.seed, n_init=1).fit(x).cluster_centers_
        z = torch.tensor(centres, dtype=torch.float32)

        class Model(gpytorch.models.ApproximateGP):
            def __init__(self):
                shape = torch.Size([classes])
                posterior = gpytorch.variational.CholeskyVariationalDistribution(z.shape[0], batch_shape=shape)
                strategy = gpytorch.variational.VariationalStrategy(self, z, posterior, learn_inducing_locations=True)
                super().__init__(gpytorch.variational.IndependentMultitaskVariationalStrategy(strategy, num_tasks=classes))
                self.mean_module = gpytorch.means.ConstantMean(batch_shape=shape)
                rbf = gpytorch.kernels.RBFKernel(ard_num_dims=width)
                rbf.lengthscale = float(np.sqrt(width))
                self.covar_module = gpytorch.kernels.ScaleKernel(rbf, batch_shape=shape)

            def forward(self, x):
                return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

        self.model = Model()
        self.likelihood = gpytorch.likelihoods.SoftmaxLikelihood(num_classes=classes, mixing_weights=False)
        data = torch.utils.data.TensorDataset(torch.tensor(x, dtype=torch.float32), torch.tensor(np.searchsorted(self.classes_, y)))
        batches = torch.utils.data.DataLoader(data, batch_size=256, shuffle=True)
        bound = gpytorch.mlls.VariationalELBO(self.likelihood, self.model, num_data=len(y))
        optimiser = torch.optim.Adam(self.model.parameters(), lr=0.02)
        self.model.train()
        done, over = 0, lambda: self.seconds is not None and time.process_time() - began > self.seconds
        while done < len(batches) * self.epochs and not over():
            for rows, labels in batches:
                optimiser.zero_grad()
                loss = -bound(self.model(rows), labels)
                loss.backward()
                optimiser.step()
                done += 1
                if over():
                    break
        self.epochs_done = done / len(batches)
        return self

    def predict_proba(self, x):
        import gpytorch
        import torch

        self.model.eval()
        parts = []
        with torch.no_grad(), gpytorch.settings.num_likelihood_samples(64):
            for rows in torch.split(torch.tensor(x, dtype=torch.float32), 1000):
                parts.append(self.likelihood(self.model(rows)).probs.mean(0).numpy())
        p = np.concatenate(parts).astype(np.float64)
        return p / p.sum(1, keepdims=True)


def line(name, who, model, rows):
    """Prints a row of the table; the CPU seconds of the fit."""
    x, y, x_test, y_test = rows
    began = time.process_time()
    model.fit(x, y)
    fitted = time.process_time()
    p = model.predict_proba(x_test)
    done = time.process_time()
    right = float(np.mean(np.argmax(p, axis=1) == y_test))
    if isinstance(model, Svgp):
        who = f"{who}, {model.epochs_done:.3g} epochs"
    print(
        f"| {name} | {who} | {100 * right:.2f} % | {log_loss(y_test, p, labels=np.arange(p.shape[1])):.4f} | {calibration.ece(p, y_test):.3f} | "
        f"{fitted - began:.1f} | {done - fitted:.1f} |",
        flush=True,
    )
    return fitted - began


def main():
    warnings.filterwarnings("ignore")
    parser = argparse.ArgumentParser()
    parser.add_argument("--sets", default="digits,synthetic")
    parser.add_argument("--emnist", help="a folder with one folder of images per class")
    parser.add_argument("--vectors", metavar="NAME=FILE.npy", help="vectors by siskin embed")
    parser.add_argument("--rows", type=int, default=4000, help="training rows of EMNIST and of the synthetic set")
    parser.add_argument("--classes", type=int, default=10, help="classes of the synthetic set")
    parser.add_argument("--epochs", default="20", help="of SVGP: numbers, or level for the time that ours took")
    parser.add_argument("--inducing", type=int, default=300, help="of SVGP; ours has its default and this many too")
    parser.add_argument("--without", default="", help="who is left out: default, svgp, exact, few, logistic")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    import torch

    torch.set_num_threads(options.threads)
    without = options.without.split(",")
    print("| set | classifier | accuracy | log-loss | ECE | fit, CPU s | predict, CPU s |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for name in options.sets.split(","):
        if options.vectors and name == options.vectors.split("=")[0]:
            path = options.vectors.split("=")[1]
            (x, y), rows = (np.load(path).astype(np.float64), np.load(path.replace(".npy", "_labels.npy"))), options.rows
        elif name == "digits":
            (x, y), rows = datasets.load_digits(return_X_y=True), 1257
        elif name == "emnist":
            (x, y), rows = emnist(options.emnist), options.rows
        else:
            (x, y), rows = synthetic(options.rows, 384, options.classes), options.rows
        x, x_test, y, y_test = train_test_split(x, y, train_size=rows, stratify=y, random_state=0)
        x_test, y_test = x_test[:2000], y_test[:2000]
        scaler = StandardScaler().fit(x)
        split = (scaler.transform(x), y, scaler.transform(x_test), y_test)
        few = options.inducing
        who = {
            "default": ("siskin, default", lambda: LogisticSoftmaxGPC()),
            "few": (f"siskin, {few} inducing points", lambda: LogisticSoftmaxGPC(n_inducing=few)),
            "exact": ("siskin, all rows", lambda: LogisticSoftmaxGPC(n_inducing=0)),
            "logistic": ("logistic regression", lambda: LogisticRegression(max_iter=500)),
        }
        seconds = {}
        for key, (title, make) in who.items():
            if key not in without and not (key == "exact" and rows > 1500):
                seconds[key] = line(name, title, make(), split)
        for epochs in options.epochs.split(",") if "svgp" not in without else []:
            rival = Svgp(few, 10**6, seconds["few"]) if epochs == "level" else Svgp(few, int(epochs))
            line(name, f"GPyTorch SVGP, {few} inducing points", rival, split)


if __name__ == "__main__":
    main()
