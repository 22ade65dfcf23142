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

# ruff: noqa: F403 (every name without an underscore is public)
from .batches import *
from .dual import *
from .newton import *
from .orthogonal import *
from .primal import *
from .solution import *
