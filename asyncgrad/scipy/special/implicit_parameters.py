"""Parameters of distributions for which their distribution functions have a given value.

Their derivatives follow from those of the distribution function F: where F(v, w) = p, the derivative of v by p is
1 / F_v, and by w it is -F_w / F_v.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.recording.primitive import Primitive
from ..ufuncs import special
from .incomplete import (
    beta_by_first,
    beta_by_second,
    beta_density,
    f_density,
    f_quantile_by_denominator,
    f_quantile_by_numerator,
    gamma_by_shape,
    gamma_density,
    t_density,
    t_quantile_by_df,
)
from .rules import differentiable
from .searches import searched

__all__ = [
    "bdtrik",
    "bdtrin",
    "btdtria",
    "btdtrib",
    "chdtriv",
    "fdtridfd",
    "gdtrib",
    "nbdtrik",
    "nbdtrin",
    "nrdtrimn",
    "nrdtrisd",
    "pdtrik",
    "stdtridf",
]

# betainc(out, b, x) is p.
btdtria: Primitive = searched(
    special.btdtria,
    "p b x",
    p=lambda g, b, x, out: g / beta_by_first(out, b, x),
    b=lambda g, b, x, out: -g * (beta_by_second(out, b, x) / beta_by_first(out, b, x)),
    x=lambda g, b, x, out: -g * (beta_density(out, b, x) / beta_by_first(out, b, x)),
)
# betainc(a, out, x) is p.
btdtrib: Primitive = searched(
    special.btdtrib,
    "a p x",
    a=lambda g, a, x, out: -g * (beta_by_first(a, out, x) / beta_by_second(a, out, x)),
    p=lambda g, a, x, out: g / beta_by_second(a, out, x),
    x=lambda g, a, x, out: -g * (beta_density(a, out, x) / beta_by_second(a, out, x)),
)
# gammainc(out, a * x) is p.
gdtrib: Primitive = searched(
    special.gdtrib,
    "a p x",
    a=lambda g, a, x, out: -g * (x * gamma_density(out, a * x) / gamma_by_shape(out, a * x)),
    p=lambda g, a, x, out: g / gamma_by_shape(out, a * x),
    x=lambda g, a, x, out: -g * (a * gamma_density(out, a * x) / gamma_by_shape(out, a * x)),
)
# gammainc(out / 2, x / 2) is p.
chdtriv: Primitive = searched(
    special.chdtriv,
    "p x",
    p=lambda g, x, out: g * 2 / gamma_by_shape(out / 2, x / 2),
    x=lambda g, x, out: -g * (gamma_density(out / 2, x / 2) / gamma_by_shape(out / 2, x / 2)),
)
# gammaincc(out + 1, m) is p.
pdtrik: Primitive = searched(
    special.pdtrik,
    "p m",
    p=lambda g, m, out: -g / gamma_by_shape(out + 1, m),
    m=lambda g, m, out: -g * (gamma_density(out + 1, m) / gamma_by_shape(out + 1, m)),
)
stdtridf: Primitive = searched(
    special.stdtridf,
    "p t",
    p=lambda g, t, out: -g / (t_density(out, t) * t_quantile_by_df(out, t)),
    t=lambda g, t, out: g / t_quantile_by_df(out, t),
)
fdtridfd: Primitive = searched(
    special.fdtridfd,
    "dfn p x",
    dfn=lambda g, dfn, x, out: -g * (f_quantile_by_numerator(dfn, out, x) / f_quantile_by_denominator(dfn, out, x)),
    p=lambda g, dfn, x, out: -g / (f_density(dfn, out, x) * f_quantile_by_denominator(dfn, out, x)),
    x=lambda g, dfn, x, out: g / f_quantile_by_denominator(dfn, out, x),
)


# betainc(n - k, k + 1, 1 - p) is y, for real k and n.


def _binomial_by_count(k: Any, n: Any, p: Any) -> Any:
    return beta_by_second(n - k, k + 1, 1 - p) - beta_by_first(n - k, k + 1, 1 - p)


def _binomial_by_trials(k: Any, n: Any, p: Any) -> Any:
    return beta_by_first(n - k, k + 1, 1 - p)


def _binomial_by_share(k: Any, n: Any, p: Any) -> Any:
    return -beta_density(n - k, k + 1, 1 - p)


bdtrik: Primitive = searched(
    special.bdtrik,
    "y n p",
    y=lambda g, n, p, out: g / _binomial_by_count(out, n, p),
    n=lambda g, n, p, out: -g * (_binomial_by_trials(out, n, p) / _binomial_by_count(out, n, p)),
    p=lambda g, n, p, out: -g * (_binomial_by_share(out, n, p) / _binomial_by_count(out, n, p)),
)
bdtrin: Primitive = searched(
    special.bdtrin,
    "k y p",
    k=lambda g, k, p, out: -g * (_binomial_by_count(k, out, p) / _binomial_by_trials(k, out, p)),
    y=lambda g, k, p, out: g / _binomial_by_trials(k, out, p),
    p=lambda g, k, p, out: -g * (_binomial_by_share(k, out, p) / _binomial_by_trials(k, out, p)),
)
# betainc(n, k + 1, p) is y.
nbdtrik: Primitive = searched(
    special.nbdtrik,
    "y n p",
    y=lambda g, n, p, out: g / beta_by_second(n, out + 1, p),
    n=lambda g, n, p, out: -g * (beta_by_first(n, out + 1, p) / beta_by_second(n, out + 1, p)),
    p=lambda g, n, p, out: -g * (beta_density(n, out + 1, p) / beta_by_second(n, out + 1, p)),
)
nbdtrin: Primitive = searched(
    special.nbdtrin,
    "k y p",
    k=lambda g, k, p, out: -g * (beta_by_second(out, k + 1, p) / beta_by_first(out, k + 1, p)),
    y=lambda g, k, p, out: g / beta_by_first(out, k + 1, p),
    p=lambda g, k, p, out: -g * (beta_density(out, k + 1, p) / beta_by_first(out, k + 1, p)),
)


def _normal_quantile_slope(p: Any) -> Any:
    return np.sqrt(2 * np.pi) * np.exp(np.square(special.ndtri(p)) / 2)


# The mean and the standard deviation of a normal distribution: x is mean + std * ndtri(p).
nrdtrimn: Primitive = differentiable(
    special.nrdtrimn,
    "p std x",
    p=lambda g, p, std: -g * (std * _normal_quantile_slope(p)),
    std=lambda g, p: -g * special.ndtri(p),
    x=lambda g: g,
)
nrdtrisd: Primitive = differentiable(
    special.nrdtrisd,
    "mn p x",
    mn=lambda g, p: -g / special.ndtri(p),
    p=lambda g, p, out: -g * (out * _normal_quantile_slope(p) / special.ndtri(p)),
    x=lambda g, p: g / special.ndtri(p),
)
