"""Written by tools/special_stubs.py for SciPy 1.17: do not change it by hand."""

from typing import Any, Protocol

from ...numpy import TensorLike
from ...core.tensor import Tensor

class _Unary(Protocol):
    def __call__(self, x: TensorLike, /, **kwargs: Any) -> Tensor: ...

class _Binary(Protocol):
    def __call__(self, x: TensorLike, y: TensorLike, /, **kwargs: Any) -> Tensor: ...

class _Ternary(Protocol):
    def __call__(self, x: TensorLike, y: TensorLike, z: TensorLike, /, **kwargs: Any) -> Tensor: ...

class _Quaternary(Protocol):
    def __call__(self, w: TensorLike, x: TensorLike, y: TensorLike, z: TensorLike, /, **kwargs: Any) -> Tensor: ...

class _Several(Protocol):
    def __call__(self, *args: TensorLike, **kwargs: Any) -> tuple[Tensor, ...]: ...

SpecialFunctionError: Any
SpecialFunctionWarning: Any
agm: _Binary
ai_zeros: Any
airy: _Several
airye: _Several
assoc_laguerre: Any
from .legendre_functions import assoc_legendre_p as assoc_legendre_p
from .legendre_functions import assoc_legendre_p_all as assoc_legendre_p_all
bdtr: _Ternary
bdtrc: _Ternary
bdtri: _Ternary
bdtrik: _Ternary
bdtrin: _Ternary
bei: _Unary
bei_zeros: Any
beip: _Unary
beip_zeros: Any
ber: _Unary
ber_zeros: Any
bernoulli: Any
berp: _Unary
berp_zeros: Any
besselpoly: _Ternary
beta: _Binary
betainc: _Ternary
betaincc: _Ternary
betainccinv: _Ternary
betaincinv: _Ternary
betaln: _Binary
bi_zeros: Any
binom: _Binary
boxcox: _Binary
boxcox1p: _Binary
btdtria: _Ternary
btdtrib: _Ternary
c_roots: Any
cbrt: _Unary
from .quadrature_points import cg_roots as cg_roots
chdtr: _Binary
chdtrc: _Binary
chdtri: _Binary
chdtriv: _Binary
chebyc: Any
chebys: Any
chebyt: Any
chebyu: Any
chndtr: _Ternary
chndtridf: _Ternary
chndtrinc: _Ternary
chndtrix: _Ternary
from .binomials import comb as comb
cosdg: _Unary
cosm1: _Unary
cotdg: _Unary
dawsn: _Unary
digamma: _Unary
from .orthogonal_polynomials import diric as diric
ellip_harm: Any
ellip_harm_2: Any
ellip_normal: Any
ellipe: _Unary
ellipeinc: _Binary
ellipj: _Several
ellipk: _Unary
ellipkinc: _Binary
ellipkm1: _Unary
elliprc: _Binary
elliprd: _Ternary
elliprf: _Ternary
elliprg: _Ternary
elliprj: _Quaternary
entr: _Unary
erf: _Unary
erf_zeros: Any
erfc: _Unary
erfcinv: _Unary
erfcx: _Unary
erfi: _Unary
erfinv: _Unary
errstate: Any
euler: Any
eval_chebyc: _Binary
eval_chebys: _Binary
eval_chebyt: _Binary
eval_chebyu: _Binary
eval_gegenbauer: _Ternary
eval_genlaguerre: _Ternary
eval_hermite: _Binary
eval_hermitenorm: _Binary
eval_jacobi: _Quaternary
eval_laguerre: _Binary
eval_legendre: _Binary
eval_sh_chebyt: _Binary
eval_sh_chebyu: _Binary
eval_sh_jacobi: _Quaternary
eval_sh_legendre: _Binary
exp1: _Unary
exp10: _Unary
exp2: _Unary
expi: _Unary
expit: _Unary
expm1: _Unary
expn: _Binary
exprel: _Unary
from .binomials import factorial as factorial
factorial2: Any
factorialk: Any
fdtr: _Ternary
fdtrc: _Ternary
fdtri: _Ternary
fdtridfd: _Ternary
fresnel: _Several
fresnel_zeros: Any
fresnelc_zeros: Any
fresnels_zeros: Any
gamma: _Unary
gammainc: _Binary
gammaincc: _Binary
gammainccinv: _Binary
gammaincinv: _Binary
gammaln: _Unary
gammasgn: _Unary
gdtr: _Ternary
gdtrc: _Ternary
gdtria: _Ternary
gdtrib: _Ternary
gdtrix: _Ternary
gegenbauer: Any
genlaguerre: Any
geterr: Any
from .bessel import h1vp as h1vp
from .bessel import h2vp as h2vp
h_roots: Any
hankel1: _Binary
hankel1e: _Binary
hankel2: _Binary
hankel2e: _Binary
he_roots: Any
hermite: Any
hermitenorm: Any
huber: _Binary
hyp0f1: _Binary
hyp1f1: _Ternary
hyp2f1: _Quaternary
hyperu: _Ternary
i0: _Unary
i0e: _Unary
i1: _Unary
i1e: _Unary
inv_boxcox: _Binary
inv_boxcox1p: _Binary
it2i0k0: _Several
it2j0y0: _Several
it2struve0: _Unary
itairy: _Several
iti0k0: _Several
itj0y0: _Several
itmodstruve0: _Unary
itstruve0: _Unary
iv: _Binary
ive: _Binary
from .bessel import ivp as ivp
j0: _Unary
j1: _Unary
from .quadrature_points import j_roots as j_roots
jacobi: Any
jn: _Binary
jn_zeros: Any
jnjnp_zeros: Any
jnp_zeros: Any
jnyn_zeros: Any
from .quadrature_points import js_roots as js_roots
jv: _Binary
jve: _Binary
from .bessel import jvp as jvp
k0: _Unary
k0e: _Unary
k1: _Unary
k1e: _Unary
kei: _Unary
kei_zeros: Any
keip: _Unary
keip_zeros: Any
kelvin: _Several
kelvin_zeros: Any
ker: _Unary
ker_zeros: Any
kerp: _Unary
kerp_zeros: Any
kl_div: _Binary
kn: _Binary
kolmogi: _Unary
kolmogorov: _Unary
kv: _Binary
kve: _Binary
from .bessel import kvp as kvp
l_roots: Any
from .quadrature_points import la_roots as la_roots
laguerre: Any
from .zeta_functions import lambertw as lambertw
legendre: Any
from .legendre_functions import legendre_p as legendre_p
from .legendre_functions import legendre_p_all as legendre_p_all
from .sequences import lmbda as lmbda
log1p: _Unary
log_expit: _Unary
log_ndtr: _Unary
from .log_sums import log_softmax as log_softmax
log_wright_bessel: _Ternary
loggamma: _Unary
logit: _Unary
from .log_sums import logsumexp as logsumexp
lpmv: _Ternary
from .sequences import lqmn as lqmn
from .sequences import lqn as lqn
mathieu_a: _Binary
mathieu_b: _Binary
mathieu_cem: _Several
mathieu_even_coef: Any
mathieu_modcem1: _Several
mathieu_modcem2: _Several
mathieu_modsem1: _Several
mathieu_modsem2: _Several
mathieu_odd_coef: Any
mathieu_sem: _Several
modfresnelm: _Several
modfresnelp: _Several
modstruve: _Binary
from .gamma_functions import multigammaln as multigammaln
nbdtr: _Ternary
nbdtrc: _Ternary
nbdtri: _Ternary
nbdtrik: _Ternary
nbdtrin: _Ternary
ncfdtr: _Quaternary
ncfdtri: _Quaternary
ncfdtridfd: _Quaternary
ncfdtridfn: _Quaternary
ncfdtrinc: _Quaternary
nctdtr: _Ternary
nctdtridf: _Ternary
nctdtrinc: _Ternary
nctdtrit: _Ternary
ndtr: _Unary
ndtri: _Unary
ndtri_exp: _Unary
nrdtrimn: _Ternary
nrdtrisd: _Ternary
obl_ang1: _Several
obl_ang1_cv: _Several
obl_cv: _Ternary
obl_cv_seq: Any
obl_rad1: _Several
obl_rad1_cv: _Several
obl_rad2: _Several
obl_rad2_cv: _Several
owens_t: _Binary
p_roots: Any
pbdn_seq: Any
pbdv: _Several
from .sequences import pbdv_seq as pbdv_seq
pbvv: _Several
from .sequences import pbvv_seq as pbvv_seq
pbwa: _Several
pdtr: _Binary
pdtrc: _Binary
pdtri: _Binary
pdtrik: _Binary
from .binomials import perm as perm
poch: _Binary
from .gamma_functions import polygamma as polygamma
powm1: _Binary
pro_ang1: _Several
pro_ang1_cv: _Several
pro_cv: _Ternary
pro_cv_seq: Any
pro_rad1: _Several
pro_rad1_cv: _Several
pro_rad2: _Several
pro_rad2_cv: _Several
ps_roots: Any
pseudo_huber: _Binary
psi: _Unary
radian: _Ternary
rel_entr: _Binary
rgamma: _Unary
from .sequences import riccati_jn as riccati_jn
from .sequences import riccati_yn as riccati_yn
roots_chebyc: Any
roots_chebys: Any
roots_chebyt: Any
roots_chebyu: Any
from .quadrature_points import roots_gegenbauer as roots_gegenbauer
from .quadrature_points import roots_genlaguerre as roots_genlaguerre
roots_hermite: Any
roots_hermitenorm: Any
from .quadrature_points import roots_jacobi as roots_jacobi
roots_laguerre: Any
roots_legendre: Any
roots_sh_chebyt: Any
roots_sh_chebyu: Any
from .quadrature_points import roots_sh_jacobi as roots_sh_jacobi
roots_sh_legendre: Any
round: _Unary
s_roots: Any
seterr: Any
sh_chebyt: Any
sh_chebyu: Any
sh_jacobi: Any
sh_legendre: Any
shichi: _Several
sici: _Several
sinc: Any
sindg: _Unary
smirnov: _Binary
smirnovi: _Binary
from .log_sums import softmax as softmax
softplus: Any
spence: _Unary
from .legendre_functions import sph_harm_y as sph_harm_y
from .legendre_functions import sph_harm_y_all as sph_harm_y_all
from .legendre_functions import sph_legendre_p as sph_legendre_p
from .legendre_functions import sph_legendre_p_all as sph_legendre_p_all
from .spherical_bessel import spherical_in as spherical_in
from .spherical_bessel import spherical_jn as spherical_jn
from .spherical_bessel import spherical_kn as spherical_kn
from .spherical_bessel import spherical_yn as spherical_yn
stdtr: _Binary
stdtridf: _Binary
stdtrit: _Binary
stirling2: Any
struve: _Binary
t_roots: Any
tandg: _Unary
test: Any
tklmbda: _Binary
ts_roots: Any
u_roots: Any
us_roots: Any
voigt_profile: _Ternary
wofz: _Unary
wright_bessel: _Ternary
wrightomega: _Unary
xlog1py: _Binary
xlogy: _Binary
y0: _Unary
y0_zeros: Any
y1: _Unary
y1_zeros: Any
y1p_zeros: Any
yn: _Binary
yn_zeros: Any
ynp_zeros: Any
yv: _Binary
yve: _Binary
from .bessel import yvp as yvp
from .zeta_functions import zeta as zeta
zetac: _Unary
