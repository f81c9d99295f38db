"""LogisticSoftmaxGPC beside scikit-learn's Gaussian process and logistic regression, on handwritten digits.

    python python/examples/digits.py            # 300 training points, three splits

CPU seconds count all threads: fitting on 300 points and predicting 1,397.
"""

import time
import warnings

from sklearn.datasets import load_digits
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from pysiskin import LogisticSoftmaxGPC, calibration

warnings.filterwarnings("ignore", module="sklearn")

# %% The data: 1,797 images of 8 x 8 pixels
x, y = load_digits(return_X_y=True)

# %% The classifiers
models = {
    "siskin, as it is": lambda: LogisticSoftmaxGPC(),
    "siskin, inference=collapsed": lambda: LogisticSoftmaxGPC(inference="collapsed"),
    "siskin, likelihood=softmax": lambda: LogisticSoftmaxGPC(likelihood="softmax"),
    "sklearn GaussianProcess": lambda: make_pipeline(StandardScaler(), GaussianProcessClassifier(1.0 * RBF(8.0))),
    "sklearn LogisticRegression": lambda: make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)),
}

# %% Log-loss, calibration and time, as predicted and after one temperature fitted on 100 validation points
print(f"{'':28}{'seed':>5}{'accuracy':>10}{'log-loss':>10}{'ECE':>8}{'tuned: log-loss':>17}{'ECE':>8}{'CPU s':>8}")
for seed in (1, 2, 3):
    rest, x_test, y_rest, y_test = train_test_split(x, y, train_size=400, random_state=seed, stratify=y)
    x_train, x_val, y_train, y_val = train_test_split(
        rest, y_rest, train_size=300, random_state=seed, stratify=y_rest
    )
    for name, make in models.items():
        start = time.process_time()
        model = make().fit(x_train, y_train)
        p = model.predict_proba(x_test)
        seconds = time.process_time() - start
        tuned = calibration.sharpen(p, calibration.fit_temperature(model.predict_proba(x_val), y_val))
        print(
            f"{name:28}{seed:5}{calibration.accuracy(p, y_test):10.4f}{calibration.nll(p, y_test):10.3f}"
            f"{calibration.ece(p, y_test):8.3f}{calibration.nll(tuned, y_test):17.3f}"
            f"{calibration.ece(tuned, y_test):8.3f}{seconds:8.2f}"
        )
