"""Factorisations of the linear systems, from rows, weights, targets and ridges; this package knows no kernels.

Both systems minimise  lam |g|^2 + sum_i v_i (t_i - f_i - b)^2  with b free, lam = 1/C; w = sqrt(v), S = diag(w).

`dual`    The basis consists of the rows:  (S K S + lam I) a + w b = S t,  w'a = 0,  with coefficients S a. One
          Householder reflection H with H w = -|w| e removes the bias: a = P S t, P = N (N'(SKS + lam I)N)^-1 N', where
          N are the other columns of H. P = M diag(g) M' with M = N L^-T, g = 1 from a Cholesky factor (one ridge), or
          with the eigenvectors M = U and g = 1/(d + lam) (every ridge). The leave-one-out residual is a_i/(w_i P_ii),
          the leverage 1 - lam P_ii.
`primal`  A smaller basis: the whitened columns Phi (Phi Phi' = K_XS K_SS^-1 K_SX), centred and scaled by w, are A. The
          stacked matrix [A; sqrt(lam) I] = [Q; B] R is orthogonalised: the fit is Q Q' t, the leverage
          |q_i|^2 + v_i/sum v. With the singular values of R the same Q serves every larger ridge.

Leave-one-out residuals are t_i - f_(i)(x_i) in the units of the targets: they contain no square roots of weights.
Ridge, weights and basis are held fixed.
"""

from __future__ import annotations

from .batches import BatchedPairs as BatchedPairs
from .dual import dual_inverse as dual_inverse
from .dual import factorise_dual as factorise_dual
from .dual import factorise_products as factorise_products
from .newton import Binary as Binary
from .newton import solve_two_classes as solve_two_classes
from .orthogonal import ORTHOGONAL as ORTHOGONAL
from .orthogonal import PLAIN as PLAIN
from .orthogonal import QUICK as QUICK
from .orthogonal import SURE as SURE
from .orthogonal import Moments as Moments
from .orthogonal import NormalEquations as NormalEquations
from .orthogonal import cholesky_pass as cholesky_pass
from .orthogonal import expected_loss as expected_loss
from .orthogonal import moments_of as moments_of
from .orthogonal import orthogonalise as orthogonalise
from .orthogonal import refined as refined
from .orthogonal import solve_in_passes as solve_in_passes
from .primal import Primal as Primal
from .primal import factorise_primal as factorise_primal
from .primal import factorise_reduced as factorise_reduced
from .solution import System as System
from .solution import close_to_one as close_to_one
from .solution import weighted_gram as weighted_gram
