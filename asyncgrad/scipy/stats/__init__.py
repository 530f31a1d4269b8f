"""Distributions and summaries of `scipy.stats`, with Tensors as results.

Distributions are differentiable by the variable, by `loc` and `scale`, and by their shapes.
"""

from typing import TYPE_CHECKING

from .choices import categorical as categorical
from .choices import multinomial as multinomial
from .circular import cosine as cosine
from .circular import vonmises as vonmises
from .circular import vonmises_line as vonmises_line
from .circular import wrapcauchy as wrapcauchy
from .comparisons import f_oneway as f_oneway
from .comparisons import kendalltau as kendalltau
from .comparisons import linregress as linregress
from .comparisons import mannwhitneyu as mannwhitneyu
from .comparisons import rankdata as rankdata
from .comparisons import spearmanr as spearmanr
from .comparisons import ttest_1samp as ttest_1samp
from .comparisons import ttest_ind as ttest_ind
from .comparisons import ttest_ind_from_stats as ttest_ind_from_stats
from .comparisons import ttest_rel as ttest_rel
from .comparisons import wilcoxon as wilcoxon
from .covariance import Covariance as Covariance
from .directions import circmean as circmean
from .directions import circstd as circstd
from .directions import circvar as circvar
from .directions import directional_stats as directional_stats
from .discrete import bernoulli as bernoulli
from .discrete import betabinom as betabinom
from .discrete import betanbinom as betanbinom
from .discrete import binom as binom
from .discrete import geom as geom
from .discrete import hypergeom as hypergeom
from .discrete import nbinom as nbinom
from .discrete import poisson as poisson
from .extremes import genextreme as genextreme
from .extremes import genpareto as genpareto
from .extremes import gompertz as gompertz
from .fits import cramervonmises as cramervonmises
from .fits import ks_1samp as ks_1samp
from .fits import kstest as kstest
from .folded import foldcauchy as foldcauchy
from .folded import foldnorm as foldnorm
from .gamma_and_beta import beta as beta
from .gamma_and_beta import chi2 as chi2
from .gamma_and_beta import f as f
from .gamma_and_beta import gamma as gamma
from .gamma_and_beta import invgamma as invgamma
from .gamma_and_beta import t as t
from .gamma_powers import argus as argus
from .gamma_powers import chi as chi
from .gamma_powers import erlang as erlang
from .gamma_powers import gengamma as gengamma
from .gamma_powers import levy as levy
from .gamma_powers import levy_l as levy_l
from .gamma_powers import loggamma as loggamma
from .gamma_powers import maxwell as maxwell
from .gamma_powers import moyal as moyal
from .gamma_powers import nakagami as nakagami
from .integrated import gausshyper as gausshyper
from .intervals import anglit as anglit
from .intervals import arcsine as arcsine
from .intervals import bradford as bradford
from .intervals import johnsonsb as johnsonsb
from .intervals import loguniform as loguniform
from .intervals import rdist as rdist
from .intervals import reciprocal as reciprocal
from .intervals import truncexpon as truncexpon
from .intervals import truncpareto as truncpareto
from .intervals import truncweibull_min as truncweibull_min
from .inverse_normal import genhyperbolic as genhyperbolic
from .inverse_normal import geninvgauss as geninvgauss
from .inverse_normal import invgauss as invgauss
from .inverse_normal import norminvgauss as norminvgauss
from .inverse_normal import recipinvgauss as recipinvgauss
from .inverse_normal import wald as wald
from .kernel_density import gaussian_kde as gaussian_kde
from .least_of_many import powerlognorm as powerlognorm
from .least_of_many import powernorm as powernorm
from .lengths import rice as rice
from .location_scale import cauchy as cauchy
from .location_scale import expon as expon
from .location_scale import gumbel_l as gumbel_l
from .location_scale import gumbel_r as gumbel_r
from .location_scale import halfcauchy as halfcauchy
from .location_scale import laplace as laplace
from .location_scale import logistic as logistic
from .location_scale import rayleigh as rayleigh
from .location_scale import uniform as uniform
from .median_slopes import siegelslopes as siegelslopes
from .median_slopes import theilslopes as theilslopes
from .multivariate import dirichlet as dirichlet
from .multivariate import multivariate_normal as multivariate_normal
from .multivariate import multivariate_t as multivariate_t
from .noncentral import ncf as ncf
from .noncentral import nct as nct
from .noncentral import ncx2 as ncx2
from .noncentral import skellam as skellam
from .normal import halfnorm as halfnorm
from .normal import lognorm as lognorm
from .normal import norm as norm
from .normal import truncnorm as truncnorm
from .pareto_normal import dpareto_lognorm as dpareto_lognorm
from .pearson_third import pearson3 as pearson3
from .pieces import crystalball as crystalball
from .pieces import dgamma as dgamma
from .pieces import dweibull as dweibull
from .pieces import gennorm as gennorm
from .pieces import halfgennorm as halfgennorm
from .pieces import laplace_asymmetric as laplace_asymmetric
from .pieces import semicircular as semicircular
from .pieces import skewcauchy as skewcauchy
from .pieces import trapezoid as trapezoid
from .pieces import triang as triang
from .power_series import logser as logser
from .power_series import yulesimon as yulesimon
from .power_series import zipf as zipf
from .power_series import zipfian as zipfian
from .power_tails import alpha as alpha
from .power_tails import betaprime as betaprime
from .power_tails import burr as burr
from .power_tails import burr12 as burr12
from .power_tails import fisk as fisk
from .power_tails import invweibull as invweibull
from .power_tails import kappa3 as kappa3
from .power_tails import loglaplace as loglaplace
from .power_tails import lomax as lomax
from .power_tails import mielke as mielke
from .power_transforms import boxcox as boxcox
from .power_transforms import boxcox_llf as boxcox_llf
from .power_transforms import energy_distance as energy_distance
from .power_transforms import wasserstein_distance as wasserstein_distance
from .power_transforms import yeojohnson as yeojohnson
from .power_transforms import yeojohnson_llf as yeojohnson_llf
from .powers import pareto as pareto
from .powers import powerlaw as powerlaw
from .powers import weibull_max as weibull_max
from .powers import weibull_min as weibull_min
from .random_matrices import invwishart as invwishart
from .random_matrices import wishart as wishart
from .resonances import rel_breitwigner as rel_breitwigner
from .sample_statistics import ksone as ksone
from .sample_statistics import kstwo as kstwo
from .sample_statistics import kstwobign as kstwobign
from .sample_statistics import tukeylambda as tukeylambda
from .several_p_values import combine_pvalues as combine_pvalues
from .several_p_values import false_discovery_control as false_discovery_control
from .significance import chi2_contingency as chi2_contingency
from .significance import chisquare as chisquare
from .significance import jarque_bera as jarque_bera
from .significance import kurtosistest as kurtosistest
from .significance import normaltest as normaltest
from .significance import power_divergence as power_divergence
from .significance import skewtest as skewtest
from .skewed import exponnorm as exponnorm
from .skewed import skewnorm as skewnorm
from .sorted_samples import differential_entropy as differential_entropy
from .sorted_samples import expectile as expectile
from .sorted_samples import lmoment as lmoment
from .sorted_samples import quantile as quantile
from .spreads import bartlett as bartlett
from .spreads import levene as levene
from .stable import landau as landau
from .summaries import describe as describe
from .summaries import entropy as entropy
from .summaries import gmean as gmean
from .summaries import gstd as gstd
from .summaries import gzscore as gzscore
from .summaries import hmean as hmean
from .summaries import iqr as iqr
from .summaries import kstat as kstat
from .summaries import kstatvar as kstatvar
from .summaries import kurtosis as kurtosis
from .summaries import median_abs_deviation as median_abs_deviation
from .summaries import moment as moment
from .summaries import pearsonr as pearsonr
from .summaries import pmean as pmean
from .summaries import pointbiserialr as pointbiserialr
from .summaries import sem as sem
from .summaries import skew as skew
from .summaries import trim_mean as trim_mean
from .summaries import variation as variation
from .summaries import zmap as zmap
from .summaries import zscore as zscore
from .transformed import exponpow as exponpow
from .transformed import exponweib as exponweib
from .transformed import fatiguelife as fatiguelife
from .transformed import genexpon as genexpon
from .transformed import genhalflogistic as genhalflogistic
from .transformed import genlogistic as genlogistic
from .transformed import gibrat as gibrat
from .transformed import halflogistic as halflogistic
from .transformed import hypsecant as hypsecant
from .transformed import jf_skew_t as jf_skew_t
from .transformed import johnsonsu as johnsonsu
from .transformed import kappa4 as kappa4
from .trimmed import tmax as tmax
from .trimmed import tmean as tmean
from .trimmed import tmin as tmin
from .trimmed import trim1 as trim1
from .trimmed import trimboth as trimboth
from .trimmed import tsem as tsem
from .trimmed import tstd as tstd
from .trimmed import tvar as tvar
from .unequal_trials import poisson_binom as poisson_binom
from .uniform_sums import irwinhall as irwinhall
from .urns import nchypergeom_fisher as nchypergeom_fisher
from .urns import nchypergeom_wallenius as nchypergeom_wallenius
from .urns import nhypergeom as nhypergeom
from .whole_numbers import boltzmann as boltzmann
from .whole_numbers import dlaplace as dlaplace
from .whole_numbers import planck as planck
from .whole_numbers import randint as randint

