"""Parameters of the estimators: their types and rules, what None means, and the execution of the steps."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from numbers import Integral, Real
from typing import Annotated, Any

import numpy as np
import scipy
from sklearn.base import clone, is_classifier

from .. import arrays
from ..arrays import Array, ArrayLike
from ..coding import CODINGS, pair_work
from ..intervals.jackknife import fold_labels
from ..kernels import RBF, Additive, Choice, Kernel, Linear, Matern, Spline, Stack, as_kernel
from ..losses import LOSSES, NUMBER_LOSSES
from ..problem import CHECKED_ROWS, Problem, Step
from ..progress import counted, work, write
from ..robust import WeightFunction, as_weight_function
from ..rules import List, Rule, as_array, number, one_of, shown
from ..sparsify import Given, Random
from ..tables import Column, Columns
from ..targets import NAMES, TargetScale, target_scale
from ..tune import LeaveOneOut
from ..tune.choose_C import ROBUST_ITERATIONS, unexplained
from ..tune.constants import DENSE_ROWS, QUICK, sized
from ..tune.input_scales import is_better_scaled, long_tail_scales
from ..tune.leave_one_out import most_to_tune, tuned
from .layout import Table

ORDERED = ("number", "ranks", "time")  # columns that may have an order constraint
MOST_STEPS = 100  # of a fit
FULL_PORTFOLIO = 1000  # rows up to which the default stack has all its members
MOST_WORK = 3e11  # largest sum of rows * n^2 over the members of the default stack, n points each: about 70 seconds
EXPLAINED = 1e-4  # share of the variance: with less left (visualizing_soil), 60 instead of 91 seconds, same error
MOST_PAIRS = 5000  # of classes, up to which "auto" considers models of pairs; those of 100 classes take half a minute
DENSE_CLASS_WORK = 6e10  # A classifier is dense up to this sum of the cubed sizes of all pairs.
CLASS_BASIS_WORK = 1e11  # The basis of others has this squared size times rows of all pairs times systems.
CLASS_SYSTEMS = 10  # Losses other than squares need this many systems.
CLASS_BASIS = (300, 3000)  # The basis of a classifier has at least and at most this many points.
LONG = 30.0  # With verbose=1, fits that may take more seconds are described before they begin.
GRADIENT_WORK = 270.0  # Conjugate gradients with leave-one-out take 90 to 270 ns per element of the kernel matrix.
MOST_POINTS = 2000  # of counts and positive targets, if a dense model cannot be factorised, and with monotonic_cst
BASIS_SIZE = 500  # partial_fit and fit_chunks with steps=None: number of basis rows

# The kernel of classifiers (True) and of regression for kernel=None: widths per column are tried, and for regression
# two families of kernels.
DEFAULT_KERNELS: dict[bool, Kernel] = {True: RBF(ard=True), False: Choice([RBF(ard=True), Matern(ard=True)])}


def are_steps(steps: Any) -> bool:
    """Return whether a list of steps is not too long; TypeError if it is not a list of steps."""
    if isinstance(steps, (str, Step, type)) or not isinstance(steps, Sequence):
        example = repr(steps) if isinstance(steps, Step) else "lssvm.sparsify.Random(100)"
        raise TypeError(f"steps must be a list of steps or None, got {shown(steps)}: write steps=[{example}].")
    for step in steps:
        if isinstance(step, Kernel):
            raise TypeError(f"steps holds {step!r}, which is a kernel: write kernel={step!r}.")
        if isinstance(step, type) or not callable(step):
            raise TypeError(f"steps holds {shown(step)}, which is not a step: see lssvm.sparsify and lssvm.tune.")
    return len(steps) <= MOST_STEPS


def are_weights(value: Any) -> bool:
    """Return whether this is a dict of weights whose products with sample weights are finite."""
    real: Any = Real
    return isinstance(value, Mapping) and all(isinstance(w, real) and 0 <= w < 1e100 for w in value.values())


def are_signs(value: Any) -> bool:
    """Return whether this is a dict, or a list or array, of -1, 0 and 1."""
    found = as_array(list(value.values()) if isinstance(value, Mapping) else value)
    return found.ndim == 1 and found.dtype.kind in "iuf" and bool(np.isin(found, (-1, 0, 1)).all())


KernelFunction = Annotated[Kernel | Callable[[Array, Array], Array], Rule("a kernel", as_kernel, objects=True)]
Steps = Annotated[
    Sequence[Callable[[Problem], Problem]], Rule(f"a list of at most {MOST_STEPS} steps", are_steps, objects=True)
]
Weighting = Annotated[str | WeightFunction, Rule("a weight function", as_weight_function, objects=True)]
GivenC = Annotated[
    float | None,
    number("a positive, finite number (1e-150 to 1e150)", 1e-150, 1e150)
    | Rule("None (chosen by leave-one-out)", lambda value: value is None),
]
ColumnNames = Annotated[ArrayLike | str, one_of("from_dtype") | List.__metadata__[0]]
ClassWeights = Annotated[
    Mapping[Any, float] | str, one_of("balanced") | Rule("a dict of finite, non-negative weights", are_weights)
]
Verbosity = Annotated[
    int, Rule("0 (silent) or 1 (shows progress)", lambda value: isinstance(value, (Integral, np.bool_)) and value >= 0)
]
Coding = Annotated[str, one_of("auto", *CODINGS)]
LossName = Annotated[str, one_of("auto", *LOSSES)]
NumberLoss = Annotated[str, one_of(*NUMBER_LOSSES)]
Monotonic = Annotated[Any, Rule("a dict of columns with 1, -1 or 0, or one of these per column", are_signs)]
Target = Annotated[
    Any,
    one_of("auto", "identity", *NAMES)
    | Rule("a transformer", lambda value: hasattr(value, "fit") and hasattr(value, "inverse_transform")),
]


def plan(model: Any, table: Table, *, chunked: bool = False) -> tuple[list[Problem], bool]:
    """Return the problems before their steps, one per kernel, and whether the model is a stack of them."""
    X, weights = table.X, table.weights
    classification = is_classifier(model)
    # a clone, so that the user's kernel stays unchanged
    kernel = clone(DEFAULT_KERNELS[classification] if model.kernel is None else as_kernel(model.kernel))
    columns = table.layout.encoder
    if columns is not None:
        kernel = for_encoded_columns(kernel, columns)
    kernel = kernel.placed(X[weights > 0])
    if not kernel.is_free:
        kernel.check(X.shape[1])
    if kernel.is_precomputed:
        K = arrays.to_numpy(X)
        is_square = K.shape[0] == K.shape[1]
        if not (is_square and np.max(np.abs(K - K.T)) <= 1e-6 * np.max(np.abs(K))):
            wrong = "X is not symmetric" if is_square else f"X has shape {K.shape}"
            raise ValueError(f"{wrong}: with kernels.Precomputed, fit takes the square matrix of all k(x_i, x_j).")
    positive = np.flatnonzero(arrays.to_numpy(weights) > 0)
    kernel.check_values(arrays.take(X, positive[:: 1 + len(positive) // CHECKED_ROWS]))
    C = None if model.C is None else float(model.C)
    robust, groups = as_weight_function(model.robust), None if columns is None else columns.groups
    shared = {"robust": robust, "classification": classification, "groups": groups, "effort": float(model.effort)}
    shared["loss"] = "squared" if classification else model.loss
    problem = Problem(kernel, X, table.targets, weights, C=C, asked=(kernel, C), **shared)
    if getattr(model, "monotonic_cst", None) is not None:
        problem = problem.replace(monotonic=monotonic_signs(model.monotonic_cst, problem, table, chunked=chunked))
    if table.groups is not None:
        problem = problem.replace(row_groups=fold_labels(table.groups, problem, "groups"))
    given = (model.kernel, C, model.steps, robust)
    is_default = not (chunked or classification) and all(value is None for value in given)
    if is_default:
        kernel = default_portfolio(problem)
    parts = kernel.parts if kernel.is_stack else [kernel]
    problems, target = [problem.replace(kernel=part, asked=(part, C)) for part in parts], getattr(model, "target", None)
    if target == "auto" and is_default and problem.loss == "squared":
        return problems + scaled_members(problems), True
    if target not in (None, "auto", "identity"):
        if problem.loss != "squared":
            raise ValueError(f"target={target!r} is for loss='squared', got loss={problem.loss!r}: omit one of them.")
        if chunked:
            what = f"target={target!r} needs all rows at once"
            raise ValueError(f"{what}: use fit, or transform the targets of the chunks.")
        y = arrays.to_numpy(problem.y)
        problems = on_scale(problems, target_scale(target, y, problem.rows))
    return problems, kernel.is_stack


def monotonic_signs(given: Any, problem: Problem, table: Table, *, chunked: bool) -> np.ndarray | None:
    """Return the signs of `monotonic_cst` for the encoded columns; None if all are 0."""
    layout = table.layout
    columns = [Column(name) for name in range(layout.n_features)] if layout.columns is None else layout.columns.columns
    names = [own.name for own in columns] if layout.names is None else layout.names.tolist()
    unknown = [name for name in given if name not in names] if isinstance(given, Mapping) else []
    if unknown or not (isinstance(given, Mapping) or len(given) == len(names)):
        what = f"names {unknown[0]!r}" if unknown else f"has {len(given)} values"
        raise ValueError(f"monotonic_cst {what}, but the {len(names)} columns of X are {shown(names)}: write these.")
    signs = np.array([given.get(name, 0) for name in names] if isinstance(given, Mapping) else given, dtype=int)
    refused = {
        "precomputed kernels, which have no columns: give a kernel of the columns": problem.kernel.is_precomputed,
        f"loss={problem.loss!r}: use loss='squared', with target='log' for positive targets": problem.loss != "squared",
        f"{problem.y.shape[1]} targets: fit one model for each": problem.y.shape[1] > 1,
        "fits on chunks: use fit": chunked,
        "arrays on a device: convert X to NumPy": not arrays.is_numpy(problem.X),
    }
    for name, own, sign in zip(names, columns, signs, strict=True):
        kind = own.kind + " with cycles" * bool(own.cycles)
        refused[f"a {kind} (column {name!r}): convert it to numbers"] = sign and kind not in ORDERED
    if signs.any() and any(refused.values()):
        raise ValueError(f"monotonic_cst does not support {next(filter(refused.get, refused))}.")
    signs = signs[layout.sources] * (np.diff(layout.sources, prepend=-1) > 0)  # not of indicators of missing cells
    return signs if signs.any() else None


def on_scale(problems: Sequence[Problem], scale: TargetScale) -> list[Problem]:
    """Return the problems of a stack with their targets on another scale."""
    y = problems[0].y
    return [problem.replace(y=arrays.like(scale.forward(arrays.to_numpy(y)), y), target=scale) for problem in problems]


def scaled_members(problems: Sequence[Problem]) -> list[Problem]:
    """Return members of the default stack on the "power" scale of one output, if it is skewed.

    It is skewed if the skewness exceeds two standard errors, the exponent is closer to 0, the logarithm, than to 1, and
    the log likelihood of the targets rises by more than the logarithm of their number (the Bayesian information
    criterion for exponent and unit).
    """
    y, rows = arrays.to_numpy(problems[0].y), problems[0].rows
    known, count, span = y[rows], len(rows), np.ptp(y[rows])
    if y.shape[1] > 1 or span == 0.0 or problems[0].effort < QUICK:
        return []
    shares = (known - known.min()) / span  # whose squares do not overflow
    if abs(float(scipy.stats.skew(shares)[0])) < 2.0 * math.sqrt(6.0 / count):
        return []
    scale = target_scale("power", y, rows)
    gain = scale.likelihood(known) + count * math.log(span * shares.std())
    if scale.exponents[0] > 0.5 or gain < math.log(count):
        return []
    return on_scale([problem for problem in problems if getattr(problem.kernel, "nu", None) == 1.5][-1:], scale)


def with_best_scales(model: Any, table: Table) -> Table:
    """Return the table with long-tailed numbers on a scale that `fit` may choose: only those of the default kernels."""
    if model.kernel is not None or model.effort < QUICK:
        return table
    problem = plan(model, table)[0][0]
    problem = problem if problem.loss == "squared" else problem.stabilised()
    scales = long_tail_scales(problem)
    if not scales[1].any():
        return table
    layout, encoded = table.layout, arrays.to_numpy(table.X)
    columns = layout.columns
    if columns is None:  # rows of a device
        names = range(encoded.shape[1]) if layout.names is None else layout.names
        columns = Columns(tuple(map(Column, names))).fitted(list(encoded.T))
    columns, scaled = columns.scaled(scales, encoded)
    X = arrays.like(scaled, table.X)
    return replace(table, layout=replace(layout, columns=columns), X=X) if is_better_scaled(problem, X) else table


def for_encoded_columns(kernel: Kernel, columns: Columns) -> Kernel:
    """Return the kernel with the widths and groups that the user gave per column of the table, for the encoded columns.

    An additive kernel without groups has one component per column of the table.
    """
    sources, count = columns.sources, len(columns.columns)

    def change(part: Kernel) -> dict[str, Any]:
        name = "scale" if isinstance(part, Linear) else "sigma"
        values = np.asarray(arrays.to_numpy(getattr(part, name, None)))
        if values.ndim == 1 and len(values) > 1:
            if len(values) != count:
                what = f"{type(part).__name__}: {name} has {len(values)} values, but X has {count} columns"
                raise ValueError(f"{what}: give {count} values.")
            return {name: values[sources]}
        if not isinstance(part, Additive):
            return {}
        groups = [[number] for number in np.unique(sources)] if part.groups is None else part.components(count)
        return {"groups": [np.flatnonzero(np.isin(sources, group)).tolist() for group in groups]}

    return kernel.rebuilt(change)


def default_portfolio(problem: Problem) -> Kernel:
    """Return the stack that `LSSVR` fits if kernel, C, steps and robust are None.

    Up to 1000 rows, an additive spline gains nothing (it is the worst member of the worst of 17 tables), and a common
    width of Matern 1/2 next to one width per column 0.1 %. Above, common widths gain little, but cost as much as other
    members, and a very wide one extrapolates badly: the error on abalone was 5 % larger with it. The first member
    chooses the basis of all. A cell of 1e200 is too large for products of rows, but not for distances.
    """
    several = problem.spreads.varying_inputs > 1
    if len(problem.rows) <= FULL_PORTFOLIO:
        members: list[Kernel] = [RBF(), Matern()]
        members += [RBF(ard=True), Matern(ard=True), Matern(nu=0.5, ard=True)] if several else [Matern(nu=0.5)]
    else:
        members = [Matern(ard=several), RBF(ard=several), Matern(nu=0.5, ard=several), Spline()]
    count = math.ceil(problem.effort * len(members))
    if count < len(members):
        members = [Matern(ard=several), RBF(ard=several), Matern(nu=0.5, ard=several)][:count]
    rows, spreads = problem.X[problem.weights > 0], problem.spreads
    scale = np.where(spreads.constant, math.inf, spreads.values)
    members = [kernel.placed(rows) for kernel in (*members, Linear(scale))]
    xp, size = arrays.namespace(rows), rows.shape[0]
    with np.errstate(over="ignore"):  # bounds of the sums of kernel matrices, which must be finite
        sums = [1.0 if kernel.is_bounded else size * float(xp.sum(kernel.diagonal(rows))) for kernel in members]
    return Stack([kernel for kernel, total in zip(members, sums, strict=True) if math.isfinite(total)])


def most_to_solve(problem: Problem) -> float:
    """Return the `work` of the final fit for ``steps=None``."""
    rows, effort = len(problem.rows), problem.effort
    solves = 1 if problem.robust is None else 1 + max(ROBUST_ITERATIONS, problem.robust.iterations)
    return solves * work(rows, None if rows <= sized(DENSE_ROWS, effort) else sized(BASIS_SIZE, effort, 2))


def announce(problems: Sequence[Problem]) -> None:
    """Write to standard error what is about to be searched and fitted, if that may take long."""
    rows, basis = len(problems[0].rows), None if problems[0].is_dual else problems[0].basis_size
    most = sum(most_to_tune(problem, stage) for problem in problems if not problem.is_known for stage in (0, -1))
    most += len(problems) * (GRADIENT_WORK * rows**2 if problems[0].is_iterative() else work(rows, basis))
    if 1e-9 * most > LONG and sys.stderr is not None:
        size = "dense" if basis is None else f"{basis} basis points"
        text = f"{rows} rows, {size}, {counted(len(problems), 'model')}: up to {1e-9 * most:.0f} s on one core"
        write(sys.stderr, f"\r{text:<79}\n")  # over the progress so far


def with_bases(problems: Sequence[Problem], steps: Any, *, is_default: bool) -> list[Problem]:
    """Return the problems of the members of a stack after their steps.

    For ``steps=None``, all of them share the basis of the first one, unless fewer points than half of it span all
    functions of their kernel. Members of the default stack that take too long are left out, as on large tables a larger
    basis gains more: rough kernels, which gain most by it, stay. There are at least two members, unless the first one
    leaves almost nothing to explain.
    """
    if steps is not None:
        return [run_steps(problem, steps) for problem in problems]
    dense = len(problems[0].rows) <= sized(DENSE_ROWS, problems[0].effort) or problems[0].kernel.is_precomputed
    if problems[0].loss != "squared":  # the steps see targets whose variances are the same
        first = problems[0]
        ready = with_bases([problem.stabilised() for problem in problems], steps, is_default=is_default)
        if ready[0].is_iterative():  # Newton's method needs factorisations
            ready = [own.with_basis(own.rows_by_content[:MOST_POINTS]) for own in ready]
        return [own.replace(loss=first.loss, y=first.y, weights=first.weights) for own in ready]
    first = problems[0] if dense else Random(random_state=0)(problems[0])
    if first.monotonic is not None and first.basis_size > MOST_POINTS:
        first = first.with_basis(first.rows_by_content[:MOST_POINTS])
    if first.is_known and len(problems) > 1:
        first = first.replace(fitted=first.solve())
    scaled = [problem for problem in problems if problem.target is not problems[0].target]
    problems = problems[: len(problems) - len(scaled)]
    count = len(problems)
    if is_default:
        count = max(2, int(first.effort * MOST_WORK / (len(first.rows) * float(first.basis_size) ** 2)))
        left = np.min(first.paths.get(LeaveOneOut.__name__, {}).get("scores", ()), initial=1.0)  # by a dense sample
        if first.fitted is not None:
            left = unexplained(*map(arrays.to_numpy, (first.y, first.fitted.loo_residuals, first.weights)))
        count = 1 if left < EXPLAINED else count
    ready, columns, most, others = [first], first.X.shape[1], first.basis_size // 2, problems[1:]
    if count < len(problems):
        others = sorted(others, key=lambda problem: getattr(problem.kernel, "nu", math.inf))[: count - 1]
    for problem in [*others, *(scaled if count > 1 else [])]:
        points = problem.kernel.spanning_points(columns) if columns <= most else None  # at least a point per column
        if points is None or points.shape[0] > most:
            ready.append(problem.replace(support=first.support, points=first.points))
        else:
            ready.append(problem.with_basis(points=arrays.like(points, problem.X)))
    return ready


def run_steps(problem: Problem, steps: Sequence[Any]) -> Problem:
    """Run the steps."""
    for step in steps:
        result = step(problem)
        if not isinstance(result, Problem):
            remedy = "it must return a Problem, such as the given one or problem.replace(...)."
            raise TypeError(f"steps holds {step!r}, which returned {shown(result)}: {remedy}")
        problem = result
    return problem


def retuned(problem: Problem) -> Problem:
    """Return the problem with C chosen again, if it was chosen from results that had lost their accuracy."""
    chosen = problem.asked == (problem.kernel, None) and LeaveOneOut.__name__ in problem.paths
    return tuned(problem.replace(C=None), on_all_rows=False) if chosen else problem


def main_path(problem: Problem) -> Any:
    """Return the record of the last step that has one, other than the `LeaveOneOut` that ends every fit if possible."""
    names = list(problem.paths)
    chosen = [name for name in names if name != LeaveOneOut.__name__] or names
    return problem.paths[chosen[-1]] if chosen else None


def class_plan(model: Any, problem: Problem) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """Return the codings and losses that `LSSVC` compares; None stands for least squares, one class against the rest.

    That is the meaning of "auto" if there is nothing to choose, or if a step or robust weights require squares.
    With very many classes, only that is searched.
    """
    two = problem.y.shape[1] == 1
    squares = model.loss in ("auto", "squared") and (two or model.coding in ("auto", "one-vs-rest"))
    asked = model.loss == "squared" and (two or model.coding == "one-vs-rest")
    ties, chooses = tied_steps(model), any(isinstance(step, LeaveOneOut) for step in model.steps or ())
    grouped = problem.row_groups is not None
    if squares and (asked or problem.is_known or problem.robust is not None or ties or chooses or grouped):
        return None
    given, remedy = f"loss={model.loss!r}, coding={model.coding!r}", "loss='squared', coding='one-vs-rest'"
    if grouped:
        raise ValueError(f"groups are left out for the squared loss only, got {given}: write {remedy}, or no groups.")
    check_loss(model, given, remedy)
    if problem.is_known:  # nothing is searched
        return (model.coding.replace("auto", "one-vs-rest"),), (model.loss.replace("auto", "squared"),)
    if squares and math.comb(problem.y.shape[1], 2) > MOST_PAIRS:
        return ("one-vs-rest",), ("squared",)
    codings = ("one-vs-one", "one-vs-rest") if model.coding == "auto" else (model.coding,)
    losses = tuple(LOSSES) if model.loss == "auto" else (model.loss,)
    return (codings[:1], losses[:1]) if model.effort < QUICK else (codings, losses)


def tied_steps(model: Any) -> list[Any]:
    """Return the steps that are defined for the squared loss only."""
    return [step for step in model.steps or () if getattr(step, "needs_squares", False)]


def check_loss(model: Any, given: str, remedy: str) -> None:
    """Raise ValueError if another loss is combined with robust weights or steps that need the squared one.

    `given` are the arguments that ask for such a loss, and `remedy` those to write instead.
    """
    if model.robust is not None:
        raise ValueError(f"robust weights are defined for the squared loss only, got {given}: set robust=None.")
    for step in tied_steps(model):
        what = f"{type(step).__name__} is defined for the squared loss only, got {given}"
        raise ValueError(f"{what}: write {remedy}, or use another step of lssvm.sparsify.")


def with_class_basis(problem: Problem, coding: str, loss: str) -> Problem:
    """Return the default for ``steps=None`` of `LSSVC`: dense if that is cheap enough, else a basis of random rows."""
    counts = np.bincount(problem.labels[problem.rows]).astype(float)
    by_pairs = coding == "one-vs-one"
    cubes, most = pair_work(counts) if by_pairs else counts.sum() ** 3, problem.effort * DENSE_CLASS_WORK
    if cubes <= most or problem.kernel.is_precomputed:
        return problem
    rows = counts.sum() * (len(counts) - 1 if by_pairs else 1)
    work = problem.effort * CLASS_BASIS_WORK / (1 if loss == "squared" else CLASS_SYSTEMS)
    size = int(np.clip(math.sqrt(work / rows), *sized(CLASS_BASIS, problem.effort, 2)))
    return Given(problem.rows_by_content[:size])(problem)
