"""Model files that somebody made to do harm: python tests/hostile.py COUNT [FOLDER].

Mutates sound files, loads them under an audit hook and prints what happened as JSON. Most mutants carry a right digest.
What loads is used as well: every method has to work or to raise ValueError. Files that break a rule go to FOLDER.
"""

import copy
import hashlib
import json
import random
import struct
import sys
import tempfile
import time
import tracemalloc
import warnings
from pathlib import Path
from unittest import mock

import numpy as np
from stacking import with_member

from lssvm import LSSVC, LSSVR, diagnose, export, kernels, load, report, robust, save, sparsify, tune
from lssvm.persist import START

FORBIDDEN = ("exec", "compile", "import", "subprocess", "os.system", "os.exec", "os.fork", "os.posix_spawn", "socket",
             "pickle.find_class", "ctypes", "code.__new__", "os.remove", "os.rename", "shutil")  # fmt: skip
SIGNATURES = (b"def foo(self, *args, **kwargs): pass",)  # what inspect parses when an error prints an estimator
VALUES = [None, True, -1, 0, 7, 2**63, 10**400, 1e308, -0.5, "", "nan", "__class__", "os.system", [], {}, [[]], [None],
          {"float": "nan"}, {"float": "inf"}, {"tuple": []}, {"tuple": [1]}, {"dict": [["a", 1]]}, {"dict": [[[], 1]]},
          {"array": "members[0].fit.coef"}, {"array": "members[0].fit.points", "by_columns": True},
          {"array": "members[0].problem.y"},
          {"class": "builtins.eval", "fields": {"source": "1"}}, {"class": "subprocess.Popen", "fields": {"args": "x"}},
          {"class": "kernels.RBF", "fields": {"sigma": 2.0}}, {"class": "kernels.RBF", "fields": {"sigma": "2"}},
          {"class": "kernels.Precomputed", "fields": {}}, {"class": "kernels.Choice", "fields": {"kernels": [1]}},
          {"class": "kernels.Sum", "fields": {"k1": 1, "k2": {"class": "kernels.Linear", "fields": {}}}},
          {"class": "kernels.Polynomial", "fields": {"degree": 10**300, "coef0": 1.0}},
          {"class": "RandomState", "fields": {"name": "MT19937", "key": [], "position": 1, "has_gauss": 0, "gauss": 0}},
          {"class": "Bunch", "fields": {"__class__": 1, "__reduce__": "x"}}, {"class": "Problem", "fields": {}},
          {"labels": ["a"], "codes": {"array": "members[0].fit.support"}, "dtype": "O"}]  # fmt: skip


def read_header(content):
    """Header and data of a model file."""
    length = struct.unpack("<Q", content[:8])[0]
    return json.loads(content[8 : 8 + length]), content[8 + length :]


def reseal(header, data):
    """A model file with a right digest."""
    metadata = {key: value for key, value in header["__metadata__"].items() if key != "sha256"}
    header = {"__metadata__": {"sha256": "0" * 64, **metadata}, **{k: v for k, v in header.items() if k[:2] != "__"}}
    return seal(json.dumps(header, separators=(",", ":")).encode(), data)


def seal(text, data):
    content = struct.pack("<Q", len(text)) + text + data
    digest = hashlib.sha256(content).hexdigest().encode()
    return content[: 8 + len(START)] + digest + content[8 + len(START) + 64 :]


def nodes(tree):
    """(container, key) of all values inside a JSON tree."""
    for key, value in list(tree.items()) if isinstance(tree, dict) else list(enumerate(tree)):
        yield tree, key
        if isinstance(value, (dict, list)):
            yield from nodes(value)


def mutate_tree(tree, draw):
    """Replace, remove, copy, move or rename values somewhere in a JSON tree."""
    places = list(nodes(tree))
    if not places:  # an earlier change removed them all
        return
    container, key = draw.choice(places)
    action = draw.randrange(6)
    if action <= 2:
        container[key] = copy.deepcopy(draw.choice(VALUES))
    elif action == 3:
        del container[key]
    elif action == 4:
        other, place = draw.choice(places)
        container[key] = copy.deepcopy(other[place])
    elif isinstance(container, dict):
        container[draw.choice(["", "a" * 50, "__dict__", "kernel_", str(key) + "_"])] = container.pop(key)
    else:
        container.insert(0, copy.deepcopy(draw.choice(VALUES)))


