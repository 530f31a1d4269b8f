"""Random numbers: NumPy's generators and functions, with Tensors as results and tensors as parameters.

The numbers are those that NumPy draws from the same seed. A parameter that is a tensor may require grad; the draw has
then a derivative with respect to it. Draws of whole numbers have none, and refuse such a parameter. The functions of
the module draw from NumPy's global stream, as those of `numpy.random` do.

Example:
    >>> import asyncgrad as ag
    >>> from asyncgrad.numpy import random
    >>> rate = ag.tensor(3.0, requires_grad=True)
    >>> ag.sync.backward(random.default_rng(0).gamma(rate, size=1000).mean())
    >>> rate.grad.item()
    1.0
"""

from numpy.random import MT19937 as MT19937
from numpy.random import PCG64 as PCG64
from numpy.random import PCG64DXSM as PCG64DXSM
from numpy.random import SFC64 as SFC64
from numpy.random import BitGenerator as BitGenerator
from numpy.random import Philox as Philox
from numpy.random import SeedSequence as SeedSequence

from .generator import Generator as Generator
from .generator import default_rng as default_rng
from .legacy import RandomState as RandomState
from .legacy import beta as beta
from .legacy import binomial as binomial
from .legacy import bytes as bytes
from .legacy import chisquare as chisquare
from .legacy import choice as choice
from .legacy import dirichlet as dirichlet
from .legacy import exponential as exponential
from .legacy import f as f
from .legacy import gamma as gamma
from .legacy import geometric as geometric
from .legacy import get_state as get_state
from .legacy import gumbel as gumbel
from .legacy import hypergeometric as hypergeometric
from .legacy import laplace as laplace
from .legacy import logistic as logistic
from .legacy import lognormal as lognormal
from .legacy import logseries as logseries
from .legacy import multinomial as multinomial
from .legacy import multivariate_normal as multivariate_normal
from .legacy import negative_binomial as negative_binomial
from .legacy import noncentral_chisquare as noncentral_chisquare
from .legacy import noncentral_f as noncentral_f
from .legacy import normal as normal
from .legacy import pareto as pareto
from .legacy import permutation as permutation
from .legacy import poisson as poisson
from .legacy import power as power
from .legacy import rand as rand
from .legacy import randint as randint
from .legacy import randn as randn
from .legacy import random as random
from .legacy import random_integers as random_integers
from .legacy import random_sample as random_sample
from .legacy import ranf as ranf
from .legacy import rayleigh as rayleigh
from .legacy import sample as sample
from .legacy import seed as seed
from .legacy import set_state as set_state
from .legacy import shuffle as shuffle
from .legacy import standard_cauchy as standard_cauchy
from .legacy import standard_exponential as standard_exponential
from .legacy import standard_gamma as standard_gamma
from .legacy import standard_normal as standard_normal
from .legacy import standard_t as standard_t
from .legacy import triangular as triangular
from .legacy import uniform as uniform
from .legacy import vonmises as vonmises
from .legacy import wald as wald
from .legacy import weibull as weibull
from .legacy import zipf as zipf

__all__ = [
    "BitGenerator",
    "Generator",
    "MT19937",
    "PCG64",
    "PCG64DXSM",
    "Philox",
    "RandomState",
    "SFC64",
    "SeedSequence",
    "beta",
    "binomial",
    "bytes",
    "chisquare",
    "choice",
    "default_rng",
    "dirichlet",
    "exponential",
    "f",
    "gamma",
    "geometric",
    "get_state",
    "gumbel",
    "hypergeometric",
    "laplace",
    "logistic",
    "lognormal",
    "logseries",
    "multinomial",
    "multivariate_normal",
    "negative_binomial",
    "noncentral_chisquare",
    "noncentral_f",
    "normal",
    "pareto",
    "permutation",
    "poisson",
    "power",
    "rand",
    "randint",
    "randn",
    "random",
    "random_integers",
    "random_sample",
    "ranf",
    "rayleigh",
    "sample",
    "seed",
    "set_state",
    "shuffle",
    "standard_cauchy",
    "standard_exponential",
    "standard_gamma",
    "standard_normal",
    "standard_t",
    "triangular",
    "uniform",
    "vonmises",
    "wald",
    "weibull",
    "zipf",
]


def __dir__() -> list[str]:
    return __all__
