"""SciPy's linear algebra by SciPy's names, with Tensors as results.

Example:
    >>> from asyncgrad.scipy import linalg
    >>> linalg.solve_triangular([[2.0, 0.0], [1.0, 4.0]], [2.0, 5.0], lower=True).tolist()
    [1.0, 1.0]
"""

from typing import TYPE_CHECKING

from scipy.linalg import LinAlgError as LinAlgError

from .bands import cho_solve_banded as cho_solve_banded
from .bands import cholesky_banded as cholesky_banded
from .bands import eig_banded as eig_banded
from .bands import eigvals_banded as eigvals_banded
from .factors import diagsvd as diagsvd
from .factors import ldl as ldl
from .factors import null_space as null_space
from .factors import orth as orth
from .factors import orthogonal_procrustes as orthogonal_procrustes
from .factors import polar as polar
from .factors import qr_multiply as qr_multiply
from .factors import rq as rq
from .factors import subspace_angles as subspace_angles
from .functions import coshm as coshm
from .functions import cosm as cosm
from .functions import expm as expm
from .functions import expm_frechet as expm_frechet
from .functions import fractional_matrix_power as fractional_matrix_power
from .functions import logm as logm
from .functions import signm as signm
from .functions import sinhm as sinhm
from .functions import sinm as sinm
from .functions import sqrtm as sqrtm
from .functions import tanhm as tanhm
from .functions import tanm as tanm
from .matrices import block_diag as block_diag
from .matrices import circulant as circulant
from .matrices import companion as companion
from .matrices import convolution_matrix as convolution_matrix
from .matrices import fiedler as fiedler
from .matrices import fiedler_companion as fiedler_companion
from .matrices import hankel as hankel
from .matrices import khatri_rao as khatri_rao
from .matrices import leslie as leslie
from .matrices import matmul_toeplitz as matmul_toeplitz
from .matrices import toeplitz as toeplitz
from .spectral import eig as eig
from .spectral import eigh as eigh
from .spectral import eigh_tridiagonal as eigh_tridiagonal
from .spectral import eigvals as eigvals
from .spectral import eigvalsh as eigvalsh
from .spectral import eigvalsh_tridiagonal as eigvalsh_tridiagonal
from .spectral import qr as qr
from .spectral import svd as svd
from .spectral import svdvals as svdvals
from .sylvester import solve_continuous_are as solve_continuous_are
from .sylvester import solve_continuous_lyapunov as solve_continuous_lyapunov
from .sylvester import solve_discrete_are as solve_discrete_are
from .sylvester import solve_discrete_lyapunov as solve_discrete_lyapunov
from .sylvester import solve_lyapunov as solve_lyapunov
from .sylvester import solve_sylvester as solve_sylvester
from .systems import cho_factor as cho_factor
from .systems import cho_solve as cho_solve
from .systems import cholesky as cholesky
from .systems import det as det
from .systems import inv as inv
from .systems import lstsq as lstsq
from .systems import lu as lu
from .systems import lu_factor as lu_factor
from .systems import lu_solve as lu_solve
from .systems import norm as norm
from .systems import pinv as pinv
from .systems import pinvh as pinvh
from .systems import solve as solve
from .systems import solve_banded as solve_banded
from .systems import solve_circulant as solve_circulant
from .systems import solve_toeplitz as solve_toeplitz
from .systems import solveh_banded as solveh_banded
from .triangular import solve_triangular as solve_triangular

__all__ = [
    "LinAlgError",
    "block_diag",
    "cho_factor",
    "cho_solve",
    "cho_solve_banded",
    "cholesky",
    "cholesky_banded",
    "circulant",
    "companion",
    "convolution_matrix",
    "coshm",
    "cosm",
    "det",
    "diagsvd",
    "eig",
    "eig_banded",
    "eigh",
    "eigh_tridiagonal",
    "eigvals",
    "eigvals_banded",
    "eigvalsh",
    "eigvalsh_tridiagonal",
    "expm",
    "expm_frechet",
    "fiedler",
    "fiedler_companion",
    "fractional_matrix_power",
    "hankel",
    "inv",
    "khatri_rao",
    "ldl",
    "leslie",
    "logm",
    "lstsq",
    "lu",
    "lu_factor",
    "lu_solve",
    "matmul_toeplitz",
    "norm",
    "null_space",
    "orth",
    "orthogonal_procrustes",
    "pinv",
    "pinvh",
    "polar",
    "qr",
    "qr_multiply",
    "rq",
    "signm",
    "sinhm",
    "sinm",
    "solve",
    "solve_banded",
    "solve_circulant",
    "solve_continuous_are",
    "solve_continuous_lyapunov",
    "solve_discrete_are",
    "solve_discrete_lyapunov",
    "solve_lyapunov",
    "solve_sylvester",
    "solve_toeplitz",
    "solve_triangular",
    "solveh_banded",
    "sqrtm",
    "subspace_angles",
    "svd",
    "svdvals",
    "tanhm",
    "tanm",
    "toeplitz",
]

if not TYPE_CHECKING:
    # Hidden from type checkers: with a module `__getattr__` they would accept any name.
    from ..error_names import name_errors
    from ..unsupported import refuse

    __getattr__ = refuse("linalg")
    name_errors(__name__)


def __dir__() -> list[str]:
    return __all__
