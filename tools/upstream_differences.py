"""What differs where NumPy's and SciPy's own tests are run with tensors, and why: a list, and a part of docs/scipy.md.

`python -m tools.upstream_differences` writes the part between its markers; tests/programs/test_upstream.py runs the
tests, which find no others, and holds the part to be current.
"""

from __future__ import annotations

import pathlib
from collections.abc import Iterable, Sequence
from typing import NamedTuple, final

__all__ = ["DIFFERENCES", "PAGE", "Difference", "page", "with_table"]

PAGE = pathlib.Path(__file__).parent.parent / "docs" / "scipy.md"
_BEGIN, _END = "<!-- differences:begin -->", "<!-- differences:end -->"


@final
class Difference(NamedTuple):
    """A difference from NumPy or SciPy that stays.

    Attributes:
        functions: a regular expression of their names.
        kinds: a regular expression of what the plugin notes: "raised", "not-raised", "value", "dtype", "wrong-gradient"
            and others.
        listed: the functions as the page names them.
        reason: why.
    """

    functions: str
    kinds: str
    listed: str
    reason: str


DIFFERENCES = (
    Difference(
        r"numpy\.(apply_along_axis|trapezoid)|scipy\.integrate\.trapezoid|scipy\.stats\.(hmean|zscore)",
        "raised",
        "masked arrays",
        "a tensor has no mask",
    ),
    Difference(
        r"numpy\.(mat(vec|mul)|vecmat|append|concat|clip|minimum|\w+_like)",
        "raised",
        "arrays of objects, texts and times beside tensors",
        "a tensor holds numbers",
    ),
    Difference(
        r"numpy\.(choose|dot)",
        "not-raised",
        "`np.choose` with a read-only `out=`, and `np.dot` with one of scattered numbers",
        "the tensor is a copy, which may be written, and whose numbers lie one after the other",
    ),
    Difference(
        r"numpy\.choose",
        "raised",
        "`np.choose` of a Python number that the other choices' dtype does not hold",
        "NumPy wraps it around, here it is refused as everywhere",
    ),
    Difference(
        r"numpy\.linalg\.cholesky",
        "wrong-gradient",
        "the gradient of `np.linalg.cholesky`",
        "it is Hermitian, as the matrix is; NumPy reads one triangle",
    ),
    Difference(
        r"(numpy|scipy)\.linalg\.(eigh|eigvalsh|svd)",
        "wrong-gradient",
        "gradients of `eigh` and `eigvalsh`, and of `np.linalg.svd` with `hermitian=True`",
        "they are Hermitian, as the matrix is, by PyTorch's convention; SciPy reads one triangle",
    ),
    Difference(
        r"numpy\.linalg\.qr",
        "raised",
        'gradients of `np.linalg.qr` with `mode="raw"` and outdated modes',
        'LAPACK\'s form of its factors has no derivative here: write mode="reduced"',
    ),
    Difference(
        r"numpy\.interp",
        "value",
        "`np.interp` of coordinates that decrease",
        "NumPy's numbers mean nothing there, by its documentation",
    ),
    Difference(
        r"numpy\.fft\.rfftn",
        "raised",
        "`np.fft.rfftn` along an axis twice, to another length",
        "call it for one axis after another",
    ),
    Difference(
        r"numpy\.quantile|scipy\.signal\.csd",
        "wrong-gradient",
        "gradients of medians and quantiles of elements that are equal",
        "there is no derivative: the gradient goes to one of them",
    ),
    Difference(
        r"scipy\.linalg\.subspace_angles",
        "value",
        "angles of 0 of `subspace_angles`",
        "they are what rounding leaves of 0",
    ),
    Difference(
        r"scipy\.linalg\.inv",
        "wrong-gradient",
        '`scipy.linalg.inv` with `assume_a="diagonal"`',
        "SciPy returns what stands beside the diagonal as it is given; here it is 0, and has no gradient",
    ),
    Difference(
        r"scipy\.linalg\.inv",
        "not-raised",
        "`scipy.linalg.inv` with `assume_a` of more words",
        "it takes those of `solve`, where SciPy raises KeyError",
    ),
    Difference(
        r"scipy\.linalg\.(cosh|sinh|tanh)m",
        "not-raised",
        "`coshm`, `sinhm` and `tanhm` of booleans",
        "they are taken as numbers, as by `cosm`",
    ),
    Difference(
        r"scipy\.linalg\.solve_discrete_are",
        "value",
        "`solve_discrete_are` with `e` and `balanced=True`",
        "SciPy's result misses the solution for some matrices; here it solves the equation",
    ),
    Difference(
        r"scipy\.integrate\.simpson",
        "wrong-gradient",
        "the gradient of `simpson` by places that coincide",
        "the value jumps there: there is no derivative",
    ),
    Difference(
        r"scipy\.interpolate\.Akima1DInterpolator\(\)\.__call__",
        "wrong-gradient",
        "gradients of `Akima1DInterpolator` where points lie on a line",
        "its weights are tied: the gradient is that of equal weights",
    ),
    Difference(
        r"scipy\.ndimage\.(\w+_filter(1d)?|grey_\w+|median)",
        "value",
        "images with NaN in filters by rank, `ndimage.median` of labels that no element has",
        "SciPy's result depends on the order of its comparisons, and is any element; here NaN is the greatest or NaN",
    ),
    Difference(
        r"scipy\.ndimage\.gaussian_gradient_magnitude",
        "value|wrong-gradient",
        "`ndimage.gaussian_gradient_magnitude` with `axes=`",
        "SciPy smooths along the other axes, too, against its documentation",
    ),
    Difference(
        r"scipy\.ndimage\.zoom",
        "value",
        "`ndimage.zoom` of complex images with `grid_mode=True`",
        "SciPy forgets it",
    ),
    Difference(
        r"scipy\.signal\.(lfilter|sosfilt)",
        "not-raised",
        "`signal.lfilter` and `sosfilt` of whole numbers alone",
        "they are taken as floating numbers",
    ),
    Difference(
        r"scipy\.signal\.lsim",
        "value|dtype",
        "`signal.lsim` of whole numbers alone",
        "SciPy rounds the states to whole numbers",
    ),
    Difference(
        r"scipy\.spatial\.distance\.\w+",
        "value|dtype",
        "distances of unsigned whole numbers",
        "SciPy's differences wrap around",
    ),
    Difference(
        r"scipy\.sparse\.linalg\.spsolve",
        "not-raised",
        "`spsolve` of some singular matrices",
        "the solution is NaN, with SciPy's warning, as of others",
    ),
    Difference(
        r"scipy\.sparse\.linalg\.(bicgstab|cg|gmres|minres|lsmr|lsqr)",
        "value|wrong-gradient|missing-gradient|gradient-raised",
        "solvers of `sparse.linalg` that iterate",
        "gradients are those of the solution, and SciPy's iterates end near it, or after `maxiter` steps",
    ),
    Difference(
        r"scipy\.signal\.resample",
        "raised",
        "`signal.resample` of a vector along an axis that it lacks",
        "SciPy overlooks it for vectors, and raises for matrices",
    ),
    Difference(
        r"scipy\.special\.assoc_legendre_p(_all)?",
        "wrong-gradient",
        "gradients of `assoc_legendre_p` at 1 and -1",
        "SciPy's derivatives there do not know of `norm`, and some have wrong signs or orders",
    ),
    Difference(
        r"(numpy|scipy)\.linalg\.(eigh?|orth|qr|rq|svd)",
        "gradient-raised",
        "gradients of `eig`, `eigh`, `orth`, `qr`, `rq` and `svd`",
        "phases of vectors, vectors of equal values, and the columns that complete a basis, are arbitrary: a loss that "
        "depends on them raises",
    ),
    Difference(
        r"scipy\.linalg\.null_space",
        "wrong-gradient",
        "gradients of `null_space`",
        "they are those of a basis that turns no more than the space does; SciPy's turns in any way",
    ),
    Difference(
        r"scipy\.linalg\.rq",
        "value",
        "`rq` of zeros",
        "any rows complete it",
    ),
    Difference(
        r"numpy\.(arg)?partition",
        "value",
        "`np.partition`",
        "NumPy leaves open how the elements lie beside the chosen ones",
    ),
    Difference(
        r"numpy\.polynomial\.(\w+\(\)\.__call__|\w+\.\w+val)",
        "value",
        "values of `numpy.polynomial` at roots",
        "they are what rounding leaves of 0",
    ),
    Difference(
        r"numpy\.polynomial\.\w+\.\w+line",
        "dtype",
        "`polyline` and its kin of whole numbers",
        "coefficients are floating numbers",
    ),
    Difference(
        r"numpy\.polynomial\.(Polynomial\(\)\.\w+|polynomial\.poly(grid|val)[23]d)",
        "raised",
        "`numpy.polynomial` of fractions and of other objects",
        "a tensor holds numbers",
    ),
    Difference(
        r"scipy\.sparse\.\w+\(\)\.count_nonzero",
        "dtype",
        "numbers of elements of a sparse array's rows or columns",
        "there is one kind of sparse array, which counts as SciPy's `coo_array`",
    ),
    Difference(
        r"scipy\.interpolate\.CubicSpline\(\)\.__call__",
        "wrong-gradient",
        "third derivatives of `CubicSpline` at a knot",
        "they jump there: the gradient is that of one side",
    ),
    Difference(
        r"scipy\.interpolate\.(splrep|splprep|bisplrep|(Univariate|RectBivariate|SmoothBivariate)Spline\(\)\.\w+)",
        "wrong-gradient",
        "gradients of splines near points, of one variable and of two",
        "SciPy meets `s` within a thousandth, now more and now less exactly; gradients keep the residual that was met, "
        "and the knots, which move with the residuals between scattered points",
    ),
    Difference(
        r"scipy\.interpolate\.LSQBivariateSpline\(\)\.\w+",
        "value",
        "`LSQBivariateSpline` with a great `eps`",
        "here singular values up to it count as 0, and in FITPACK rows of its triangle",
    ),
    Difference(
        r"scipy\.interpolate\.spl(ev|int)",
        "raised",
        "`splev` and `splint` of knots that decrease",
        "there is no such spline, and SciPy's numbers mean nothing",
    ),
    Difference(
        r"scipy\.interpolate\.(splint|RBFInterpolator\(\)\.__call__)",
        "value",
        "integrals of splines that are 0, and radial functions whose system is nearly singular",
        "they are what rounding leaves",
    ),
    Difference(
        r"scipy\.interpolate\.(interpn|RegularGridInterpolator\(\)\.__call__|make_smoothing_spline|griddata|"
        r"CloughTocher2DInterpolator\(\)\.__call__)",
        "value",
        "splines on grids, `make_smoothing_spline` with `lam=None`, cubics on triangles",
        "SciPy's searches end near the solution, to 1e-6; here it is solved for",
    ),
    Difference(
        r"scipy\.linalg\.(cho(lesky|_factor)|eigh|eigvalsh|pinvh?|svd|svdvals|logm|signm)",
        "not-raised",
        "`scipy.linalg` of stacks of no matrices",
        "their result has as few",
    ),
    Difference(
        r"scipy\.linalg\.eig(vals)?",
        "raised",
        "gradients of `eig` by pairs, with `homogeneous_eigvals=True` beside a second matrix",
        "the length of a pair is arbitrary",
    ),
    Difference(
        r"scipy\.ndimage\.(affine_transform|map_coordinates|rotate|shift|zoom)",
        "not-raised",
        "images of float16 and of longdouble at other coordinates",
        "splines through them are computed in their dtypes",
    ),
    Difference(r"scipy\.linalg\.eig_banded", "value", "vectors of `eig_banded`", "their signs are arbitrary"),
    Difference(
        r"scipy\.linalg\.(cho_solve_banded|solve|solve_banded)",
        "raised",
        "`scipy.linalg.solve` of texts, `solve_banded` by several numbers of bands, arrays that are not filled",
        "a tensor holds numbers, a stack has one number of bands, and what memory held may be singular",
    ),
    Difference(
        r"scipy\.linalg\.qr",
        "raised",
        'gradients of `scipy.linalg.qr` with `mode="raw"`',
        "LAPACK's form of its factors has no derivative here: write another mode",
    ),
    Difference(
        r"scipy\.linalg\.qr_multiply",
        "shape",
        "`qr_multiply` of a matrix without columns",
        "the product has none either; SciPy's has the shape of `c`",
    ),
    Difference(
        r"scipy\.linalg\.cho_solve",
        "raised",
        "`cho_solve` with an array for `lower`",
        "one word says it for a stack",
    ),
    Difference(
        r"scipy\.linalg\.ldl",
        "gradient-raised",
        "gradients of `ldl` of a singular matrix",
        "its factors are not those of its neighbours: there is no derivative",
    ),
    Difference(
        r"scipy\.special\.(elliprj|hyp1f1)",
        "gradient-raised",
        "gradients of `elliprj` at `p` below 0, and of `hyp1f1` by its parameters where all three are great",
        "the integral is a principal value, and the series loses its digits",
    ),
    Difference(
        r"scipy\.linalg\.solve_(sylvester|continuous_lyapunov)",
        "value",
        "`solve_sylvester` of a complex matrix beside a real one",
        "SciPy mixes complex and real Schur forms, and its result is wrong",
    ),
    Difference(
        r"scipy\.ndimage\.generic_\w+",
        "raised",
        "`ndimage.generic_laplace` and its kin",
        "the function must keep the history",
    ),
    Difference(
        r"scipy\.signal\.(welch|csd|coherence|periodogram|spectrogram|stft)",
        "raised",
        "functions given as `detrend=` to `signal.welch` and its kin",
        "the function must keep the history",
    ),
    Difference(
        r"scipy\.special\.(comb|perm|factorial[2k]?)",
        "raised",
        "`comb`, `perm` and factorials with `exact=True`",
        "they are whole numbers without bound, which a tensor does not hold: write `math.comb`",
    ),
    Difference(
        r"scipy\.special\.factorial2?",
        "dtype",
        "`factorial` and `factorial2` of complex numbers that are whole",
        "SciPy's result is real, here it is complex as the argument",
    ),
    Difference(
        r"scipy\.integrate\.(odeint|solve_ivp|quad\w*|nquad|[dt]\w+quad)",
        "gradient-raised|raised",
        "`scipy.integrate` of compiled functions, of ones that make arrays, and with `workers=`",
        "functions must keep the history; what waits runs together where the function is an `async def`",
    ),
    Difference(
        r"scipy\.spatial\.distance\.[cp]dist",
        "raised",
        "`cdist` and `pdist` by metrics that compare elements, of points that require grad",
        "there is no derivative: detach the points",
    ),
    Difference(
        r"scipy\.spatial\.distance\.[cp]dist",
        "not-raised",
        "`cdist` and `pdist` with an `out=` of scattered numbers",
        "the tensor is a copy, whose numbers lie one after the other",
    ),
    Difference(
        r"scipy\.spatial\.geometric_slerp",
        "raised",
        "`geometric_slerp` between opposite points",
        "no arc is the shortest, so there is no derivative",
    ),
    Difference(
        r"scipy\.optimize\.minimize_scalar",
        "shape",
        "`minimize_scalar` of functions that return a matrix of one number",
        "its `x` and `fun` are numbers",
    ),
    Difference(
        r"scipy\.optimize\.lsq_linear",
        "wrong-gradient",
        "gradients of `lsq_linear` of a matrix that has not full rank",
        "it has many solutions, and SciPy's search ends at any of them",
    ),
    Difference(
        r"scipy\.stats\.multivariate_normal\.cdf",
        "wrong-gradient",
        "gradients of `multivariate_normal.cdf` by its covariance",
        "they are symmetric, as the covariance is; SciPy reads one triangle",
    ),
    Difference(
        r"scipy\.stats\.multivariate_\w+(\(\))?\.\w+",
        "wrong-gradient",
        "gradients of other distributions of several variables by their covariance or shape",
        "they are symmetric, as these are; SciPy reads one triangle",
    ),
    Difference(
        r"scipy\.stats\.multivariate_normal(\(\))?\.\w+",
        "raised",
        "densities of `multivariate_normal` by a singular covariance that requires grad",
        "its pseudo-determinant jumps: there is no derivative",
    ),
    Difference(
        r"scipy\.stats\.\w+\.rvs",
        "wrong-gradient",
        "gradients of draws by shapes",
        "draws move as quantiles do; SciPy's may be made by rejection",
    ),
    Difference(
        r"scipy\.stats\.(binom|hypergeom)\.\w+",
        "missing-gradient",
        "gradients by numbers of outcomes, trials and draws",
        "they are whole, and have no derivative",
    ),
    Difference(
        r"scipy\.stats\.((betaprime|burr|f|johnsonsu|kappa3|truncpareto)(\(\))?\.entropy|binom\.logsf)",
        "value|not-raised",
        "entropies of some families at extreme shapes, `binom.logsf`",
        "SciPy's integrals miss most of the density, or overflow, and differences from 1 lose digits",
    ),
    Difference(
        r"scipy\.stats\.(kappa4(\(\))?\.support|argus(\(\))?\.var|pearsonr)",
        "value",
        "the last digits of the ends of `kappa4`, variances of `argus`, p-values of points on a line",
        "SciPy's are differences, which lose digits",
    ),
    Difference(
        r"scipy\.stats\.(norminvgauss(\(\))?\.([cs]f|log[cs]f|isf|ppf)|kstwo(\(\))?\.ppf)",
        "value",
        "`norminvgauss` far out, `kstwo.ppf` next to 1",
        "SciPy's integrals miss the density, and its quantiles follow a probability of twelve digits",
    ),
    Difference(
        r"scipy\.stats\.((nct|kappa3)(\(\))?\.(var|std|stats)|kappa4(\(\))?\.(mean|var|std|stats|moment)|lomax\.moment)",
        "value",
        "variances of `nct` and `kappa3` beside a heavy tail, moments of `kappa4` with a negative `h`, and of `lomax`",
        "they are infinite, or there, where SciPy has nan",
    ),
    Difference(
        r"scipy\.stats\.\w+(\(\))?\.fit",
        "raised",
        "`fit` of distributions",
        "parameters are found by minimizing a loss, by any optimizer",
    ),
    Difference(
        r"scipy\.stats\.(bernoulli|binom|geom|hypergeom|nbinom|poisson|\w*zipf\w*)\.rvs",
        "raised",
        "draws of whole numbers by parameters that require grad",
        "they have no derivative: weight a loss by their `logpmf`",
    ),
    Difference(
        r"scipy\.stats\.multivariate_(normal|t)(\(\))?\.(cdf|pdf)",
        "value|shape",
        "probabilities of several variables, and `multivariate_t` with `df=inf` at a number",
        "they are estimated, by random points; a number is one point",
    ),
    Difference(
        r"scipy\.stats\.gaussian_kde\(\)\.\w+",
        "dtype|raised",
        "`gaussian_kde` of single and of extended precision",
        "it stays in single precision, as everywhere, and LAPACK has no more than double precision",
    ),
    Difference(
        r"scipy\.stats\.(invgamma\.sf|wrapcauchy\.rvs)",
        "wrong-gradient|value",
        "`invgamma.sf` of numbers of a hundred orders of magnitude, draws of `wrapcauchy` on a great circle",
        "differences have one step for all of them, and draws lose digits where they are wrapped",
    ),
    Difference(
        r"scipy\.stats\.\w+(\(\))?\.(pdf|logpdf|[cs]f|log[cs]f|ppf|isf)",
        "dtype",
        "distributions without shapes, of numbers in single precision",
        "they stay in single precision, as everywhere",
    ),
    Difference(r"scipy\.optimize\.\w+", "dtype", "dtypes in `scipy.optimize`", "searches are in double precision"),
    Difference(
        r"scipy\.optimize\.\w+",
        "missing-gradient",
        "gradients by where a search begins",
        "it ends in the same place: there is no derivative",
    ),
    Difference(
        r"scipy\.optimize\.\w+",
        "raised",
        "`scipy.optimize` by bounds, and of functions that make arrays",
        "there is no derivative by a bound, and functions must keep the history",
    ),
    Difference(
        r"scipy\.optimize\.curve_fit",
        "wrong-gradient",
        "gradients of `curve_fit`",
        "SciPy's result moves less exactly than its differences tell",
    ),
    Difference(
        r"scipy\.optimize\.\w+",
        "value",
        "the last digits of searches, of `optimize`",
        "derivatives are exact here, and differences in SciPy, so the search ends elsewhere within its tolerance",
    ),
)


def with_table(text: str, head: Sequence[str], rows: Iterable[Sequence[str]], command: str) -> str:
    """Return the text of a page with a table between its markers, which a command writes."""
    before, _, rest = text.partition(_BEGIN)
    after = rest.partition(_END)[2]
    by = f"<!-- Written by `{command}`: change nothing here by hand. -->"
    lines = [" | ".join(["", *cells, ""]).strip() for cells in (head, *rows)]
    table = "\n".join([lines[0], f"|{'---|' * len(head)}", *lines[1:]])
    return f"{before}{_BEGIN}\n{by}\n\n{table}\n\n{_END}{after}"


def page(text: str) -> str:
    """Return the text of the page with the list of differences between its markers."""
    rows = [(one.listed, one.reason) for one in DIFFERENCES]
    return with_table(text, ("what", "why"), rows, "python -m tools.upstream_differences")


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
