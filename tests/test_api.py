"""Contract of the public API: scikit-learn's common checks, names, layers."""

import ast
import functools
import pkgutil
import subprocess
import sys
from collections import defaultdict
from graphlib import TopologicalSorter
from importlib import import_module
from pathlib import Path

import pytest
import sklearn
from imports import imports, packages
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.fixes import parse_version

import lssvm
from lssvm import LSSVC, LSSVR, kernels, robust, sparsify

GIVEN = {"kernel": kernels.RBF(sigma=1.0), "C": 1.0}


def explained(estimator):
    """Checks that cannot hold, each with its reason."""
    failures = {}
    counting = any(not isinstance(step, sparsify.Prune) for step in estimator.steps or ())
    if estimator.C is None or estimator.kernel is None or estimator.kernel.is_free or counting:
        reason = "leave-one-out drops a row once, not its copies; a drawn basis depends on the number of rows"
        failures["check_sample_weight_equivalence_on_dense_data"] = reason
    if isinstance(estimator, LSSVR) and estimator.target == "log":
        reason = "the mean and the spread of the logarithms are those of the rows, not of their copies"
        failures["check_sample_weight_equivalence_on_dense_data"] = reason
        failures["check_regressor_multioutput"] = "the check has negative targets"
    if isinstance(estimator, LSSVC) and isinstance(estimator.kernel, kernels.Precomputed):
        failures["check_decision_proba_consistency"] = (
            "the check hands a precomputed kernel a matrix that is not square"
        )
    return failures


def pass_check(estimator, check):
    if parse_version(sklearn.__version__) < parse_version("1.9") and isinstance(estimator, LSSVC):
        options = getattr(check, "keywords", {})
        if options.get("array_namespace", "numpy") != "numpy":
            pytest.skip("scikit-learn before 1.9 wants classes_ in the namespace of X, which may have no text")
    check(estimator)


@parametrize_with_checks(
    [
        LSSVR(**GIVEN),
        LSSVR(**GIVEN, robust="hampel"),
        LSSVR(**GIVEN, loss="poisson"),
        LSSVR(**GIVEN, target="log"),
        LSSVC(**GIVEN, coding="one-vs-one", loss="logistic"),
        LSSVC(kernels.Precomputed(), C=1.0),
        LSSVR(kernels.RBF(), C=1.0, steps=[sparsify.Random(10, random_state=0)]),
        LSSVC(**GIVEN, steps=[sparsify.InversePrune()]),
    ],
    expected_failed_checks=explained,
)
@pytest.mark.filterwarnings("ignore:The sums over the chunks have a condition:UserWarning")
def test_scikit_learn_common_checks(estimator, check):
    pass_check(estimator, check)


@pytest.mark.slow
@parametrize_with_checks(
    [
        LSSVR(),
        LSSVC(),
        LSSVR(kernels.RBF()),
        LSSVC(**GIVEN),
        LSSVR(C=1.0, steps=[sparsify.Random(10, random_state=0)]),
        LSSVR(kernels.RBF(), loss="gamma"),
        LSSVR(kernels.RBF(), target="power"),
        LSSVR(**GIVEN, robust=robust.Huber(scale="mad", iterations=3)),
        LSSVC(**GIVEN, robust="logistic"),
        LSSVC(**GIVEN, class_weight="balanced"),
        LSSVC(**GIVEN, loss="squared_hinge"),
        LSSVC(**GIVEN, coding="one-vs-one", loss="logistic", steps=[sparsify.Random(10, random_state=0)]),
        LSSVR(kernels.RBF(sigma=1.0) + kernels.Linear(), C=1.0),
        LSSVR(kernels.Precomputed(), C=1.0),
        LSSVR(**GIVEN, steps=[sparsify.Prune(40, rows="keep")]),
        LSSVR(kernels.Additive(kernels.Spline(3)), C=1.0, steps=[sparsify.Components(random_state=0)]),
        LSSVR(**GIVEN, steps=[sparsify.Substrate(random_state=0)]),
    ],
    expected_failed_checks=explained,
)
@pytest.mark.filterwarnings("ignore:The sums over the chunks have a condition:UserWarning")
@pytest.mark.filterwarnings("ignore:Components. no input is kept:UserWarning")
def test_scikit_learn_common_checks_of_other_models(estimator, check):
    pass_check(estimator, check)


