"""Names of SciPy that asyncgrad.scipy does not have, since they have no derivative, and what to write instead."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from ..core.graph.naming import close_names

__all__ = ["LEFT_OUT", "advice_on", "refuse", "refuse_method"]

_POLISHED = "call scipy.optimize.{name} on arrays, and pass its x as the x0 of minimize, whose x is differentiable"
_VERTEX = "call scipy.optimize.{name} on arrays: its solution jumps from one vertex to another, and has no derivative"

_NUMBERS = "call scipy.{module}.{name}: it takes numbers and names"
_OWN = "import it from scipy.{module}"
_ARRAYS = "call scipy.{module}.{name} on t.detach().numpy(): it has no derivative here"
_CLASS = "make scipy.{module}.{name} of arrays: it keeps no history"
_DISTRIBUTION = "call scipy.{module}.{name} on arrays, or write its logpdf with asyncgrad.scipy.special"

#: By module, the functions and what to write instead.
LEFT_OUT: dict[str, dict[str, str]] = {
    "integrate": {
        "solve_bvp": "solve for the first state with optimize.root, whose function calls solve_ivp",
        "qmc_quad": "take the mean of the integrand at points of scipy.stats.qmc",
        "cubature": "use nquad, or quad_vec",
        "tanhsinh": "use quad",
        "nsum": "sum the terms",
        **dict.fromkeys(("lebedev_rule", "newton_cotes"), "call scipy.integrate.{name}: it takes whole numbers"),
        **dict.fromkeys(("complex_ode", "ode"), "use solve_ivp"),
        **dict.fromkeys(("BDF", "DOP853", "LSODA", "RK23", "RK45", "Radau"), "pass the method's name to solve_ivp"),
    },
    "linalg": {
        **dict.fromkeys(("dft", "hadamard", "helmert", "hilbert", "invhilbert", "invpascal", "pascal"), _NUMBERS),
        **dict.fromkeys(("find_best_blas_type", "get_blas_funcs", "get_lapack_funcs", "LinAlgWarning"), _OWN),
        **dict.fromkeys(("bandwidth", "ishermitian", "issymmetric"), _ARRAYS),
        **dict.fromkeys(("expm_cond", "matrix_balance"), _ARRAYS),
        **dict.fromkeys(("cossin", "clarkson_woodruff_transform"), _ARRAYS),
        **dict.fromkeys(
            ("cdf2rdf", "rsf2csf", "schur", "hessenberg"),
            "its factors depend on an order of eigenvalues, or of reflections, that no derivative has: use eig, or the "
            "functions expm, logm and sqrtm, which need no factors",
        ),
        **dict.fromkeys(
            ("ordqz", "qz"),
            "its factors depend on an order of eigenvalues, which no derivative has: use eig of two matrices",
        ),
        "kron": "use numpy.kron",
        "funm": "write v @ np.diag(func(w)) @ np.linalg.inv(v), with w and v of eig",
        **dict.fromkeys(("qr_delete", "qr_insert", "qr_update"), "call qr of the new matrix"),
    },
    "signal": {
        "whittaker_henderson": "solve (I + lamb * D.T @ D) x = y, with D for the differences, by linalg.solveh_banded",
        **dict.fromkeys(("bessel", "butter", "cheby1", "cheby2", "ellip", "iircomb", "iirdesign"), _NUMBERS),
        **dict.fromkeys(("iirfilter", "iirnotch", "iirpeak", "gammatone", "firls", "firwin", "firwin2"), _NUMBERS),
        **dict.fromkeys(("firwin_2d", "minimum_phase", "remez", "savgol_coeffs", "get_window"), _NUMBERS),
        **dict.fromkeys(("besselap", "buttap", "cheb1ap", "cheb2ap", "ellipap", "buttord", "cheb1ord"), _NUMBERS),
        **dict.fromkeys(
            ("cheb2ord", "ellipord", "kaiser_atten", "kaiser_beta", "kaiserord", "band_stop_obj"), _NUMBERS
        ),
        **dict.fromkeys(("max_len_seq", "unit_impulse", "correlation_lags", "check_COLA", "check_NOLA"), _NUMBERS),
        **dict.fromkeys(("choose_conv_method", "closest_STFT_dual_window", "findfreqs", "czt_points"), _NUMBERS),
        **dict.fromkeys(("BadCoefficients", "windows"), _OWN),
        **dict.fromkeys(("argrelextrema", "argrelmax", "argrelmin", "find_peaks", "find_peaks_cwt"), _ARRAYS),
        **dict.fromkeys(("peak_prominences", "peak_widths", "unique_roots", "vectorstrength"), _ARRAYS),
        **dict.fromkeys(("residue", "residuez", "invres", "invresz", "place_poles"), _ARRAYS),
        **dict.fromkeys(("abcd_normalize", "bilinear", "bilinear_zpk", "cont2discrete", "normalize"), _ARRAYS),
        **dict.fromkeys(("lp2bp", "lp2bp_zpk", "lp2bs", "lp2bs_zpk", "lp2hp", "lp2hp_zpk", "lp2lp"), _ARRAYS),
        **dict.fromkeys(("lp2lp_zpk", "sos2tf", "sos2zpk", "ss2tf", "ss2zpk", "tf2sos", "tf2ss", "tf2zpk"), _ARRAYS),
        **dict.fromkeys(("zpk2sos", "zpk2ss", "zpk2tf"), _ARRAYS),
        **dict.fromkeys(("CZT", "ZoomFFT", "ShortTimeFFT", "StateSpace", "TransferFunction"), _CLASS),
        **dict.fromkeys(("ZerosPolesGain", "dlti", "lti"), _CLASS),
        **dict.fromkeys(("czt", "zoom_fft"), "multiply by np.exp(-2j * np.pi * np.outer(frequencies, times))"),
        **dict.fromkeys(("freqs_zpk", "freqz_zpk"), "write the quotient of np.polyval at 1j * w, or use freqz"),
        **dict.fromkeys(("bode", "freqresp", "dbode", "dfreqresp"), "use freqz, and np.angle of it"),
        **dict.fromkeys(("impulse", "step"), "use lsim"),
        **dict.fromkeys(("dimpulse", "dlsim", "dstep"), "use lfilter"),
        "envelope": "write np.abs(hilbert(x))",
        "gauss_spline": "write np.exp(-x**2 / (2 * variance))",
        **dict.fromkeys(("cspline1d", "cspline2d", "qspline1d", "qspline2d"), "use ndimage.spline_filter"),
        "spline_filter": "use ndimage.spline_filter",
        **dict.fromkeys(("cspline1d_eval", "qspline1d_eval"), "use ndimage.map_coordinates with prefilter=False"),
        **dict.fromkeys(("symiirorder1", "symiirorder2"), "use lfilter, forwards and backwards"),
        "sepfir2d": "use ndimage.correlate1d along each axis",
    },
    "interpolate": {
        **dict.fromkeys(
            (
                "BarycentricInterpolator",
                "KroghInterpolator",
                "barycentric_interpolate",
                "krogh_interpolate",
                "lagrange",
            ),
            "write np.polyval(np.linalg.solve(np.vander(xi), yi), x)",
        ),
        **dict.fromkeys(("AAA", "FloaterHormannInterpolator"), "use CubicSpline, or RBFInterpolator"),
        "approximate_taylor_polynomial": "write the derivatives that ag.sync.grad returns, divided by factorials",
        "pade": "write np.linalg.solve of the equations for the coefficients of the denominator",
        "BPoly": "use PPoly",
        **dict.fromkeys(("NdBSpline", "NdPPoly", "interp2d"), "use RegularGridInterpolator"),
        "BivariateSpline": "use RectBivariateSpline for values on a grid, or SmoothBivariateSpline",
        **dict.fromkeys(
            ("LSQSphereBivariateSpline", "RectSphereBivariateSpline", "SmoothSphereBivariateSpline"),
            "use RBFInterpolator with smoothing, of points in three dimensions",
        ),
        "Rbf": "use RBFInterpolator",
        **dict.fromkeys(("generate_knots", "make_splrep"), "use splrep, with full_output for its residual"),
        "make_splprep": "use splprep",
        "insert": "use make_lsq_spline with the knots that are wanted",
        "spalde": "call splev with der=0, der=1 and so on",
    },
    "ndimage": {
        **dict.fromkeys(("binary_closing", "binary_dilation", "binary_erosion", "binary_fill_holes"), _ARRAYS),
        **dict.fromkeys(("binary_hit_or_miss", "binary_opening", "binary_propagation"), _ARRAYS),
        **dict.fromkeys(("distance_transform_bf", "distance_transform_cdt", "distance_transform_edt"), _ARRAYS),
        **dict.fromkeys(("find_objects", "histogram", "label", "value_indices", "watershed_ift"), _ARRAYS),
        **dict.fromkeys(("maximum_position", "minimum_position"), _ARRAYS),
        **dict.fromkeys(("generate_binary_structure", "iterate_structure"), _NUMBERS),
        "extrema": "use minimum, maximum, minimum_position and maximum_position",
        "labeled_comprehension": "write a list of func(input[labels == one])",
        **dict.fromkeys(("generic_filter", "generic_filter1d"), "use np.lib.stride_tricks.sliding_window_view"),
        "vectorized_filter": "use np.lib.stride_tricks.sliding_window_view",
        **dict.fromkeys(
            ("fourier_ellipsoid", "fourier_gaussian", "fourier_shift", "fourier_uniform"),
            "multiply by scipy.{module}.{name} of np.ones",
        ),
    },
    "sparse": {
        **dict.fromkeys(("dok_array", "lil_array"), "use csr_array, csc_array or coo_array"),
        **dict.fromkeys(("bsr_matrix", "coo_matrix", "csc_matrix", "csr_matrix", "dia_matrix"), "use csr_array"),
        **dict.fromkeys(("dok_matrix", "lil_matrix", "sparray", "spmatrix"), "use csr_array"),
        **dict.fromkeys(("bmat",), "use block_array"),
        **dict.fromkeys(("diags", "spdiags"), "use diags_array"),
        **dict.fromkeys(("eye", "identity"), "use eye_array"),
        **dict.fromkeys(("rand", "random", "random_array"), "pass SciPy's array to csr_array"),
        **dict.fromkeys(
            ("expand_dims", "matrix_transpose", "permute_dims", "swapaxes"),
            "use A.T or A.reshape: sparse arrays of Tensors have one or two axes",
        ),
        "kronsum": "write kron(eye_array(n), A) + kron(B, eye_array(m))",
        **dict.fromkeys(("load_npz", "save_npz"), "call scipy.{module}.{name} with A.toscipy()"),
        **dict.fromkeys(("issparse", "isspmatrix", "isspmatrix_bsr", "isspmatrix_coo", "isspmatrix_csc"), _OWN),
        **dict.fromkeys(("isspmatrix_csr", "isspmatrix_dia", "isspmatrix_dok", "isspmatrix_lil"), _OWN),
        **dict.fromkeys(("get_index_dtype", "safely_cast_index_arrays"), _OWN),
        **dict.fromkeys(("SparseEfficiencyWarning", "SparseWarning", "csgraph"), _OWN),
    },
    "sparse.linalg": {
        **dict.fromkeys(("bicg", "cgs", "gcrotmk", "lgmres", "qmr", "tfqmr"), "use gmres or bicgstab"),
        "spsolve_triangular": "use spsolve, which factors a matrix once",
        **dict.fromkeys(("eigs", "eigsh", "lobpcg"), "use linalg.eigh of A.toarray()"),
        "svds": "use linalg.svd of A.toarray()",
        **dict.fromkeys(("expm", "funm_multiply_krylov"), "use expm_multiply, or linalg.expm of A.toarray()"),
        "matrix_power": "write A @ A",
        **dict.fromkeys(("LaplacianNd", "LinearOperator", "aslinearoperator"), _CLASS),
        "SuperLU": "use splu",
        "spilu": "use it in the preconditioner M, made by scipy.{module}.spilu",
        **dict.fromkeys(("is_sptriangular", "onenormest", "spbandwidth"), _ARRAYS),
        **dict.fromkeys(("ArpackError", "ArpackNoConvergence", "MatrixRankWarning", "use_solver"), _OWN),
    },
    "stats": {
        **dict.fromkeys(
            ("levy_stable", "studentized_range"),
            "call scipy.stats.{name} on arrays: its density is a series or an integral, whose derivatives SciPy lacks",
        ),
    },
    "spatial": {
        **dict.fromkeys(("ConvexHull", "Delaunay", "HalfspaceIntersection", "KDTree", "Rectangle"), _CLASS),
        **dict.fromkeys(("SphericalVoronoi", "Voronoi", "cKDTree"), _CLASS),
        **dict.fromkeys(("convex_hull_plot_2d", "delaunay_plot_2d", "voronoi_plot_2d", "tsearch"), _ARRAYS),
        **dict.fromkeys(("QhullError", "transform"), _OWN),
    },
    "spatial.distance": {
        **dict.fromkeys(("dice", "hamming", "jaccard", "rogerstanimoto", "russellrao", "sokalsneath", "yule"), _ARRAYS),
        **dict.fromkeys(("kulczynski1", "sokalmichener"), _ARRAYS),
        **dict.fromkeys(("is_valid_dm", "is_valid_y", "num_obs_dm", "num_obs_y"), _ARRAYS),
        "directed_hausdorff": "write np.max(np.min(cdist(u, v), 1))",
    },
    "fft": {
        **dict.fromkeys(("get_workers", "prev_fast_len", "register_backend", "set_backend"), _OWN),
        **dict.fromkeys(("set_global_backend", "set_workers", "skip_backend"), _OWN),
    },
    "optimize": {
        **dict.fromkeys(("basinhopping", "brute", "differential_evolution", "direct"), _POLISHED),
        **dict.fromkeys(("dual_annealing", "shgo"), _POLISHED),
        **dict.fromkeys(("linear_sum_assignment", "linprog", "milp", "quadratic_assignment"), _VERTEX),
        **dict.fromkeys(("bracket", "brent", "fminbound", "golden"), "use minimize_scalar"),
        **dict.fromkeys(("fmin", "fmin_bfgs", "fmin_cg", "fmin_cobyla", "fmin_l_bfgs_b", "fmin_ncg"), "use minimize"),
        **dict.fromkeys(("fmin_powell", "fmin_slsqp", "fmin_tnc", "line_search"), "use minimize"),
        **dict.fromkeys(("anderson", "broyden1", "broyden2", "diagbroyden"), "use root"),
        **dict.fromkeys(("excitingmixing", "linearmixing", "newton_krylov"), "use root"),
        "leastsq": "use least_squares",
        **dict.fromkeys(("approx_fprime", "check_grad"), "use asyncgrad.grad, and asyncgrad.gradcheck"),
    },
}


def refuse(module: str) -> Callable[[str], Any]:
    """Return the `__getattr__` of a module, which names what to write instead of what it does not have."""
    instead = LEFT_OUT.get(module, {})

    def __getattr__(name: str) -> Any:  # noqa: N807
        here = f"asyncgrad.scipy.{module}"
        advice = instead.get(name) or advice_on(module, name)
        if advice is not None:
            raise AttributeError(f"{here} has no {name}: {advice.format(name=name, module=module)}", name=name)
        near = close_names(name, dir(import_module(here))) if not name.startswith("_") else []
        meant = f". Did you mean {near[0]}?" if near else ""
        raise AttributeError(f"module {here!r} has no attribute {name!r}{meant}", name=name)

    return __getattr__


def advice_on(module: str, name: str) -> str | None:
    """Say what to write instead of what SciPy has by this name, if it has anything to be called."""
    if name.startswith("_"):
        return None
    scipys = import_module(f"scipy.{module}")
    found = getattr(scipys, name, None) if name in scipys.__all__ else None
    if isinstance(found, type):
        return _OWN if issubclass(found, Exception) else _CLASS
    if hasattr(found, "logpdf") or hasattr(found, "logpmf"):
        return _DISTRIBUTION
    return _ARRAYS if callable(found) else None


#: By method or attribute of a distribution of SciPy's, what to write instead.
_METHODS = {
    "nnlf": "write -np.sum({name}.{density}(x, ...))",
    **dict.fromkeys(("fit", "fit_loc_scale"), "minimize -np.sum({name}.{density}(data, ...)) by the parameters"),
    "vecentropy": "write {name}.entropy(...)",
    "generic_moment": "write {name}.moment(order, ...)",
    "random_state": "pass random_state to {name}.rvs",
    **dict.fromkeys(("a", "b"), "write {name}.support(...)"),
    **dict.fromkeys(("logpdf", "pdf"), "it has probabilities of whole numbers: write {name}.pmf or {name}.logpmf"),
    **dict.fromkeys(("logpmf", "pmf"), "it has a density: write {name}.pdf or {name}.logpdf"),
}


def refuse_method(distribution: Any, name: str, method: str) -> AttributeError:
    """Return the error for an attribute that a distribution does not have; it names what to write instead.

    Args:
        distribution: the family.
        name: its name in SciPy.
        method: the attribute.
    """
    here = f"asyncgrad.scipy.stats.{name}"
    known = dir(type(distribution))
    advice = None if method.startswith("_") else _METHODS.get(method)
    scipys = None if method.startswith("_") else getattr(import_module("scipy.stats"), name, None)
    if advice is None and callable(getattr(scipys, method, None)):
        advice = "call scipy.stats.{name}.{method} on arrays: it has no derivative here"
    if advice is not None:
        density = "logpdf" if "logpdf" in known else "logpmf"
        said = advice.format(name=name, method=method, density=density)
        return AttributeError(f"{here} has no {method}: {said}", name=method, obj=distribution)
    near = close_names(method, [one for one in known if not one.startswith("_")])
    meant = f". Did you mean {near[0]}?" if near and not method.startswith("_") else ""
    return AttributeError(f"{here} has no attribute {method!r}{meant}", name=method, obj=distribution)
