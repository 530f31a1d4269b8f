"""The functions of `scipy.special`, with Tensors as results.

Importing this package fills the table of rules with those of SciPy's ufuncs: `scipy.special.expit(t)` imports it when
it is first called on a tensor.
"""

from ...numpy.names import attach_names
from ..error_names import explain_ufunc, name_errors
from . import airy_functions as airy_functions
from . import bessel as bessel
from . import binomials as binomials
from . import carlson as carlson
from . import degrees as degrees
from . import elementary as elementary
from . import elliptic as elliptic
from . import error_functions as error_functions
from . import gamma_functions as gamma_functions
from . import hypergeometric as hypergeometric
from . import implicit_parameters as implicit_parameters
from . import incomplete as incomplete
from . import kelvin_functions as kelvin_functions
from . import legendre_functions as legendre_functions
from . import noncentral as noncentral
from . import noncentral_t as noncentral_t
from . import normal as normal
from . import orthogonal_polynomials as orthogonal_polynomials
from . import spherical_bessel as spherical_bessel
from . import struve_functions as struve_functions
from . import tails as tails
from . import wave_functions as wave_functions
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
from .legendre_functions import assoc_legendre_p as assoc_legendre_p
from .legendre_functions import assoc_legendre_p_all as assoc_legendre_p_all
from .legendre_functions import legendre_p as legendre_p
from .legendre_functions import legendre_p_all as legendre_p_all
from .legendre_functions import sph_harm_y as sph_harm_y
from .legendre_functions import sph_harm_y_all as sph_harm_y_all
from .legendre_functions import sph_legendre_p as sph_legendre_p
from .legendre_functions import sph_legendre_p_all as sph_legendre_p_all
from .log_sums import log_softmax as log_softmax
from .log_sums import logsumexp as logsumexp
from .log_sums import softmax as softmax
from .orthogonal_polynomials import diric as diric
from .quadrature_points import cg_roots as cg_roots
from .quadrature_points import j_roots as j_roots
from .quadrature_points import js_roots as js_roots
from .quadrature_points import la_roots as la_roots
from .quadrature_points import roots_gegenbauer as roots_gegenbauer
from .quadrature_points import roots_genlaguerre as roots_genlaguerre
from .quadrature_points import roots_jacobi as roots_jacobi
from .quadrature_points import roots_sh_jacobi as roots_sh_jacobi
from .sequences import lmbda as lmbda
from .sequences import lqmn as lqmn
from .sequences import lqn as lqn
from .sequences import pbdv_seq as pbdv_seq
from .sequences import pbvv_seq as pbvv_seq
from .sequences import riccati_jn as riccati_jn
from .sequences import riccati_yn as riccati_yn
from .spherical_bessel import spherical_in as spherical_in
from .spherical_bessel import spherical_jn as spherical_jn
from .spherical_bessel import spherical_kn as spherical_kn
from .spherical_bessel import spherical_yn as spherical_yn
from .zeta_functions import lambertw as lambertw
from .zeta_functions import zeta as zeta

name_errors(__name__)
__getattr__, __dir__ = attach_names(__name__, explain_ufunc)
