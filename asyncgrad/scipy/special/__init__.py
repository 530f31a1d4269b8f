"""The functions of `scipy.special`, with Tensors as results.

Importing this package fills the table of rules with those of SciPy's ufuncs: `scipy.special.expit(t)` imports it when
it is first called on a tensor.
"""

from ...numpy.names import attach_names
from . import airy_functions as airy_functions
from . import bessel as bessel
from . import binomials as binomials
from . import elementary as elementary
from . import error_functions as error_functions
from . import gamma_functions as gamma_functions
from . import implicit_parameters as implicit_parameters
from . import incomplete as incomplete
from . import kelvin_functions as kelvin_functions
from . import normal as normal
from . import parabolic_cylinder as parabolic_cylinder
from . import spherical_bessel as spherical_bessel
from . import struve_functions as struve_functions
from . import tails as tails
from . import zeta_functions as zeta_functions
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
from .spherical_bessel import spherical_in as spherical_in
from .spherical_bessel import spherical_jn as spherical_jn
from .spherical_bessel import spherical_kn as spherical_kn
from .spherical_bessel import spherical_yn as spherical_yn
from .zeta_functions import lambertw as lambertw
from .zeta_functions import zeta as zeta

__getattr__, __dir__ = attach_names(__name__)
