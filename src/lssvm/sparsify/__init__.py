"""Steps that choose a smaller basis: a Problem in, a Problem out."""

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
