"""Distributions and summaries of `scipy.stats`, with Tensors as results.

Distributions are differentiable by the variable, by `loc` and `scale`, and by their shapes.
"""

from .choices import categorical as categorical
from .choices import multinomial as multinomial
from .continuous import beta as beta
from .continuous import cauchy as cauchy
from .continuous import chi2 as chi2
from .continuous import expon as expon
from .continuous import f as f
from .continuous import gamma as gamma
from .continuous import gumbel_l as gumbel_l
from .continuous import gumbel_r as gumbel_r
from .continuous import halfcauchy as halfcauchy
from .continuous import halfnorm as halfnorm
from .continuous import invgamma as invgamma
from .continuous import laplace as laplace
from .continuous import logistic as logistic
from .continuous import lognorm as lognorm
from .continuous import norm as norm
from .continuous import pareto as pareto
from .continuous import powerlaw as powerlaw
from .continuous import rayleigh as rayleigh
from .continuous import t as t
from .continuous import truncnorm as truncnorm
from .continuous import uniform as uniform
from .continuous import weibull_max as weibull_max
from .continuous import weibull_min as weibull_min
from .covariance import Covariance as Covariance
from .discrete import bernoulli as bernoulli
from .discrete import betabinom as betabinom
from .discrete import binom as binom
from .discrete import geom as geom
from .discrete import hypergeom as hypergeom
from .discrete import nbinom as nbinom
from .discrete import poisson as poisson
from .extremes import genextreme as genextreme
from .extremes import genpareto as genpareto
from .extremes import gompertz as gompertz
from .kernel_density import gaussian_kde as gaussian_kde
from .multivariate import dirichlet as dirichlet
from .multivariate import multivariate_normal as multivariate_normal
from .multivariate import multivariate_t as multivariate_t
from .random_matrices import invwishart as invwishart
from .random_matrices import wishart as wishart
from .skewed import exponnorm as exponnorm
from .skewed import skewnorm as skewnorm
from .skewed import vonmises as vonmises
from .summaries import entropy as entropy
from .summaries import gmean as gmean
from .summaries import hmean as hmean
from .summaries import iqr as iqr
from .summaries import kurtosis as kurtosis
from .summaries import median_abs_deviation as median_abs_deviation
from .summaries import moment as moment
from .summaries import pearsonr as pearsonr
from .summaries import pmean as pmean
from .summaries import sem as sem
from .summaries import skew as skew
from .summaries import trim_mean as trim_mean
from .summaries import variation as variation
from .summaries import zmap as zmap
from .summaries import zscore as zscore

__all__ = [
    "Covariance",
    "bernoulli",
    "beta",
    "betabinom",
    "binom",
    "categorical",
    "cauchy",
    "chi2",
    "dirichlet",
    "entropy",
    "expon",
    "exponnorm",
    "f",
    "gamma",
    "gaussian_kde",
    "genextreme",
    "genpareto",
    "geom",
    "gmean",
    "gompertz",
    "gumbel_l",
    "gumbel_r",
    "halfcauchy",
    "halfnorm",
    "hmean",
    "hypergeom",
    "invgamma",
    "invwishart",
    "iqr",
    "kurtosis",
    "laplace",
    "logistic",
    "lognorm",
    "median_abs_deviation",
    "moment",
    "multinomial",
    "multivariate_normal",
    "multivariate_t",
    "nbinom",
    "norm",
    "pareto",
    "pearsonr",
    "pmean",
    "poisson",
    "powerlaw",
    "rayleigh",
    "sem",
    "skew",
    "skewnorm",
    "t",
    "trim_mean",
    "truncnorm",
    "uniform",
    "variation",
    "vonmises",
    "weibull_max",
    "weibull_min",
    "wishart",
    "zmap",
    "zscore",
]


def __dir__() -> list[str]:
    return __all__
