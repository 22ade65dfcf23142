"""Steps that choose a smaller basis: each takes a Problem and returns a Problem."""

from .bases import FeatureVectors, Forward, Given, KMeans, Learned, Random, RandomlyPivoted
from .columns import Adaline, AdaPinv, Echelon, InversePrune
from .components import Components
from .pruning import Prune
from .substrates import Substrate

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