__all__ = [
    "Covariance",
    "alpha",
    "anglit",
    "arcsine",
    "argus",
    "bartlett",
    "bernoulli",
    "beta",
    "betabinom",
    "betanbinom",
    "betaprime",
    "binom",
    "boltzmann",
    "boxcox",
    "boxcox_llf",
    "bradford",
    "burr",
    "burr12",
    "categorical",
    "cauchy",
    "chi",
    "chi2",
    "chi2_contingency",
    "chisquare",
    "circmean",
    "circstd",
    "circvar",
    "combine_pvalues",
    "cosine",
    "cramervonmises",
    "crystalball",
    "describe",
    "dgamma",
    "differential_entropy",
    "directional_stats",
    "dirichlet",
    "dlaplace",
    "dpareto_lognorm",
    "dweibull",
    "energy_distance",
    "entropy",
    "erlang",
    "expectile",
    "expon",
    "exponnorm",
    "exponpow",
    "exponweib",
    "f",
    "f_oneway",
    "false_discovery_control",
    "fatiguelife",
    "fisk",
    "foldcauchy",
    "foldnorm",
    "gamma",
    "gausshyper",
    "gaussian_kde",
    "genexpon",
    "genextreme",
    "gengamma",
    "genhalflogistic",
    "genhyperbolic",
    "geninvgauss",
    "genlogistic",
    "gennorm",
    "genpareto",
    "geom",
    "gibrat",
    "gmean",
    "gompertz",
    "gstd",
    "gumbel_l",
    "gumbel_r",
    "gzscore",
    "halfcauchy",
    "halfgennorm",
    "halflogistic",
    "halfnorm",
    "hmean",
    "hypergeom",
    "hypsecant",
    "invgamma",
    "invgauss",
    "invweibull",
    "invwishart",
    "iqr",
    "irwinhall",
    "jarque_bera",
    "jf_skew_t",
    "johnsonsb",
    "johnsonsu",
    "kappa3",
    "kappa4",
    "kendalltau",
    "ks_1samp",
    "ksone",
    "kstat",
    "kstatvar",
    "kstest",
    "kstwo",
    "kstwobign",
    "kurtosis",
    "kurtosistest",
    "landau",
    "laplace",
    "laplace_asymmetric",
    "levene",
    "levy",
    "levy_l",
    "linregress",
    "lmoment",
    "loggamma",
    "logistic",
    "loglaplace",
    "lognorm",
    "logser",
    "loguniform",
    "lomax",
    "mannwhitneyu",
    "maxwell",
    "median_abs_deviation",
    "mielke",
    "moment",
    "moyal",
    "multinomial",
    "multivariate_normal",
    "multivariate_t",
    "nakagami",
    "nbinom",
    "ncf",
    "nchypergeom_fisher",
    "nchypergeom_wallenius",
    "nct",
    "ncx2",
    "nhypergeom",
    "norm",
    "normaltest",
    "norminvgauss",
    "pareto",
    "pearson3",
    "pearsonr",
    "planck",
    "pmean",
    "pointbiserialr",
    "poisson",
    "poisson_binom",
    "power_divergence",
    "powerlaw",
    "powerlognorm",
    "powernorm",
    "quantile",
    "randint",
    "rankdata",
    "rayleigh",
    "rdist",
    "recipinvgauss",
    "reciprocal",
    "rel_breitwigner",
    "rice",
    "sem",
    "semicircular",
    "siegelslopes",
    "skellam",
    "skew",
    "skewcauchy",
    "skewnorm",
    "skewtest",
    "spearmanr",
    "t",
    "theilslopes",
    "tmax",
    "tmean",
    "tmin",
    "trapezoid",
    "triang",
    "trim1",
    "trim_mean",
    "trimboth",
    "truncexpon",
    "truncnorm",
    "truncpareto",
    "truncweibull_min",
    "tsem",
    "tstd",
    "ttest_1samp",
    "ttest_ind",
    "ttest_ind_from_stats",
    "ttest_rel",
    "tukeylambda",
    "tvar",
    "uniform",
    "variation",
    "vonmises",
    "vonmises_line",
    "wald",
    "wasserstein_distance",
    "weibull_max",
    "weibull_min",
    "wilcoxon",
    "wishart",
    "wrapcauchy",
    "yeojohnson",
    "yeojohnson_llf",
    "yulesimon",
    "zipf",
    "zipfian",
    "zmap",
    "zscore",
]

if not TYPE_CHECKING:
    # Hidden from type checkers: with a module `__getattr__` they would accept any name.
    from ..error_names import name_errors
    from ..unsupported import refuse

    __getattr__ = refuse("stats")
    name_errors(__name__)


def __dir__() -> list[str]:
    return __all__
