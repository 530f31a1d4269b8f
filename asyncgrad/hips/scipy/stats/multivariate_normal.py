"""`scipy.stats.multivariate_normal`, for functions that are differentiated; it can be called, too."""

from ...plain_names import make_distribution

make_distribution(__name__)
