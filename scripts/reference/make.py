"""New cases of the schema of crates/methods/tests/reference, by formulas written apart from both programs.

    pip install torch numpy
    python scripts/reference/make.py --check crates/methods/tests/reference   # the formulas give the released values
    python scripts/reference/make.py /tmp/cases                               # new cases with other shapes and options
    python scripts/reference/make.py /tmp/cases 7                             # the same shapes with other numbers
    cargo run --release -p siskin-methods --example reference -- /tmp/cases

The files in the repository were computed by running the released code. The formulas here are from its description, in PyTorch and double
precision; `--check` compares them with every number of these files. So the new cases are as good as that comparison.
"""

import json
import pathlib
import sys

import calibration
import cdkt
import networks
import regression_and_gibbs as gibbs
from common import Draw, plain

# File: new cases, and the outputs of a given case (those that are compared, those that are drawn).
FILES = {
    "bayesian_maml": (networks.new_bayesian_maml, networks.bayesian_maml),
    "calibration_cdkt": (lambda: calibration.new("cdkt", 1400), calibration.check),
    "calibration_dkt": (lambda: calibration.new("dkt", 1500), calibration.check),
    "calibration_ove": (lambda: calibration.new("ove", 1600), calibration.check),
    "cdkt_ml": (cdkt.new_ml, cdkt.ml),
    "cdkt_pl": (cdkt.new_pl, cdkt.pl),
    "cdkt_predict": (cdkt.new_predict, lambda case: cdkt.predict(case)[0]),
    "dkt": (gibbs.new_dkt, gibbs.dkt),
    "head_fit": (networks.new_head_fit, networks.head_fit),
    "ls_gibbs": (gibbs.new_ls, lambda case: gibbs.ls(case)[0]),
    "maml": (networks.new_maml, networks.maml),
    "matchingnet": (networks.new_matchingnet, networks.matchingnet),
    "ove": (gibbs.new_ove, gibbs.ove),
    "pretraining": (networks.new_pretraining, networks.pretraining),
    "protonet": (networks.new_protonet, networks.protonet),
    "relationnet": (networks.new_relationnet, networks.relationnet),
}


def numbers(value):
    if isinstance(value, list):
        return [x for inner in value for x in numbers(inner)]
    return [float(value)]


def worst(found, wanted, path=""):
    """The largest deviation below a value, relative to the largest entry of its array (or 1e-3), and where it is."""
    if isinstance(found, dict):
        # A file may leave out what is large: covariances between points, for example.
        pairs = [(found[key], wanted[key], f"{path}.{key}") for key in found if key in wanted]
        return max((worst(*pair) for pair in pairs), default=(0.0, path))
    if isinstance(found, list) and found and isinstance(found[0], dict):
        assert len(found) == len(wanted), path
        return max(worst(a, b, f"{path}[{i}]") for i, (a, b) in enumerate(zip(found, wanted)))
    a, b = numbers(found), numbers(wanted)
    assert len(a) == len(b), (path, len(a), len(b))
    largest = max([1e-3] + [abs(x) for x in b])
    return max(abs(x - y) for x, y in zip(a, b)) / largest, path


def check(folder):
    failed = 0
    for name, (_, outputs) in FILES.items():
        for case in json.loads((folder / f"{name}.json").read_text())["cases"]:
            apart, where = worst(plain(outputs(case)), case)
            # The released calibration has single precision in places.
            good = apart < (2e-6 if name.startswith("calibration") else 1e-8)
            failed += not good
            print(f"{'same  ' if good else 'APART '} {name}: {case['name']}: {apart:.1e} {where}")
    print(f"{failed} apart")
    return failed


def make(folder):
    folder.mkdir(parents=True, exist_ok=True)
    for name, (new, _) in FILES.items():
        cases = list(new())
        path = folder / f"{name}.json"
        path.write_text(json.dumps({"function": "scripts/reference/make.py", "dtype": "float64", "cases": cases}))
        print(path, len(cases), "cases")


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] == "--check":
        sys.exit(check(pathlib.Path(sys.argv[2])) > 0)
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    Draw.batch = int(sys.argv[2]) if len(sys.argv) == 3 else 0
    make(pathlib.Path(sys.argv[1]))