# Names, layers --------------------------------------------------------------------------------------------------------
ROOT = Path(lssvm.__file__).parent
MODULES = ["lssvm", *(module.name for module in pkgutil.walk_packages([str(ROOT)], "lssvm."))]

LAYERS = {
    **dict.fromkeys(["files", "progress", "_threads", "_blas", "arrays", "rules"], 0),
    **dict.fromkeys(["coding", "kernels", "losses", "system", "robust", "datasets", "targets"], 1),
    **dict.fromkeys(["problem", "tables"], 2),
    **dict.fromkeys(["sparsify", "tune", "stream", "cluster"], 3),
    **dict.fromkeys(["estimators", "intervals", "diagnose"], 4),
    **dict.fromkeys(["persist", "export", "plotting", "report", "cli"], 5),
    "__main__": 6,
}
SAME_LAYER = {
    ("rules", "arrays"),
    ("coding", "losses"),
    ("system", "losses"),
    ("estimators", "intervals"),
    ("diagnose", "intervals"),
    ("diagnose", "estimators"),
    ("sparsify", "tune"),
    ("cluster", "stream"),
    *(("cli", module) for module in ("persist", "export", "plotting", "report")),
    ("report", "persist"),
}
# Heavy or optional packages: imported inside the functions that need them. click's decorators are the command line.
OPTIONAL = {
    "click",
    "cupy",
    "cupyx",
    "dask",
    "distributed",
    "matplotlib",
    "onnx",
    "pandas",
    "piqp",
    "polars",
    "pyarrow",
    "torch",
}
AT_THE_TOP = {("cli", "click")}


@functools.cache
@functools.cache
def sources():
    """(module below lssvm, its syntax tree) for every file but the package's own __init__."""
    files = [(path.relative_to(ROOT).with_suffix("").parts, path) for path in sorted(ROOT.rglob("*.py"))]
    return [(parts, ast.parse(path.read_text(encoding="utf-8"))) for parts, path in files if parts != ("__init__",)]


def imported_modules(parts, tree):
    """First names below lssvm of all that a file imports from lssvm, wherever in the file."""
    package = ("lssvm", *parts[:-1])
    for node, _ in imports(tree):
        if isinstance(node, ast.Import):
            targets = [alias.name.split(".") for alias in node.names]
        else:
            base = list(package[: len(package) - node.level + 1]) if node.level else []
            base += node.module.split(".") if node.module else []
            targets = [[*base, alias.name] for alias in node.names]
        for target in targets:
            if target[0] == "lssvm" and len(target) > 1:
                name = "estimators" if target[1] in ("LSSVR", "LSSVC") else target[1]
                if not name.startswith("__"):  # __version__
                    yield name


def test_a_module_imports_only_from_lower_layers():
    seen = set()
    for parts, tree in sources():
        module = parts[0]
        for other in imported_modules(parts, tree):
            seen.add((module, other))
            assert other in LAYERS, f"{module} imports {other}, which has no layer"
            lower = LAYERS[other] < LAYERS[module]
            assert lower or other == module or (module, other) in SAME_LAYER, f"{module} imports {other}"
    assert {("estimators", "intervals"), ("sparsify", "problem"), ("kernels", "arrays"), ("cli", "estimators")} <= seen


def test_modules_of_a_package_do_not_import_each_other_in_circles():
    """Also for types, and inside functions; between packages, the layers exclude circles."""
    graphs = defaultdict(dict)
    for (*package, module), tree in sources():
        nodes = [node for node, _ in imports(tree) if isinstance(node, ast.ImportFrom) and node.level == 1]
        names = {node.module.split(".")[0] for node in nodes if node.module}
        names |= {alias.name for node in nodes if not node.module for alias in node.names}
        graphs[tuple(package)][module] = names if module != "__init__" else set()
    assert "record" in graphs["problem",]["problem"]
    for graph in graphs.values():
        TopologicalSorter(graph).prepare()  # raises CycleError


def is_private(name):
    return name.startswith("_") and not name.startswith("__")


