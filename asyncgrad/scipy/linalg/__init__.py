"""SciPy's linear algebra by SciPy's names, with derivatives.

Example:
    >>> from asyncgrad.scipy import linalg
    >>> linalg.solve_triangular([[2.0, 0.0], [1.0, 4.0]], [2.0, 5.0], lower=True).tolist()
    [1.0, 1.0]
"""

from scipy.linalg import LinAlgError as LinAlgError

from .sylvester import solve_continuous_lyapunov as solve_continuous_lyapunov
from .sylvester import solve_lyapunov as solve_lyapunov
from .sylvester import solve_sylvester as solve_sylvester
from .triangular import solve_triangular as solve_triangular

__all__ = ["LinAlgError", "solve_continuous_lyapunov", "solve_lyapunov", "solve_sylvester", "solve_triangular"]
