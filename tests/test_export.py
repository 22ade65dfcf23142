"""Exports predict what the model predicts: ONNX, C and plain Python, each run by its own means."""

import csv
import dataclasses
import io
import itertools
import json
import math
import runpy
import shutil
import subprocess
import sys

import mpmath
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler
from stacking import stack_of, with_member

from lssvm import LSSVC, LSSVR, export, kernels, sparsify
from lssvm.export.source_code import c_string

COMPILER = shutil.which("gcc") or shutil.which("cc")
RNG = np.random.default_rng(0)
X = RNG.uniform(-2, 2, (50, 3)) * [1.0, 2.0, 0.1] + [0.0, 1.0, 0.0]
Y = np.column_stack([np.sin(2 * X[:, 0]), X[:, 1] / 5 + X[:, 2]]) + 0.1 * RNG.standard_normal((50, 2))
NEW = np.vstack([X[:10], X[10:20] + 1e-9, RNG.uniform(-3, 3, (20, 3)) * [1.0, 2.0, 0.1] + [0.0, 1.0, 0.0]])
TWO = np.where(Y[:, 0] > 0, 'ye"s\\', "n??/o*/ü")
MANY = np.digitize(Y[:, 0], [-0.5, 0.5])
WIDTHS = [2.0, 5.0, 0.5]
KERNELS = {
    "rbf": kernels.RBF(sigma=WIDTHS),
    "rbf-one": kernels.RBF(sigma=2.5),
    "dropped": kernels.RBF(sigma=[2.0, math.inf, 0.5]) + kernels.Matern(sigma=[math.inf, 5.0, math.inf]),
    "matern0.5": kernels.Matern(sigma=WIDTHS, nu=0.5),
    "matern2.5": kernels.Matern(sigma=WIDTHS, nu=2.5),
    "linear": kernels.Linear(),
    "scaled": kernels.Additive(kernels.Linear(WIDTHS), groups=[[0], [2, 1]]) + kernels.Linear(WIDTHS),
    "polynomial": kernels.Polynomial(2, coef0=0.5),
    "additive-mixed": kernels.Additive(kernels.Linear() + kernels.Matern(sigma=WIDTHS) * kernels.Polynomial(2)),
    "product": (kernels.RBF(sigma=3.0) + kernels.Additive(kernels.RBF(sigma=5.0))) * kernels.Matern(sigma=WIDTHS),
    "spline": kernels.Spline(),
    "spline-given": kernels.Spline([-1.0, 0.0, 0.0, 2.0]) + kernels.RBF(sigma=WIDTHS),
    "additive-spline": kernels.Additive(kernels.Spline(5)),
    "groups": kernels.Additive(kernels.RBF(sigma=WIDTHS), groups=[[0, 1], [2]]),
    "groups-active": kernels.Additive(kernels.Matern(sigma=WIDTHS), groups=[[2, 0], [1], [1, 2]], active=[2, 0]),
    "active": kernels.Additive(kernels.Spline(4), active=[2, 1]) + kernels.Linear(),
    "groups-linear": kernels.Additive(kernels.Polynomial(2) + kernels.Spline(3), groups=[[2, 1, 0], [1]]),
    "nested": kernels.Additive(
        kernels.Additive(kernels.RBF(sigma=WIDTHS), groups=[[1], [0, 1]], active=[1]), groups=[[2, 0], [0, 1]]
    ),
    "nothing": kernels.Additive(kernels.RBF(sigma=WIDTHS), active=[]) + kernels.Linear(),
    "choice": kernels.Choice([kernels.RBF(), kernels.Matern(ard=True)]),
}
ALIKE = {"rbf-one", "linear", "spline", "additive-spline", "groups", "active", "choice"}  # parts of others
GAPS = np.array([[math.nan, 0.0, 0.0], [0.3, -math.nan, 0.1], [math.nan, math.nan, 1.0], [math.nan] * 3])
GIVEN = np.vstack([NEW, GAPS])
HOLES = np.array([[math.inf, 0.0, 0.0], [0.0, math.inf, 0.0], [0.0, 0.0, -math.inf], [-math.inf, math.nan, 1.0]])
PIPELINES = {
    "standard": [StandardScaler()],
    "standard-plain": [StandardScaler(with_mean=False), StandardScaler(with_std=False)],
    "minmax": [MinMaxScaler((-1, 3))],
    "several": [RobustScaler(), "passthrough", MaxAbsScaler(), MinMaxScaler()],
    "robust-plain": [RobustScaler(with_centering=False), RobustScaler(with_scaling=False)],
}


def n_decisions(model):
    """Number of decision values (or predictions) of a row."""
    if isinstance(model, LSSVR):
        return model.fitted_.layout.outputs
    return 1 if len(model.classes_) == 2 else len(model.classes_)