def test_no_package_reads_private_names_of_another():
    """Attributes that start with an underscore are read only in the package that defines or assigns them."""
    read = (ast.FunctionDef, ast.ClassDef, ast.Attribute, ast.Dict, ast.Call, ast.ImportFrom)
    nodes = [(parts, node) for parts, tree in sources() for node in ast.walk(tree) if isinstance(node, read)]
    own = {(parts[0], node.name) for parts, node in nodes if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    own |= {
        (parts[0], node.attr)
        for parts, node in nodes
        if isinstance(node, ast.Attribute) and getattr(node.value, "id", "") in ("self", "cls")
    }
    tables = [(parts[0], node) for parts, node in nodes if isinstance(node, ast.Dict)]  # of attributes to assign
    own |= {(module, key.value) for module, table in tables for key in table.keys if isinstance(key, ast.Constant)}
    own |= {("arrays", "_getframe"), ("kernels", "_get_param_names"), ("estimators", "_init_callback_context")}
    for parts, node in nodes:
        names = [node.attr] if isinstance(node, ast.Attribute) else []
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("getattr", "hasattr", "setattr"):
            mine = getattr(node.args[0], "id", "") in ("self", "cls")
            names += [node.args[1].value] if isinstance(node.args[1], ast.Constant) and not mine else []
        if isinstance(node, ast.ImportFrom):
            names += [alias.name for alias in node.names]
        for name in filter(is_private, names):
            known = (parts[0], name) in own or (isinstance(node, ast.ImportFrom) and node.level == 1)
            assert known, f"{'.'.join(parts)}, line {node.lineno}: {name}"


def test_optional_packages_are_imported_inside_functions():
    for parts, tree in sources():
        for statement, around in imports(tree):
            inside = any(
                isinstance(outer, ast.FunctionDef)
                or (isinstance(outer, ast.If) and ast.unparse(outer.test) == "TYPE_CHECKING")
                for outer in around
            )
            for name in packages(statement) & OPTIONAL:
                assert inside or (parts[0], name) in AT_THE_TOP, f"{'.'.join(parts)} imports {name}"


@pytest.mark.slow
@pytest.mark.parametrize("statement", ["import lssvm", "from lssvm import *", "from lssvm import LSSVR; LSSVR()"])
def test_import_brings_no_optional_package(statement):
    lazy = OPTIONAL - {"pandas", "polars", "pyarrow"}  # scikit-learn imports these where they are installed
    script = f"{statement}\nimport sys\nprint(sorted({lazy!r} & sys.modules.keys()))"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


@pytest.mark.parametrize("name", MODULES)
def test_public_names_resolve(name):
    module = import_module(name)
    names = getattr(module, "__all__", [])
    assert len(names) == len(set(names))
    for public in names:
        assert getattr(module, public) is not None
    assert set(names) <= set(dir(module))


def test_unknown_names_are_refused():
    assert not hasattr(lssvm, "nonsense")
    assert {"LSSVR", "LSSVC", "kernels", "sparsify", "robust", "tune", "datasets"} <= set(lssvm.__all__)


@pytest.mark.slow
def test_estimators_work_without_optional_packages(tmp_path):
    program = f"""
import sys
from importlib.abc import MetaPathFinder

class Refuse(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.split(".")[0] in {OPTIONAL!r}:
            raise ImportError(name)

sys.meta_path.insert(0, Refuse())
import numpy as np
import lssvm
from lssvm import datasets, export, kernels, report, sparsify

X, y = datasets.load_motorcycle(return_X_y=True)
model = lssvm.LSSVR(steps=[sparsify.Random(20, random_state=0)], robust="hampel").fit(X, y)
assert model.predict_interval(X).shape == (len(X), 2)
lssvm.save(model, "model.lssvm")
assert (lssvm.load("model.lssvm").predict(X) == model.predict(X)).all()
assert export.to_c(model) and export.to_python(model) and report.to_html(model)
assert lssvm.LSSVC(class_weight="balanced").fit(X, y > -20).predict_proba(X).shape == (len(X), 2)
try:
    lssvm.LSSVR(kernels.Additive(kernels.Spline()), steps=[sparsify.Components()]).fit(X, y)
except ImportError as error:
    assert 'pip install "lssvm[components]"' in str(error)
else:
    raise AssertionError("Components did not ask for piqp")
"""
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=True)
