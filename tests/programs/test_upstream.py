"""NumPy's and SciPy's own tests, with tensors given to each function beside arrays.

Values are the same, and gradients are those of differences, but for what is listed here with a reason.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy

ROOT = Path(__file__).parents[2]

#: Files of tests, by library and area; of each the same share of the tests is run.
FILES = {
    np: {
        "_core": ["test_umath", "test_ufunc", "test_numeric", "test_einsum", "test_shape_base"],
        "lib": ["test_function_base", "test_nanfunctions", "test_arraypad", "test_shape_base", "test_twodim_base"],
        "linalg": ["test_linalg"],
        "fft": ["test_pocketfft", "test_helper"],
    },
    scipy: {
        "optimize": ["test_least_squares", "test_nnls", "test_minpack"],
        "linalg": ["test_basic", "test_decomp", "test_decomp_cholesky", "test_decomp_lu", "test_solvers"],
        "interpolate": ["test_polyint", "test_fitpack", "test_rbfinterp", "test_bsplines"],
        "integrate": ["test_quadrature"],
        "signal": ["test_savitzky_golay", "test_upfirdn", "test_waveforms"],
        "ndimage": ["test_measurements", "test_filters", "test_morphology"],
        "special": [
            *("test_gammainc", "test_lambertw", "test_legendre", "test_logsumexp", "test_orthogonal", "test_sph_harm"),
            *("test_hyp2f1", "test_logit", "test_ndtr", "test_spherical_bessel", "test_trig", "test_wright_bessel"),
        ],
        "stats": ["test_entropy"],
    },
}
#: Of the tests, and for each function at most so many calls.
SHARE, MOST = 0.03, 20

#: What differs: a pattern of functions and kinds of difference, and why.
REASONS = [
    (r"numpy\.apply_along_axis \| raised", "a tensor has no mask"),
    (r"numpy\.choose \| not-raised", "a copy of an array may be written into"),
    (r"numpy\.cross \| raised", "NumPy deprecates vectors of two elements"),
    (r"numpy\.linalg\.cholesky \| wrong-gradient", "the gradient of a Hermitian matrix is Hermitian"),
    (r"(numpy|scipy)\.linalg\.(eig|qr|rq|svd) \| gradient-raised", "phases and complements of bases are arbitrary"),
    (r"numpy\.(matmul|matvec|vecdot|vecmat) \| raised", "there is no axes="),
    (r"numpy\.a?r?g?partition \| value", "the order beside the chosen elements is open"),
    (r"numpy\.(nan)?(quantile|percentile) \| raised", "there is no derivative by q but for method='linear'"),
    (r"scipy\.integrate\.trapezoid \| raised", "a tensor has no mask"),
    (r"scipy\.interpolate\.CubicSpline\(\)\.__call__ \| wrong-gradient", "at a knot, the slope on one side"),
    (r"scipy\.interpolate\.splrep \| wrong-gradient", "SciPy meets s nearly, and not always as nearly"),
    (r"scipy\.linalg\.eig_banded \| value", "the signs of vectors are arbitrary"),
    (r"scipy\.linalg\.\w+ \| raised", "a tensor holds numbers, no texts; and what is empty is what memory held"),
    (r"scipy\.linalg\.solve_(sylvester|continuous_lyapunov) \| value", "SciPy mixes real and complex Schur forms"),
    (r"scipy\.ndimage\.generic_\w+ \| raised", "a function of the user's must keep the history"),
    (r"scipy\.optimize\.\w+ \| dtype", "searches are in double precision"),
    (r"scipy\.optimize\.\w+ \| missing-gradient", "there is no derivative by where a search begins"),
    (r"scipy\.optimize\.\w+ \| raised", "there is no derivative by bounds, and functions must keep the history"),
    (r"scipy\.optimize\.curve_fit \| wrong-gradient", "SciPy's result moves less exactly than that"),
    (r"scipy\.optimize\.\w+ \| value", "asyncgrad's derivatives are exact, SciPy's are differences"),
]


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("library", "calls", "functions"), [(np, 600, 100), (scipy, 500, 60)])
def test_what_differs_in_a_librarys_own_tests_has_a_reason(
    tmp_path: Path, library: Any, calls: int, functions: int
) -> None:
    folder = Path(library.__file__).parent
    files = [folder / area / "tests" / f"{name}.py" for area, names in FILES[library].items() for name in names]
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "ASYNCGRAD_UPSTREAM_REPORT": str(tmp_path / "report.json"),
        "ASYNCGRAD_UPSTREAM_SHARE": str(SHARE),
        "ASYNCGRAD_UPSTREAM_MOST": str(MOST),
        "ASYNCGRAD_UPSTREAM_LARGEST": "300",
        "ASYNCGRAD_UPSTREAM_SLOWEST": "0.05",
    }
    plugins = ["no:cacheprovider", "no:xdist", "no:asyncio", "no:randomly", "tests.support.upstream.plugin"]
    subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "--tb=no", "-W", "ignore"),
            *(f"-c{tmp_path / 'pytest.ini'}", f"--rootdir={folder.parent}"),
            *("-k", "not bvp and not sparse and not huge"),
            *(f"-p{plugin}" for plugin in plugins),
            *(str(one) for one in files if one.exists()),
        ],
        env=environment,
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        check=False,
    )

    report = json.loads((tmp_path / "report.json").read_text())
    assert sum(report["calls"].values()) > calls
    assert len(report["calls"]) > functions
    unexplained = {
        name: found["examples"]
        for name, found in report["differences"].items()
        if not any(re.fullmatch(pattern, name) for pattern, _ in REASONS)
    }
    assert not unexplained