def run_onnx(model, rows, folder=None):
    """predict, decision_function, predict_proba by onnxruntime."""
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(export.to_onnx(model).SerializeToString(), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    results = dict(zip(names, session.run(names, {"X": rows}), strict=True))
    if "prediction" in results:
        return results["prediction"], None, None
    return results["label"], results["decision_function"], results["probabilities"]


def run_c(model, rows, folder, optimise=("-O2",)):
    """The same by a compiled program; no class is None."""
    if COMPILER is None:
        pytest.skip("no C compiler")
    header = export.to_c(model, name="m")
    (folder / "m.h").write_text(header, encoding="ascii")
    last = model[-1] if isinstance(model, Pipeline) else model
    k, classes = n_decisions(last), getattr(last, "classes_", np.array([]))
    work, listed = ["m_predict(x, f);", f"fwrite(f, sizeof *f, {k}, stdout);"], []
    if len(classes):
        work[0] = "m_decision_function(x, f);"
        work += ["f[0] = m_predict(x);", "fwrite(f, sizeof *f, 1, stdout);"]
        work += ["m_predict_proba(x, f);", f"fwrite(f, sizeof *f, {len(classes)}, stdout);"]
        shown = '"%s\\n", m_classes[c]' if "char *const m_classes" in header else '"%.17g\\n", (double)m_classes[c]'
        listed = [f"    for (int c = 0; c < {len(classes)}; c++)", f"        fprintf(stderr, {shown});"]
    source = ["#include <stdio.h>", '#include "m.h"', "int main(void) {", "    double x[m_inputs], f[9];"]
    source += ["    while (fread(x, sizeof x, 1, stdin)) {", *work, "    }", *listed, "    return 0;", "}", ""]
    (folder / "m.c").write_text("\n".join(source), encoding="ascii")
    compile_c(folder, optimise)
    result = subprocess.run([folder / "m"], input=np.ascontiguousarray(rows).tobytes(), capture_output=True, check=True)
    found = np.frombuffer(result.stdout).reshape(len(rows), -1)
    if not len(classes):
        return found, None, None
    labels = np.array(result.stderr.decode().splitlines())
    labels = labels if classes.dtype.kind in "OU" else labels.astype(float).astype(classes.dtype)
    predicted = np.array([None if place < 0 else labels[int(place)] for place in found[:, k]])
    return predicted, found[:, :k], found[:, k + 1 :]


def run_fast_c(model, rows, folder):
    return run_c(model, rows, folder, ("-O3", "-ffast-math"))


def compile_c(folder, optimise):
    """Compile m.c, without warnings."""
    options = ["-std=c99", *optimise, "-Wall", "-Wextra", "-Werror", "-pedantic"]
    subprocess.run([COMPILER, *options, "-o", folder / "m", folder / "m.c", "-lm"], check=True, capture_output=True)


def run_python(model, rows, folder):
    """The same by a Python that finds no package."""
    (folder / "exported.py").write_text(export.to_python(model), encoding="ascii")
    program = "import json, exported, sys\nrows = json.loads(sys.stdin.read())\nout = {}\n"
    program += "for name in ('predict', 'decision_function', 'predict_proba'):\n"
    program += "    if hasattr(exported, name): out[name] = [getattr(exported, name)(row) for row in rows]\n"
    program += "assert not {'numpy', 'lssvm'} & sys.modules.keys()\nprint(json.dumps(out))"
    (folder / "main.py").write_text(program, encoding="ascii")
    command = [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, {str(folder)!r}); import main"]
    result = subprocess.run(command, input=json.dumps(rows.tolist()), capture_output=True, text=True, check=True)
    out = {name: np.array(values) for name, values in json.loads(result.stdout).items()}
    return out["predict"], out.get("decision_function"), out.get("predict_proba")


def assert_parity(model, folder, rows=GIVEN):
    for run in (run_python, run_c, run_onnx):  # what may not be installed comes last
        prediction, decision, probabilities = run(model, rows, folder)
        expected = model.predict(rows)
        if expected.dtype.kind == "f":
            assert_allclose(prediction.reshape(expected.shape), expected, rtol=1e-10, atol=1e-10)
        else:
            assert_array_equal(prediction, expected)
            values = model.decision_function(rows)
            assert_allclose(decision.reshape(values.shape), values, rtol=1e-10, atol=1e-10)
            assert_allclose(probabilities, model.predict_proba(rows), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(
    ("name", "target"),  # quick: each kind of kernel, and each kind of targets
    [
        pytest.param(name, target, marks=[pytest.mark.slow] * (name != "rbf" and (target != "two" or name in ALIKE)))
        for name in KERNELS
        for target in ("one", "two", "text", "many")
    ],
)
def test_kernels(name, target, tmp_path):
    y = {"one": Y[:, 0], "two": Y, "text": TWO, "many": MANY}[target]
    model = (LSSVR if y.dtype == np.float64 else LSSVC)(KERNELS[name], C=10.0)
    assert_parity(model.fit(X, y), tmp_path)


@pytest.mark.parametrize("name", PIPELINES)
def test_scalers_are_written_into_the_model(name, tmp_path):
    for model, y in ((LSSVR(kernels.RBF(sigma=2.0) + kernels.Linear(), C=10.0), Y), (LSSVC(C=1.0), TWO)):
        assert_parity(make_pipeline(*PIPELINES[name], model).fit(X, y), tmp_path)


def test_scaled_columns_far_from_zero_keep_their_digits(tmp_path):
    far = np.array([1e6, -1e7, 1e9])
    model = make_pipeline(StandardScaler(), LSSVR(kernels.Matern(sigma=2.0, nu=0.5), C=10.0)).fit(X + far, Y)
    assert_parity(model, tmp_path, NEW + far)


@pytest.mark.parametrize("labels", [None, TWO], ids=["numbers", "two"])
def test_large_coefficients_agree_to_the_rounding_of_their_sum(labels, tmp_path):
    """A wide kernel with a large C, as leave-one-out chooses them for near-polynomial targets."""
    model = LSSVR if labels is None else LSSVC
    model = model(kernels.RBF(sigma=200.0), C=2e7).fit(X, Y[:, 0] if labels is None else labels)
    terms = np.abs(model.kernel_(NEW, model.support_vectors_)) @ np.abs(model.dual_coef_)
    assert terms.min() > 1e7
    values = model.predict(NEW) if labels is None else model.decision_function(NEW)
    for run in (run_python, run_c, run_onnx):
        prediction, decision, _ = run(model, NEW, tmp_path)
        found = prediction if labels is None else decision
        assert (np.abs(found.reshape(-1) - values) <= 4 * np.finfo(float).eps * terms).all()


def test_large_coefficients_are_rounded_by_the_model_as_by_its_exports(tmp_path):
    """Against 60 digits; an exact sum would not reach 1e-10 either: the kernel values are rounded before it."""
    model = LSSVR(kernels.RBF(sigma=200.0), C=2e7).fit(X, Y[:, 0])
    terms = np.abs(model.kernel_(NEW, model.support_vectors_)) @ np.abs(model.dual_coef_)
    exact = np.frompyfunc(mpmath.mpf, 1, 1)
    with mpmath.workdps(60):
        coef, intercept = exact(model.dual_coef_), mpmath.mpf(float(model.intercept_))
        distances = ((exact(NEW)[:, None, :] - exact(model.support_vectors_)) ** 2).sum(axis=2) / mpmath.mpf(200) ** 2
        values = np.frompyfunc(mpmath.exp, 1, 1)(-distances)
        expected, rounded = values @ coef + intercept, exact(values.astype(float)) @ coef + intercept
        runs = {run.__name__: run(model, NEW, tmp_path)[0].reshape(-1) for run in (run_python, run_c, run_onnx)}
        runs["predict"] = model.predict(NEW)
        errors = {name: np.abs(exact(found) - expected).astype(float) for name, found in runs.items()}
        least = np.abs(rounded - expected).astype(float)
    for name, error in errors.items():
        assert (error <= np.finfo(float).eps * terms).all(), name
        assert 1 / 3 < np.median(error) / np.median(errors["predict"]) < 3, name
    assert np.median(least) > 1e-10
    assert np.median(least) > np.median(errors["predict"]) / 10


def test_a_constant(tmp_path):
    model = LSSVR(kernels.RBF(sigma=1.0), C=1.0).fit(X, np.full(50, 3.0))
    assert_allclose(model.predict(NEW), 3.0)
    assert_parity(model, tmp_path)


@pytest.mark.parametrize("target", ["log", "power", "left", "several"])
def test_targets_on_another_scale(target, tmp_path):
    y = {"left": -np.exp(2 * Y[:, 0]), "several": np.exp(2 * Y)}.get(target, np.exp(2 * Y[:, 0]))
    model = LSSVR(kernels.RBF(sigma=WIDTHS), C=10.0, target="log" if target == "log" else "power").fit(X, y)
    assert_parity(model, tmp_path)


def test_a_stack_with_a_member_on_another_scale(tmp_path):
    model = LSSVR().fit(X, np.exp(2 * Y[:, 0]) + 2 * (Y[:, 1] + 1))
    assert {member.target for member in model.members_} == {"auto", "power"}
    assert_parity(model, tmp_path)


SPARSE = [[sparsify.Prune(10)], [sparsify.Given(np.vstack([X[:8], X[:3]]))], [sparsify.InversePrune()]]


@pytest.mark.parametrize("steps", SPARSE, ids=lambda steps: type(steps[0]).__name__)
def test_sparse_models(steps, tmp_path):
    assert_parity(LSSVR(kernels.RBF(sigma=WIDTHS), C=10.0, steps=steps).fit(X, Y[:, 0]), tmp_path)
    assert_parity(LSSVC(kernels.RBF(sigma=WIDTHS), C=10.0, steps=steps).fit(X, MANY), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("kernel", [kernels.Spline(5), kernels.RBF(sigma=2.0)], ids=repr)
def test_models_with_chosen_components(kernel, tmp_path):
    """Columns that `Components` dropped change no prediction, in any export."""
    model = LSSVR(kernels.Additive(kernel), C=10.0, steps=[sparsify.Components(random_state=0)])
    model.fit(X, np.sin(2 * X[:, 0]) + 0.5 * X[:, 1])
    assert_array_equal(model.kernel_.active, [0, 1])
    assert_parity(model, tmp_path)
    moved = NEW + np.array([0.0, 0.0, 7.0])
    assert_array_equal(run_python(model, moved, tmp_path)[0], run_python(model, NEW, tmp_path)[0])


@pytest.mark.parametrize("labels", [None, TWO, MANY], ids=["numbers", "two", "many"])
def test_models_fitted_on_tensors(labels, tmp_path):
    torch = pytest.importorskip("torch")
    kernel = kernels.RBF(sigma=torch.tensor(WIDTHS, dtype=torch.float64))
    if labels is None:
        model = LSSVR(kernel, C=10.0).fit(torch.asarray(X), torch.asarray(Y))
    else:
        model = LSSVC(kernel, C=10.0).fit(torch.asarray(X), labels)
    assert_parity(model, tmp_path, NEW)
    with pytest.raises(ValueError, match="contains NaN"):  # the rows stay on their device and are not encoded
        model.predict(GAPS)
    module: dict = {}
    exec(export.to_python(model), module)
    with pytest.raises(ValueError, match="Column 0 is nan: give a finite number"):
        module["predict"](GAPS[0].tolist())
    for found in (*run_c(model, GAPS, tmp_path), *run_onnx(model, GAPS)):
        assert found is None or found.dtype.kind != "f" or np.isnan(found).all()


def test_streams_and_columns_of_names(tmp_path):
    frame = pd.DataFrame(X, columns=["a", 'b*/"', "ü\n"])
    model = LSSVR(kernels.RBF(sigma=WIDTHS), C=10.0).fit(frame, Y)
    rows = pd.DataFrame(NEW, columns=frame.columns)
    assert_allclose(run_c(model, NEW, tmp_path)[0], model.predict(rows), rtol=1e-10)
    assert_allclose(run_python(model, NEW, tmp_path)[0], model.predict(rows), rtol=1e-10)
    assert_parity(LSSVC(kernels.RBF(sigma=WIDTHS), C=1.0).partial_fit(X, TWO), tmp_path)


@pytest.mark.parametrize("labels", [np.array([True, False]), np.array([1.5, -2.5]), np.array(["a", "b"], dtype=object)])
def test_labels_of_other_types(labels, tmp_path):
    y = labels[(Y[:, 0] > 0).astype(int)] if labels.dtype != float else np.array([3.0, -2.0])[(Y[:, 0] > 0).astype(int)]
    model = LSSVC(kernels.RBF(sigma=WIDTHS), C=1.0).fit(X, y)
    assert_array_equal(run_python(model, NEW, tmp_path)[0], model.predict(NEW))
    assert_allclose(run_c(model, NEW, tmp_path)[2], model.predict_proba(NEW), rtol=1e-10)
    assert_array_equal(run_onnx(model, NEW)[0], model.predict(NEW))


def test_one_output_in_a_matrix_stays_one(tmp_path):
    model = LSSVR(kernels.Linear(), C=1.0).fit(X, Y[:, :1])
    assert run_python(model, NEW, tmp_path)[0].shape == (40, 1)
    assert_parity(model, tmp_path)


def test_points_without_a_coefficient_are_dropped():
    model = LSSVR(kernels.RBF(sigma=1.0), C=1.0).fit(X, Y[:, 0])
    few = np.where(np.arange(50)[:, None] < 7, model.fitted_.fit.coef, 0.0)
    with_member(model, fit=dataclasses.replace(model.fitted_.fit, coef=few))
    assert "7 basis points" in export.to_c(model)


def test_onnx_uses_core_operators_in_float64():
    onnx = pytest.importorskip("onnx")
    model = make_pipeline(StandardScaler(), LSSVC(KERNELS["product"], C=1.0)).fit(X, TWO)
    graph = export.to_onnx(model)
    assert [(entry.domain, entry.version) for entry in graph.opset_import] == [("", 18)]
    assert {node.domain for node in graph.graph.node} == {""}
    assert run_onnx(model, NEW[:0])[2].shape == (0, 2)
    types = {tensor.data_type for tensor in graph.graph.initializer}
    assert types <= {onnx.TensorProto.DOUBLE, onnx.TensorProto.INT64, onnx.TensorProto.STRING}


# Codings and losses ---------------------------------------------------------------------------------------------------
FIVE = np.array(["a", "b", "c", "d", "e"])[np.digitize(Y[:, 0], [-0.7, -0.2, 0.2, 0.7])]
CODED = {"two": TWO, "three": MANY, "five": FIVE}


@pytest.mark.parametrize("loss", ["squared", "squared_hinge", "logistic"])
@pytest.mark.parametrize("labels", CODED)
def test_pairs_of_classes_and_every_loss(labels, loss, tmp_path):
    model = LSSVC(kernels.RBF(sigma=WIDTHS), C=10.0, loss=loss, coding="one-vs-one").fit(X, CODED[labels])
    assert model.loss_ == loss
    assert model.coding_ == ("one-vs-rest" if labels == "two" else "one-vs-one")
    assert_parity(model, tmp_path)


@pytest.mark.parametrize("loss", ["squared_hinge", "logistic"])
def test_one_class_against_the_rest_and_every_loss(loss, tmp_path):
    model = LSSVC(kernels.RBF(sigma=WIDTHS), C=10.0, loss=loss, coding="one-vs-rest").fit(X, FIVE)
    assert_parity(model, tmp_path)


@pytest.mark.parametrize("slope", [1e-3, 1.0, 30.0, 1e4])
def test_pairs_that_are_uncertain_or_sure(slope, tmp_path):
    """The system of the coupling is nearly singular at both ends."""
    model = LSSVC(kernels.RBF(sigma=WIDTHS), C=10.0, loss="squared", coding="one-vs-one").fit(X, FIVE)
    with_member(model, slopes=np.array([slope]))
    expected = model.predict_proba(NEW)
    second, first = np.sort(expected, axis=1)[:, -2:].T
    for run in (run_python, run_c, run_onnx):
        label, decision, probabilities = run(model, NEW, tmp_path)
        assert_allclose(probabilities, expected, rtol=1e-9, atol=1e-9)
        assert_allclose(decision, 2 * expected - 1, rtol=1e-9, atol=1e-9)
        clear = first - second > 1e-9  # classes that beat each other in a circle are equally probable
        assert_array_equal(label[clear], model.predict(NEW)[clear])


# Stacks ---------------------------------------------------------------------------------------------------------------
MEMBERS = ["rbf", "matern0.5", "linear", "additive-spline"]
MIXED = [("one-vs-rest", "squared"), ("one-vs-one", "logistic"), ("one-vs-rest", "squared_hinge"), ("auto", "auto")]
STACKED = {"one": Y[:, 0], "two": Y, "text": TWO, "many": MANY, "five": FIVE}


def stacked(target, **options):
    """A stack of all MEMBERS; those of a classifier differ in coding and loss."""
    y = STACKED[target]
    if y.dtype == np.float64:
        members = [LSSVR(KERNELS[name], C=10.0, **options).fit(X, y) for name in MEMBERS]
    else:
        kinds = [{"coding": coding, "loss": loss} for coding, loss in MIXED]
        members = [LSSVC(KERNELS[name], C=10.0, **kind).fit(X, y) for name, kind in zip(MEMBERS, kinds, strict=True)]
    return stack_of(members, [0.4, 0.3, 0.1, 0.2])


@pytest.mark.parametrize(
    "target", [pytest.param(target, marks=[pytest.mark.slow] * (target not in ("one", "text"))) for target in STACKED]
)
def test_stacks(target, tmp_path):
    model = stacked(target)
    assert len(model.members_) == 4
    assert_parity(model, tmp_path)


@pytest.mark.parametrize("target", ["two", "text"])
def test_stacks_as_they_are_fitted_after_a_scaler(target, tmp_path):
    y = STACKED[target]
    kernel = kernels.Stack([kernels.RBF(sigma=2.0), kernels.Matern(sigma=4.0, nu=0.5), kernels.Linear()])
    model = LSSVR(kernel, C=1.0) if y.dtype == np.float64 else LSSVC(kernel, C=0.1, loss="squared")
    model = make_pipeline(StandardScaler(), model).fit(X, y)
    assert len(model[-1].members_) > 1
    assert_parity(model, tmp_path)


def test_members_share_their_support_vectors():
    one, many = LSSVR(KERNELS["rbf"], C=10.0).fit(X, Y), stacked("two")
    for text in (export.to_c(many), export.to_python(many)):
        assert text.count(repr(float(X[7, 1]))) == 1
    onnx = pytest.importorskip("onnx")
    points = [onnx.numpy_helper.to_array(tensor) for tensor in export.to_onnx(many).graph.initializer]
    columns = [values for values in points if values.shape == (1, 50)]
    assert len(columns) == X.shape[1]
    assert "4 models, 50 basis points" in export.to_c(many)
    other = LSSVR(KERNELS["matern0.5"], C=10.0, steps=[sparsify.Given(X[:9])]).fit(X, Y)
    assert "2 models, 59 basis points" in export.to_c(stack_of([one, other], [0.5, 0.5]))


def test_members_with_their_own_support_vectors(tmp_path):
    first = LSSVR(KERNELS["rbf"], C=10.0, steps=[sparsify.Given(X[:20])]).fit(X, Y)
    second = LSSVR(KERNELS["linear"], C=10.0, steps=[sparsify.Prune(10)]).fit(X, Y)
    model = stack_of([first, second], [0.25, 0.75])
    assert_parity(model, tmp_path)
    hinge = LSSVC(KERNELS["rbf"], C=10.0, loss="squared_hinge").fit(X, TWO)
    assert (hinge.dual_coef_ == 0).any()
    assert_parity(stack_of([LSSVC(KERNELS["linear"], C=1.0).fit(X, TWO), hinge], [0.25, 0.75]), tmp_path)


def test_python_refuses_what_a_stack_refuses():
    module: dict = {}
    cubic = [LSSVC(kernels.Polynomial(3), C=1.0).fit(X, MANY), LSSVC(kernels.RBF(sigma=1.0), C=1.0).fit(X, MANY)]
    exec(export.to_python(stack_of(cubic, [0.5, 0.5])), module)
    for row, message in ((HOLES[0].tolist(), "Column 0 is inf"), ([0.0], "has 1 values"), ([1e200] * 3, "overflows")):
        for method in ("predict", "decision_function", "predict_proba"):
            with pytest.raises(ValueError, match=message):
                module[method](row)


# Values that have no prediction ---------------------------------------------------------------------------------------

HUGE = [1.7e308, -1.7e308, 1.7e308]
FADING = ["rbf", "rbf-one", "dropped", "matern0.5", "matern2.5", "product", "groups"]
FADING += ["groups-active", "nested", "choice"]  # 0 far from all points in every column


NO_LABEL = {"U": "", "i": np.iinfo(np.int64).min, "b": False, "f": math.nan}  # in ONNX, which cannot raise


def of_all_labels(kernel):
    """Models of numbers, and of labels of all types."""
    positive = Y[:, 0] > 0
    classifiers = [LSSVC(kernel, C=10.0).fit(X, labels) for labels in (TWO, MANY, positive, 1.0 + positive)]
    return [LSSVR(kernel, C=10.0).fit(X, Y), *classifiers]


@pytest.mark.parametrize("run", [run_c, run_fast_c, run_onnx])
@pytest.mark.parametrize(
    "kind",
    [
        *("rbf", "pairs"),
        *(
            pytest.param(kind, marks=pytest.mark.slow)
            for kind in ("polynomial", "matern2.5", "additive-spline", "active", "stacks")
        ),
    ],
)
def test_c_and_onnx_have_no_prediction_for_infinity(kind, run, tmp_path):
    rows = np.vstack([GIVEN, HOLES])
    if kind == "pairs":
        models = [LSSVC(KERNELS["polynomial"], C=10.0, loss="logistic", coding="one-vs-one").fit(X, MANY)]
    else:
        models = map(stacked, ("two", "text", "many")) if kind == "stacks" else of_all_labels(KERNELS[kind])
    for model in models:
        predicted, decision, probabilities = run(model, rows, tmp_path)
        expected = model.predict(GIVEN)
        if decision is None:
            assert_allclose(predicted[:-4], expected, rtol=1e-9, atol=1e-9)
            assert np.isnan(predicted[-4:]).all()
            continue
        assert_array_equal(predicted[:-4], expected)
        assert_array_equal(predicted[-4:], 4 * [NO_LABEL[model.classes_.dtype.kind] if run is run_onnx else None])
        assert_allclose(probabilities[:-4], model.predict_proba(GIVEN), rtol=1e-9, atol=1e-9)
        assert np.isnan(decision[-4:]).all()
        assert np.isnan(probabilities[-4:]).all()


@pytest.mark.parametrize("run", [run_c, run_fast_c])
def test_c_has_no_prediction_where_it_overflows(run, tmp_path):
    model = LSSVC(kernels.Polynomial(3), C=10.0).fit(X, MANY)
    predicted, decision, probabilities = run(model, np.full((1, 3), 1e200), tmp_path)
    assert np.isnan(decision).all()
    assert np.isnan(probabilities).all()
    assert predicted[0] is None
    far = 1e9 * NEW  # decision values so large that exp() overflows
    model = LSSVC(kernels.Linear(), C=10.0).fit(X, TWO)
    assert_allclose(run(model, far, tmp_path)[2], model.predict_proba(far), atol=1e-12)


@pytest.mark.parametrize("name", KERNELS)
def test_python_refuses_what_the_model_refuses(name):
    for fit, y in ((LSSVR, Y), (LSSVC, MANY)):
        model = fit(KERNELS[name], C=10.0).fit(X, y)
        module: dict = {}
        exec(export.to_python(model), module)
        methods = [module[method] for method in ("predict", "decision_function", "predict_proba") if method in module]
        for row, message in (
            *((row, "Column [012] is -?inf: give a finite number") for row in HOLES.tolist()),
            ([0.0, 0.0], "has 2 values, but the model takes 3"),
            ([0.0, 0.0, 0.0, 0.0], "has 4 values, but the model takes 3"),
            *(() if name in FADING else ((row, "overflows") for row in (HUGE, np.array(HUGE)))),
        ):
            with pytest.raises(ValueError, match=r"infinity|features|overflow"):
                model.predict([row])
            for method in methods:
                with pytest.raises(ValueError, match=message):
                    method(row)


@pytest.mark.parametrize("name", FADING)
def test_far_from_all_points_only_the_intercept_is_left(name, tmp_path):
    """Squared distances that overflow are no error, in `predict` and in all exports, and NaN does not result."""
    pytest.importorskip("onnx")
    model = LSSVR(KERNELS[name], C=10.0).fit(X, Y)
    rows = np.vstack([NEW[:2], HUGE, np.array(HUGE)[::-1] / 1e100, NEW[2:4]])
    expected = model.predict(rows)
    assert_allclose(expected[2:4], np.tile(model.intercept_, (2, 1)), rtol=1e-12)
    assert_allclose(expected[[0, 1, 4, 5]], model.predict(NEW[:4]), rtol=1e-9)
    module: dict = {}
    exec(export.to_python(model), module)
    assert_allclose([module["predict"](row) for row in rows.tolist()], expected, rtol=1e-10)
    assert_allclose(run_onnx(model, rows)[0], expected, rtol=1e-10)
    assert_allclose(run_c(model, rows, tmp_path)[0], expected, rtol=1e-10)


@pytest.mark.parametrize("cell", [1e8, 1e12, 1e300])
@pytest.mark.parametrize("kernel", [kernels.RBF(2.5), kernels.Matern(2.5)])
def test_a_far_training_cell_costs_no_digits(kernel, cell):
    """The export subtracts every row from every support vector, without a centre."""
    inputs = np.random.default_rng(0).standard_normal((60, 6))
    targets = np.sin(inputs.sum(axis=1))
    inputs[3, 1] = cell
    model = LSSVR(kernel, C=100.0).fit(inputs, targets)
    module: dict = {}
    exec(export.to_python(model), module)
    assert_allclose([module["predict"](row) for row in inputs.tolist()], model.predict(inputs), rtol=1e-10)


def test_python_takes_large_values_as_the_model_does():
    for kernel in (kernels.Linear(), kernels.Additive(kernels.Spline(4)), kernels.RBF(sigma=1e200)):
        model = LSSVR(kernel, C=10.0).fit(X, Y[:, 0])
        module: dict = {}
        exec(export.to_python(model), module)
        row = [1e200, -1e200, 3e199]
        assert module["predict"](row) == pytest.approx(model.predict([row])[0], rel=1e-9)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    exec(export.to_python(LSSVR(kernels.RBF(sigma=1.0), C=10.0).fit(frame, Y)), module)
    with pytest.raises(ValueError, match="Column 'b' is inf"):
        module["predict"]([1.0, math.inf, 1.0])


# Tables ---------------------------------------------------------------------------------------------------------------
CITY, SIZES = 'ci"ty\n?', ["small", "medium", "large", "huge"]
TEXTS = [CITY, "prediction", "size"]
UNKNOWN = {
    CITY: "Rom",
    "prediction": "",
    "level": 7.0,
    "flag": 2.0,
    "score": 0.3,
    "age": 33.0,
    "size": "tiny",
    "grade": 9.0,
}


@pytest.fixture
def table(monkeypatch):
    """A frame of all kinds of columns; new rows with unknown, pooled and missing values; targets."""
    monkeypatch.setattr("lssvm.tables.encoding.MOST_VALUES", 3)
    rng = np.random.default_rng(0)
    age, level, n = np.round(rng.uniform(20, 70, 80), 1), rng.integers(0, 3, 80), 80
    city = rng.choice(["Köln", 'Os"lo\\', "Paris", "Bern", "Ulm"], n, p=[0.3, 0.3, 0.3, 0.05, 0.05])
    frame = pd.DataFrame({CITY: city.astype(object), "prediction": rng.choice(["no", "NA"], n), "level": level})
    frame["key"] = [f"row {number}" for number in range(n)]
    frame["flag"] = rng.random(n) < 0.5
    frame["score"] = pd.Categorical(rng.choice([0.25, 0.5, 1e9], n))
    frame["age"], frame["weight"] = age, rng.standard_normal(n)
    frame["size"] = pd.Categorical(rng.choice(SIZES[:3], n), SIZES, ordered=True)
    frame["grade"] = pd.Categorical(rng.choice([10, 20, 30], n), [30, 20, 10], ordered=True)
    price = age + 20.0 * (city == "Köln") + 5.0 * frame["flag"].to_numpy() + 3.0 * level + rng.standard_normal(n)
    for name in (CITY, "level", "score", "age", "size"):
        frame[name] = frame[name].where(rng.random(n) > 0.1)
    new = [frame[:30], frame[:12].assign(weight=math.nan)]
    for name, value in UNKNOWN.items():
        new.append(frame[:1].astype(object).assign(**{name: value}))
        new.append(frame[:1].astype(object).assign(**{name: None}))
    new.append(pd.DataFrame({name: [None] for name in frame}))
    new = pd.concat([rows.astype(object) for rows in new], ignore_index=True).assign(key="new")
    targets = {"number": price, "two": np.where(price > 60, "yes", "no"), "many": np.digitize(price, [45, 65])}
    targets |= {"pairs": targets["many"], "stack": price, "mixture": targets["many"]}
    return frame.astype({"flag": "category", "level": "category"}), targets, new


def fit_table(table, kind):
    """A model with kernel and C given."""
    frame, targets, _ = table
    estimator = LSSVC if targets[kind].dtype.kind != "f" else LSSVR
    model = estimator(kernels.RBF(sigma=[1.0, 1.5, 1.2, 1.0, 2.0, 1.1, 20.0, 3.0, 2.0, 1.0]), C=10.0)
    if kind == "pairs":
        model.set_params(loss="logistic", coding="one-vs-one")
    with pytest.warns(UserWarning, match="are treated as one value|is ignored"):
        model.fit(frame, targets[kind])
    if kind in ("stack", "mixture"):
        other = clone(model).set_params(kernel=kernels.Matern(sigma=model.kernel.sigma))
        with pytest.warns(UserWarning, match="are treated as one value|is ignored"):
            model = stack_of([model, other.fit(frame, targets[kind])], [0.75, 0.25])
    kinds = [column.kind for column in model.fitted_.layout.columns.columns]
    assert kinds == [*["category"] * 3, "ignored", *["category"] * 2, *["number"] * 2, *["ranks"] * 2]
    assert model.fitted_.layout.columns.columns[0].pooled
    return model


def plain_cells(rows):
    """The rows as lists, with None for missing cells."""
    return [[None if pd.isna(cell) else cell for cell in row] for row in rows.to_numpy(dtype=object)]


def table_by_python(model, rows, folder):
    (folder / "exported.py").write_text(export.to_python(model), encoding="ascii")
    module = runpy.run_path(str(folder / "exported.py"))
    records = rows.to_dict("records")
    cells = plain_cells(rows)
    assert [module["predict"](row) for row in cells] == [module["predict"](row) for row in records]
    if "predict_proba" not in module:
        return [module["predict"](row) for row in records], None
    return [module["predict"](row) for row in records], [module["predict_proba"](row) for row in records]


def table_by_onnx(model, rows, folder):
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(export.to_onnx(model).SerializeToString(), providers=["CPUExecutionProvider"])
    feed = {}
    assert [node.name.removesuffix("_input") for node in session.get_inputs()] == [
        name for name in rows if name != "key"
    ]
    for node in session.get_inputs():
        cells = rows[node.name.removesuffix("_input")]
        if node.type == "tensor(double)":
            feed[node.name] = pd.to_numeric(cells).to_numpy(dtype=float)[:, None]
        else:
            feed[node.name] = cells.fillna("").to_numpy(dtype=object)[:, None]
    outputs = dict(zip([out.name for out in session.get_outputs()], session.run(None, feed), strict=True))
    if "prediction" in outputs:
        return outputs["prediction"][:, 0], None
    return outputs["label"], outputs["probabilities"]


def table_by_fast_c(model, rows, folder):
    return table_by_c(model, rows, folder, ("-O3", "-ffast-math"))


def table_by_c(model, rows, folder, optimise=("-O2",)):
    if COMPILER is None:
        pytest.skip("no C compiler")
    header = export.to_c(model, name="m")
    (folder / "m.h").write_text(header, encoding="ascii")
    classes = getattr(model, "classes_", ())
    label = 'printf("%d ", m_predict(x)); m_predict_proba(x, f);' if len(classes) else "m_predict(x, f);"
    source = ['#include "m.h"', "#include <stdio.h>", "int main(void) {", "    double x[m_inputs], f[9];"]
    for row in rows.to_dict("records"):
        numbers = [
            "NAN" if pd.isna(cell) else repr(float(cell)) for name, cell in row.items() if name not in [*TEXTS, "key"]
        ]
        texts = ["0" if pd.isna(row[name]) else c_string(row[name]) for name in TEXTS]  # NULL is missing
        source += [
            f"    {{ const double n[] = {{{', '.join(numbers)}}}; const char *const t[] = {{{', '.join(texts)}}};",
            "    if (!m_encode(n, t, x)) { return 1; }",
            f"    {label}",
            f"    for (int c = 0; c < {max(len(classes), 1)}; c++)",
            '        printf("%.17g ", f[c]);',
            '    puts(""); }',
        ]
    source += ["    const double bad[] = {0, 0, 0, INFINITY, 0, 0}; const char *const t[] = {0, 0, 0};"]
    source += ["    return m_encode(bad, t, x);", "}", ""]
    (folder / "m.c").write_text("\n".join(source), encoding="ascii")
    compile_c(folder, optimise)
    lines = subprocess.run([folder / "m"], check=True, capture_output=True, encoding="utf-8").stdout.splitlines()
    found = np.array([line.split() for line in lines], dtype=float)
    return (classes[found[:, 0].astype(int)], found[:, 1:]) if len(classes) else (found[:, 0], None)


@pytest.mark.filterwarnings("ignore:X. column .* contains .*, which is none of its ordered:UserWarning")
@pytest.mark.parametrize(
    "kind",
    ["number", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("many", "two", "pairs", "stack", "mixture"))],
)
@pytest.mark.parametrize("run", [table_by_python, table_by_c, table_by_fast_c, table_by_onnx])
def test_tables_are_taken_as_they_are(run, kind, table, tmp_path):
    """Categories and ranks, of texts and of numbers; known, pooled, unknown and missing values."""
    _, _, new = table
    model = fit_table(table, kind)
    predicted, probabilities = run(model, new, tmp_path)
    expected = model.predict(new)
    if kind in ("number", "stack"):
        assert_allclose(predicted, expected, rtol=1e-10, atol=1e-10)
        assert len(np.unique(expected.round(8))) > 50  # the rows differ
    else:
        assert_array_equal(predicted, expected)
        tolerance = 1e-9 if run is table_by_fast_c or kind in ("pairs", "mixture") else 1e-10
        assert_allclose(probabilities, model.predict_proba(new), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("run", [run_python, run_c, run_onnx])
def test_missing_numbers_of_the_training_rows(run, tmp_path):
    """Indicators of missing cells, for a matrix of numbers and after a scaler."""
    holed = np.where(np.random.default_rng(1).random(X.shape) < 0.2, math.nan, X)
    for model in (LSSVR(KERNELS["rbf"], C=10.0), make_pipeline(StandardScaler(), LSSVR(KERNELS["rbf-one"], C=10.0))):
        model.fit(holed, Y)
        assert_allclose(run(model, GIVEN, tmp_path)[0], model.predict(GIVEN), rtol=1e-10, atol=1e-10)


def test_long_tailed_numbers(tmp_path):
    """Columns on the scale asinh((x - origin)/unit), with missing cells and after a scaler."""
    long = np.exp(1.5 * np.random.default_rng(2).normal(size=(80, 3)))
    y = np.sin(np.log(long[:, 0])) + np.log(long[:, 1])
    long[::9, 1] = math.nan
    models = [LSSVR().fit(long, y), make_pipeline(StandardScaler(with_mean=False), LSSVR()).fit(long, y)]
    assert any(column.unit for column in models[0].fitted_.layout.columns.columns)
    assert any(column.unit for column in models[1][-1].fitted_.layout.columns.columns)
    for run, model in itertools.product([run_python, run_c, run_onnx], models):  # what may not be installed comes last
        assert_allclose(np.ravel(run(model, GIVEN, tmp_path)[0]), model.predict(GIVEN), rtol=1e-9, atol=1e-10)


def test_rows_of_a_file_in_python(table):
    """Texts as `csv.DictReader` returns them."""
    model = fit_table(table, "number")
    module: dict = {}
    exec(export.to_python(model), module)
    frame = table[0]
    file = io.StringIO()
    frame.astype({"grade": int}).to_csv(file, index=False, na_rep="?")
    file.seek(0)
    rows = list(csv.DictReader(file))
    assert_allclose([module["predict"](row) for row in rows], model.predict(frame), rtol=1e-10)
    assert module["INPUTS"] == list(frame)
    first = module["predict"](rows[0])
    assert module["predict"](rows[0] | {CITY: f" {rows[0][CITY]} ", "other": "1"}) == first
    missing = module["predict"](rows[0] | {"age": None, CITY: None})
    for word in ("", " ", "?"):
        assert module["predict"](rows[0] | {"age": word, CITY: word}) == missing
    assert module["predict"](rows[0] | {"age": "NA", CITY: pd.NA}) == missing
    assert module["predict"](rows[0] | {"prediction": "NA"}) != module["predict"](rows[0] | {"prediction": "no"})


def test_rows_of_a_table_that_python_refuses(table):
    model = fit_table(table, "two")
    module: dict = {}
    exec(export.to_python(model), module)
    names = list(table[0])
    row = dict(zip(names, ["Köln", "no", 1, "key", True, 0.5, 33.0, 0.1, "small", 20], strict=True))
    surplus = next(csv.DictReader([",".join(["1"] * 11)], fieldnames=names))
    for value, message in (
        ([*row.values(), "5"], "has 11 values, but the model takes 10"),
        (list(row.values())[:9], "has 9 values, but the model takes 10"),
        (surplus, r"more values than the header: \['1'\]"),
        (row | {"age": math.inf}, "Column 'age' is inf: give a finite number"),
        (row | {"age": "1e999"}, "Column 'age' is '1e999'"),
        (row | {"age": 10**400}, "Column 'age' is inf: give a finite number"),
        (row | {"age": "old"}, "Column 'age' is 'old'"),
        (row | {"level": "high"}, "Column 'level' is 'high': give a finite number"),
        (row | {"prediction": 3}, "Column 'prediction' is 3: give a text"),
    ):
        for method in ("predict", "decision_function", "predict_proba"):
            with pytest.raises(ValueError, match=message):
                module[method](value)


def test_categories_that_floats_do_not_tell_apart():
    keys = 2**60 + np.arange(2)[np.arange(50) % 2]
    frame = pd.DataFrame({"key": pd.Categorical(keys), "x": X[:, 0]})
    model = LSSVR(kernels.RBF(sigma=1.0), C=10.0).fit(frame, Y[:, 0])
    module: dict = {}
    exec(export.to_python(model), module)
    found = [module["predict"](row) for row in frame.astype(object).to_dict("records")]
    assert_allclose(found, model.predict(frame), rtol=1e-10)
    refused = pytest.raises(TypeError, match=r"'key' has the value 1152921504606846977.*export\.to_python")
    with refused:
        export.to_c(model)
    pytest.importorskip("onnx")
    with refused:
        export.to_onnx(model)


@pytest.mark.filterwarnings("ignore:X. column 1 is ignored:UserWarning")
@pytest.mark.parametrize("categories", [MANY, np.arange(50)], ids=["classes", "identifiers"])
def test_a_pipeline_before_categories_is_refused(categories):
    table = np.column_stack([X[:, 0], categories])
    model = make_pipeline(MaxAbsScaler(), LSSVR(kernels.Linear(), C=1.0, categorical_features=[1])).fit(table, Y)
    for convert in (export.to_c, export.to_onnx, export.to_python):
        with pytest.raises(TypeError, match="Pipeline before a model with categories"):
            convert(model)


def test_a_whole_number_beyond_all_floats_is_refused_as_infinity_is():
    module: dict = {}
    model = LSSVR(kernels.Linear(), C=1.0).fit(X, Y[:, 0])
    exec(export.to_python(model), module)
    for value in (10**400, -(10**400), math.inf):
        row = [0.0, value, *X[0, 2:].tolist()]
        with pytest.raises(ValueError, match=r"Column 1 is -?inf: give a finite number"):
            module["predict"](row)


def test_columns_named_like_outputs_of_the_graph():
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    frame = pd.DataFrame({"label": X[:, 0], "label_input": X[:, 1], "lssvm:x": np.where(X[:, 2] > 0, "a", "b")})
    model = LSSVR(kernels.RBF(sigma=WIDTHS), C=10.0).fit(frame, Y[:, 0])
    session = runtime.InferenceSession(export.to_onnx(model).SerializeToString(), providers=["CPUExecutionProvider"])
    feed = {node.name: frame.iloc[:, [place]].to_numpy() for place, node in enumerate(session.get_inputs())}
    assert list(feed) == ["label_input", "label_input_input", "lssvm:x_input"]
    assert_allclose(session.run(["prediction"], feed)[0][:, 0], model.predict(frame), rtol=1e-10)


def test_what_cannot_be_exported_says_so():
    fits = {"C": 1.0}
    for convert in (export.to_onnx, export.to_c, export.to_python):
        with pytest.raises(TypeError, match=r"Precomputed.*cannot be exported"):
            convert(LSSVR(kernels.Precomputed(), **fits).fit(X @ X.T, Y))
        with pytest.raises(TypeError, match=r"Function.*cannot be exported"):
            convert(LSSVR(kernels.Linear() + kernels.Function(lambda A, B: A @ B.T), **fits).fit(X, Y))
        with pytest.raises(NotFittedError):
            convert(LSSVR())
        with pytest.raises(TypeError, match=r"PCA.*cannot be exported"):
            convert(make_pipeline(PCA(2), LSSVR(kernels.Linear(), **fits)).fit(X, Y))
        with pytest.raises(TypeError, match="clip"):
            convert(make_pipeline(MinMaxScaler(clip=True), LSSVR(kernels.Linear(), **fits)).fit(X, Y))
        with pytest.raises(TypeError, match="model must be a fitted LSSVR or LSSVC, got None"):
            convert(None)
        with pytest.raises(TypeError, match="model=LSSVR is a class"):
            convert(LSSVR)
        with pytest.raises(TypeError, match="best_estimator_"):
            convert(GridSearchCV(LSSVR(kernels.Linear()), {"C": [1.0]}, cv=2).fit(X, Y))
        with pytest.raises(TypeError, match="StandardScaler"):
            convert(StandardScaler().fit(X))
    with pytest.raises(ValueError, match="not a valid C identifier"):
        export.to_c(LSSVR(kernels.Linear(), **fits).fit(X, Y), name="my model")
