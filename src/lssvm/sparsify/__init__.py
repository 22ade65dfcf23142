"""Steps that choose a smaller basis: a Problem in, a Problem out."""

from .bases import Given, Random

__all__ = ["Given", "Random"]
