"""Exact solvers of convex programmes: the path of an L1 penalty, and the sum of maximal variations.

This package does not use Problem: it takes matrices and returns coefficients.
"""

import numpy as np

from .blocks import Blocks, component_blocks
from .separate import SeparateStructure
from .shared import SharedStructure
from .structure import Piece, Structure
from .substrate import Homotopy, L1Path, l1_path, l1_violation, least_squares

__all__ = [
    "Blocks",
    "Homotopy",
    "L1Path",
    "Piece",
    "Structure",
    "component_blocks",
    "l1_path",
    "l1_violation",
    "least_squares",
    "structure_programme",
]


def structure_programme(blocks: Blocks, y: np.ndarray, weights: np.ndarray) -> Structure:
    """Structure detection for one output, by the class that suits the components."""
    return (SeparateStructure if blocks.basis is None else SharedStructure)(blocks, y, weights)
