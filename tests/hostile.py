"""Model files that somebody made to do harm: python tests/hostile.py COUNT.

Mutates sound files, loads them under an audit hook and prints what happened as JSON. Most mutants carry a right digest.
"""

import copy
import hashlib
import json
import random
import struct
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from lssvm import LSSVC, LSSVR, kernels, load, persist, save, sparsify

FORBIDDEN = ("exec", "compile", "import", "subprocess", "os.system", "os.exec", "os.fork", "os.posix_spawn", "socket",
             "pickle.find_class", "ctypes", "code.__new__", "os.remove", "os.rename", "shutil")  # fmt: skip
SIGNATURES = (b"def foo(self, *args, **kwargs): pass",)  # what inspect parses when an error prints an estimator
VALUES = [None, True, -1, 0, 7, 2**63, 10**400, 1e308, -0.5, "", "nan", "__class__", "os.system", [], {}, [[]], [None],
          {"float": "nan"}, {"float": "inf"}, {"tuple": []}, {"tuple": [1]}, {"dict": [["a", 1]]}, {"dict": [[[], 1]]},
          {"array": "dual_coef_"}, {"array": "support_vectors_", "by_columns": True}, {"array": "_problem_.y"},
          {"class": "builtins.eval", "fields": {"source": "1"}}, {"class": "subprocess.Popen", "fields": {"args": "x"}},
          {"class": "kernels.RBF", "fields": {"sigma": 2.0}}, {"class": "kernels.RBF", "fields": {"sigma": "2"}},
          {"class": "kernels.Precomputed", "fields": {}}, {"class": "kernels.Choice", "fields": {"kernels": [1]}},
          {"class": "kernels.Sum", "fields": {"k1": 1, "k2": {"class": "kernels.Linear", "fields": {}}}},
          {"class": "kernels.Polynomial", "fields": {"degree": 10**300, "coef0": 1.0}},
          {"class": "RandomState", "fields": {"name": "MT19937", "key": [], "position": 1, "has_gauss": 0, "gauss": 0}},
          {"class": "Bunch", "fields": {"__class__": 1, "__reduce__": "x"}}, {"class": "Problem", "fields": {}},
          {"labels": ["a"], "codes": {"array": "support_"}, "dtype": "O"}]  # fmt: skip


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
    return content[: 8 + len(persist.START)] + digest + content[8 + len(persist.START) + 64 :]


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


def mutant(content, draw):
    """A changed file."""
    kind = draw.randrange(10)
    if kind == 0:  # bytes, wherever, digest as it was
        place = draw.randrange(len(content))
        return content[:place] + draw.randbytes(draw.randrange(4)) + content[place + draw.randrange(4) :]
    header, data = read_header(content)
    if kind == 1:  # bytes of the header, digest made right
        text = json.dumps(header, separators=(",", ":")).encode()
        place = draw.randrange(len(persist.START) + 65, len(text))
        return seal(text[:place] + draw.randbytes(draw.randrange(3)) + text[place + draw.randrange(3) :], data)
    if kind == 2:  # bytes of the arrays
        place = draw.randrange(max(len(data) - 8, 1))
        special = struct.pack("<d", draw.choice([float("nan"), float("inf"), 1e308, -1.0, 1e-320]))
        return reseal(header, data[: place - place % 8] + special + data[place - place % 8 + 8 :])
    if kind == 3:  # nested deeply, or long
        bombs = ["[" * 10**5, "[" * 900 + "]" * 900, '{"tuple":' * 500 + "[]" + "}" * 500, "9" * 10**5, "1e999"]
        start, end = draw.choice([("", ""), ('{"class":"LSSVR","parameters":{"C":', '},"fitted":{}}')])
        header["__metadata__"]["model"] = start + draw.choice(bombs) + end
        return reseal(header, data)
    if kind <= 5:
        mutate_tree(header, draw)
        if "__metadata__" not in header or not isinstance(header["__metadata__"], dict):
            return seal(persist.START + b"0" * 64 + b'"}}', data)
        return reseal(header, data)
    model = json.loads(header["__metadata__"]["model"])
    for _ in range(draw.choice([1, 1, 1, 2, 5])):
        mutate_tree(model, draw)
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
    splines = kernels.Additive(kernels.Spline(3), groups=[[0, 1], [1]], active=[1])
    yield LSSVR(splines, C=1.0).fit(X, y[:, 0]), X


def main(count):
    draw = random.Random(1)
    report = {"refused": 0, "accepted": 0, "other_errors": [], "events": [], "slowest": 0.0}
    watching = False

    def hook(event, arguments):
        harmless = event == "compile" and arguments[0] in SIGNATURES
        if watching and event.startswith(FORBIDDEN) and not harmless:
            report["events"].append(f"{event} {arguments!r}"[:200])

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.lssvm"
        sound = []
        for model, X in originals():
            save(model, path)
            assert np.array_equal(load(path).predict(X), model.predict(X))
            repr(model)  # scikit-learn imports what this needs late
            sound.append((path.read_bytes(), X))
        sys.addaudithook(hook)
        for _ in range(count):
            content, X = draw.choice(sound)
            path.write_bytes(mutant(content, draw))
            watching, start = True, time.process_time()
            try:
                model = load(path)
            except ValueError:
                model = None
            except Exception as error:
                report["other_errors"].append(repr(error)[:300])
                model = None
            watching = False
            report["slowest"] = max(report["slowest"], time.process_time() - start)
            report["refused" if model is None else "accepted"] += 1
            if model is not None:
                try:
                    with np.errstate(all="ignore"):
                        model.predict(X)
                        if hasattr(model, "predict_interval"):
                            model.predict_interval(X)
                except Exception as error:  # odd parameters and names may be refused here; a crash would end us
                    str(error)
    print(json.dumps(report))


if __name__ == "__main__":
    main(int(sys.argv[1]))