INTEGERS = [-(2**63), -1, 0, 1, 2, 3, 100, 10**9, 2**31, 2**63, 10**30, 10**400]
FLOATS = [-1.0, -0.0, 0.0, 1e-320, 1e-3, 1.0, 7.5, 1e154, 1e308, {"float": "nan"}, {"float": "inf"}, {"float": "-inf"}]
TEXTS = ["", "auto", "huber", "balanced", "mad", "keep", "kernels.Linear", "O", "U", "T", "x" * 300, "\U0001f600"]


def mutate_value(tree, draw, arrays):
    """Change a value to another of the same kind, a reference to another array, or a list to a longer one."""
    container, key = draw.choice(list(nodes(tree)))
    value = container[key]
    if isinstance(value, dict) and "array" in value:
        value = {"array": draw.choice(arrays)}
        container[key] = draw.choice([value, {**value, "by_columns": True}, [value] * draw.choice([1, 2, 3000])])
    elif isinstance(value, dict) and "labels" in value:
        labels = draw.choice([value["labels"] * 100, ["x" * 10**5, *value["labels"]], [1, None, 2.5], []])
        value = {**value, "labels": labels, "dtype": draw.choice("OUT")}
        container[key] = value if len(str(labels)) > 1000 else [value] * draw.choice([1, 500])
    elif isinstance(value, bool):
        container[key] = not value
    elif isinstance(value, int):
        container[key] = draw.choice(INTEGERS)
    elif isinstance(value, float):
        container[key] = draw.choice(FLOATS)
    elif isinstance(value, str):
        container[key] = draw.choice(TEXTS)
    elif value is None:
        container[key] = copy.deepcopy(draw.choice(VALUES + INTEGERS + FLOATS + TEXTS))
    elif isinstance(value, list) and value:
        container[key] = draw.choice([value[1:], value * 2, value[::-1], value[:1] * 2000])
    elif isinstance(container, dict):
        del container[key]


