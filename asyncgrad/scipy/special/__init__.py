"""The functions of `scipy.special`, with Tensors as results.

Importing this package fills the table of rules with those of SciPy's ufuncs: `scipy.special.expit(t)` imports it when
it is first called on a tensor.
"""

from ...numpy.names import attach_names
from . import bessel as bessel
from . import binomials as binomials
from . import elementary as elementary
from . import error_functions as error_functions
from . import gamma_functions as gamma_functions
from . import implicit_parameters as implicit_parameters
from . import incomplete as incomplete
from . import normal as normal
from . import tails as tails
from .bessel import h1vp as h1vp
from .bessel import h2vp as h2vp
from .bessel import ivp as ivp
from .bessel import jvp as jvp
from .bessel import kvp as kvp
from .bessel import yvp as yvp
from .binomials import comb as comb
from .binomials import factorial as factorial
from .binomials import perm as perm
from .gamma_functions import multigammaln as multigammaln
from .gamma_functions import polygamma as polygamma
from .log_sums import log_softmax as log_softmax
from .log_sums import logsumexp as logsumexp
from .log_sums import softmax as softmax

__getattr__, __dir__ = attach_names(__name__)
