"""Steps that choose a basis before fitting."""

from .common import kernel_rows as kernel_rows
from .greedy import FeatureVectors, Forward
from .learned import Learned
from .random import Given, KMeans, Random, RandomlyPivoted

__all__ = ["FeatureVectors", "Forward", "Given", "KMeans", "Learned", "Random", "RandomlyPivoted"]