def mutate_arrays(header, data, draw):
    """Give an array another shape or type that fills its place, swap two places, or add an array."""
    names = [name for name in header if name != "__metadata__"]
    entry = header[draw.choice(names)]
    size, action = int(np.prod(entry["shape"])), draw.randrange(6)
    if action == 0:
        entry["shape"] = draw.choice([[size], [size, 1], [1, size], [1] * 7 + [size], entry["shape"][::-1]])
    elif action == 1:
        entry["dtype"] = {"F64": "I64", "I64": "U64", "I32": "F32"}.get(entry["dtype"], "I8")
    elif action == 2 and entry["dtype"] in ("F64", "I64"):
        entry.update(dtype=draw.choice(["F32", "I32"]), shape=[2 * size])
    elif action == 3:
        other = header[draw.choice(names)]
        entry["data_offsets"], other["data_offsets"] = other["data_offsets"], entry["data_offsets"]
        entry["shape"], other["shape"] = other["shape"], entry["shape"]
    elif action == 4:  # no bytes at all, but a huge shape
        end = entry["data_offsets"][1]
        entry.update(shape=draw.choice([[0, 10**9], [10**9, 0], [0]]), data_offsets=[end, end])
        return header, data[: end - 8 * size] + data[end:]
    else:
        more = draw.choice([8, 8 * 10**4])
        header["more"] = {"dtype": "F64", "shape": [more // 8], "data_offsets": [len(data), len(data) + more]}
        data += bytes(more)
    return header, data


def mutant(content, draw):
    """A changed file."""
    kind = draw.randrange(20)
    if kind == 0:  # bytes, wherever, digest as it was
        place = draw.randrange(len(content))
        return content[:place] + draw.randbytes(draw.randrange(4)) + content[place + draw.randrange(4) :]
    header, data = read_header(content)
    if kind == 1:  # bytes of the header, digest made right
        text = json.dumps(header, separators=(",", ":")).encode()
        place = draw.randrange(len(START) + 65, len(text))
        return seal(text[:place] + draw.randbytes(draw.randrange(3)) + text[place + draw.randrange(3) :], data)
    if kind == 2:  # bytes of the arrays
        place = draw.randrange(max(len(data) - 8, 1))
        special = struct.pack("<d", draw.choice([float("nan"), float("inf"), 1e308, -1.0, 1e-320]))
        return reseal(header, data[: place - place % 8] + special + data[place - place % 8 + 8 :])
    if kind == 3:  # nested deeply, or long
        bombs = ["[" * 10**5, "[" * 900 + "]" * 900, '{"tuple":' * 500 + "[]" + "}" * 500, "9" * 10**5, "1e999"]
        start, end = draw.choice([("", ""), ('{"model":{"class":"LSSVR","fields":{"C":', '}},"fitted":{}}')])
        header["__metadata__"]["model"] = start + draw.choice(bombs) + end
        return reseal(header, data)
    if kind <= 5:
        mutate_tree(header, draw)
        if "__metadata__" not in header or not isinstance(header["__metadata__"], dict):
            return seal(START + b"0" * 64 + b'"}}', data)
        return reseal(header, data)
    model = json.loads(header["__metadata__"]["model"])
    arrays = [name for name in header if name != "__metadata__"]
    if kind in (6, 7):
        header, data = mutate_arrays(header, data, draw)
    for _ in range(draw.choice([1, 1, 1, 2, 5]) if kind != 6 else 0):
        if kind <= 10:
            mutate_tree(model, draw)
        else:
            mutate_value(model, draw, arrays)
    header["__metadata__"]["model"] = json.dumps(model)
    return reseal(header, data)


def originals():
    """Small sound models of several kinds."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(12, 2)), rng.normal(size=(12, 2))
    text = np.array(["a", "b", "c"])[np.arange(12) % 3]
    sums = kernels.RBF(sigma=[1.0, 2.0]) + kernels.Additive(kernels.Matern(sigma=1.0)) * kernels.Polynomial(2)
    draws = sparsify.Random(4, random_state=np.random.RandomState(0))
    yield LSSVR(sums, C=1.0, robust="hampel").fit(X, y), X
    yield (
        LSSVC(kernels.RBF(sigma=1.0), C=1.0, steps=[draws], class_weight={"a": 2.0, "b": 1.0, "c": 1.0}).fit(X, text),
        X,
    )
    yield LSSVC(kernels.RBF(sigma=1.0), C=1.0, steps=[sparsify.Given(X[[0, 1, 1]])]).partial_fit(X, text), X
    given = {"kernel": kernels.RBF(sigma=1.0), "C": 1.0, "steps": [sparsify.Given(X[[0, 1, 1, 2]])]}
    yield LSSVR(**given).partial_fit(X, y), X
    yield LSSVR(**given).fit_chunks([(X, y)]), X
    yield LSSVR(kernels.Precomputed(), C=1.0, steps=[sparsify.Prune(5)]).fit(X @ X.T, y[:, 0]), X @ X.T
    yield LSSVR().fit(X, X[:, 0] + 0.1 * y[:, 0]), X
    widths = LSSVR(kernels.RBF([1.0, 3.0]), C=1.0).fit(X, y[:, 0])
    with_member(widths, problem=widths.fitted_.problem.replace(asked=(kernels.RBF(ard=True), None)))
    widths.predict_interval(X)  # searches again without folds, and keeps the result
    diagnose.scores(widths)  # keeps what it chose for the noise of plain leave-one-out residuals
    yield widths, X
    splines = kernels.Additive(kernels.Spline(3), groups=[[0, 1], [1]], active=[1])
    yield LSSVR(splines, C=1.0).fit(X, y[:, 0]), X
    inputs = sparsify.Components(rho=0.5, random_state=0)
    yield LSSVR(kernels.Additive(kernels.Spline(3)), C=1.0, steps=[inputs]).fit(X, 3.0 * X[:, 0]), X
    yield LSSVC(kernels.Matern(), C=1.0, robust=robust.Hampel(iterations=2)).fit_chunks([(X, text)]), X
    steps = [sparsify.Random(8, random_state=0), tune.LeaveOneOut(search="grid"), sparsify.Prune(4, rows="keep")]
    yield LSSVR(kernels.Choice([kernels.RBF(), kernels.Linear()]), steps=steps, robust="huber").fit(X, y[:, 0]), X
    yield LSSVR(kernels.RBF(1.0), C=1.0, steps=[sparsify.Adaline(max_iter=9, final_solve=False)]).fit(X, y), X
    with mock.patch("lssvm.problem.problem.ITERATIVE_ROWS", 5):  # leave-one-out when it is asked for
        yield LSSVC(kernels.RBF(1.0), C=1.0).fit(X, text), X
    stack = kernels.Stack([kernels.RBF(1.0), kernels.Linear()])
    yield LSSVR(stack, C=1.0).fit(X, y), X
    yield LSSVC(stack, C=1.0).fit(X, text), X
    cells = np.column_stack([X[:, 0], np.where(X[:, 1] > 1.0, np.nan, X[:, 1]), np.arange(12) % 4]).astype(object)
    cells[::5, 2] = None
    yield LSSVR(kernels.RBF(), C=1.0, categorical_features=[2]).fit(cells, y[:, 0]), cells
    named = np.column_stack([cells[:, :2], text])
    yield LSSVC(kernels.Additive(kernels.RBF([1.0, 2.0, 3.0])), C=1.0, categorical_features=[2]).fit(named, text), named


METHODS = ("predict", "predict_interval", "predict_set", "decision_function", "predict_proba", "components")
FUNCTIONS = (report.to_html, diagnose.scores)
EXPORTS = (export.to_python, export.to_c)


def use(model, X, folder):
    """Call what a loaded model offers, save it and go on learning; all may raise ValueError, and nothing else."""
    calls = [lambda name=name: getattr(model, name)(X) for name in METHODS if hasattr(model, name)]
    calls += [lambda function=function: function(model) for function in FUNCTIONS]
    calls += [lambda function=function: function(model) for function in EXPORTS if not model.kernel_.is_precomputed]
    calls += [lambda: repr(model), lambda: (save(model, folder / "again.lssvm"), load(folder / "again.lssvm"))]
    targets = model.classes_[np.arange(len(X)) % len(model.classes_)] if hasattr(model, "classes_") else X[:, 0]
    if hasattr(model, "partial_fit"):
        calls.append(lambda: copy.deepcopy(model).partial_fit(X, targets))
    for call in calls:
        try:
            call()
        except (ValueError, TypeError):
            continue


def main(count, keep=None):
    draw = random.Random(1)
    found = {"refused": 0, "accepted": 0, "other_errors": [], "later_errors": [], "events": [], "slowest": 0.0,
              "slowest_use": 0.0, "beyond_memory": -1e9}  # fmt: skip
    watching = False

    def hook(event, arguments):
        harmless = event == "compile" and arguments[0] in SIGNATURES
        if watching and event.startswith(FORBIDDEN) and not harmless:
            found["events"].append(f"{event} {arguments!r}"[:200])

    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.lssvm"
        sound = []
        for model, X in originals():
            save(model, path)
            assert np.array_equal(load(path).predict(X), model.predict(X))
            use(load(path), X, Path(folder))  # scikit-learn imports what this needs late
            sound.append((path.read_bytes(), X))
        sys.addaudithook(hook)
        for number in range(count):
            content, X = draw.choice(sound)
            content = mutant(content, draw)
            path.write_bytes(content)
            error = model = None
            tracemalloc.start()
            watching, start = True, time.process_time()
            try:
                model = load(path)
            except (ValueError, TypeError):
                pass
            except Exception as raised:
                error = raised
                found["other_errors"].append(f"{number}: {raised!r}"[:300])
            watching = False
            seconds = time.process_time() - start
            memory = tracemalloc.get_traced_memory()[1] - 10 * len(content)
            tracemalloc.stop()
            found["slowest"] = max(found["slowest"], seconds)
            found["beyond_memory"] = max(found["beyond_memory"], memory)
            found["refused" if model is None else "accepted"] += 1
            if model is not None:
                start = time.process_time()
                try:
                    with np.errstate(all="ignore"):
                        use(model, X, Path(folder))
                except Exception as raised:
                    error = raised
                    found["later_errors"].append(f"{number}: {raised!r}"[:300])
                later = time.process_time() - start
                found["slowest_use"] = max(found["slowest_use"], later)
                seconds = max(seconds, later)
            if keep is not None and (error is not None or seconds > 2.0 or memory > 10**8):
                (Path(keep) / f"{number}.lssvm").write_bytes(content)
    print(json.dumps(found))


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])
