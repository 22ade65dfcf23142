"""Steps that choose a smaller basis: each takes a Problem and returns a Problem."""

from .bases import Given, KMeans, Learned, Random, RandomlyPivoted
from .components import Components
from .greedy import FeatureVectors, Forward
from .kkt_columns import Adaline, AdaPinv, Echelon, InversePrune
from .pruning import Prune
from .substrate import Substrate

__all__ = [
    "AdaPinv",
    "Adaline",
    "Components",
    "Echelon",
    "FeatureVectors",
    "Forward",
    "Given",
    "InversePrune",
    "KMeans",
    "Learned",
    "Prune",
    "Random",
    "RandomlyPivoted",
    "Substrate",
]
