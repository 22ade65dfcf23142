"""Contract of the public API: scikit-learn's common checks, names, layers."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from lssvm import LSSVC, LSSVR, kernels, robust, sparsify

GIVEN = {"kernel": kernels.RBF(sigma=1.0), "C": 1.0}


def explained(estimator):
    """Checks that cannot hold, each with its reason."""
    failures = {}
    if estimator.C is None or estimator.kernel is None or estimator.kernel.is_free or estimator.steps:
        reason = "leave-one-out drops a row once, not its copies; a drawn basis depends on the number of rows"
        failures["check_sample_weight_equivalence_on_dense_data"] = reason
        failures["check_sample_weight_equivalence_on_sparse_data"] = reason
    if isinstance(estimator, LSSVC) and isinstance(estimator.kernel, kernels.Precomputed):
        failures["check_decision_proba_consistency"] = (
            "the check hands a precomputed kernel a matrix that is not square"
        )
    return failures


@parametrize_with_checks(
    [
        LSSVR(),
        LSSVC(),
        LSSVR(**GIVEN),
        LSSVC(**GIVEN),
        LSSVR(**GIVEN, robust="hampel"),
        LSSVR(**GIVEN, robust=robust.Huber(scale="mad", iterations=3)),
        LSSVC(**GIVEN, robust="logistic"),
        LSSVC(**GIVEN, class_weight="balanced"),
        LSSVR(kernels.Matern(sigma=2.0, nu=0.5), C=10.0),
        LSSVR(kernels.Linear(), C=1.0),
        LSSVR(kernels.Polynomial(2), C=1.0),
        LSSVR(kernels.Additive(kernels.RBF(sigma=1.0)), C=1.0),
        LSSVR(kernels.RBF(sigma=1.0) + kernels.Linear(), C=1.0),
        LSSVC(kernels.RBF(sigma=2.0) * kernels.RBF(sigma=3.0), C=1.0),
        LSSVR(kernels.Precomputed(), C=1.0),
        LSSVC(kernels.Precomputed(), C=1.0),
        LSSVR(steps=[sparsify.Random(10, random_state=0)]),
        LSSVC(**GIVEN, steps=[sparsify.Random(10, random_state=0)]),
    ],
    expected_failed_checks=explained,
)
def test_scikit_learn_common_checks(estimator, check):
    check(estimator)
