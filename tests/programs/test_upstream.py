"""NumPy's and SciPy's own tests, with tensors given to each function beside arrays.

Values are the same, and gradients are those of differences, but for what is listed here with a reason.
"""

from __future__ import annotations

import json
import os
import pickle
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy

from tests.support.upstream.wrappers import Notes, compared_function
from tools import upstream_differences
from tools.upstream_differences import DIFFERENCES

ROOT = Path(__file__).parents[2]

#: Files of tests, by library and area; of each the same share of the tests is run.
FILES = {
    np: {
        "_core": ["test_umath", "test_ufunc", "test_numeric", "test_einsum", "test_shape_base"],
        "lib": ["test_function_base", "test_nanfunctions", "test_arraypad", "test_shape_base", "test_twodim_base"],
        "linalg": ["test_linalg"],
        "fft": ["test_pocketfft", "test_helper"],
        "polynomial": ["test_polynomial", "test_chebyshev", "test_classes"],
    },
    scipy: {
        "optimize": ["test_least_squares", "test_nnls", "test_minpack"],
        "linalg": ["test_basic", "test_decomp", "test_decomp_cholesky", "test_decomp_lu", "test_solvers"],
        "interpolate": ["test_polyint", "test_fitpack", "test_rbfinterp", "test_bsplines"],
        "integrate": ["test_quadrature"],
        "spatial": ["test_distance", "test_slerp"],
        "signal": ["test_savitzky_golay", "test_upfirdn", "test_waveforms"],
        "ndimage": ["test_measurements", "test_filters", "test_morphology"],
        "special": [
            *("test_basic", "test_boxcox", "test_gamma", "test_loggamma", "test_zeta"),
            *("test_gammainc", "test_lambertw", "test_legendre", "test_logsumexp", "test_orthogonal", "test_sph_harm"),
            *("test_hyp2f1", "test_logit", "test_ndtr", "test_spherical_bessel", "test_trig", "test_wright_bessel"),
        ],
        "stats": ["test_entropy"],
    },
}
#: Of the tests, and for each function at most so many calls.
SHARE, MOST = 0.03, 20


def test_the_page_lists_what_differs() -> None:
    written = upstream_differences.PAGE.read_text()

    assert written == upstream_differences.page(written), "write python -m tools.upstream_differences"


def test_a_worker_process_is_sent_the_librarys_own_function() -> None:
    made = compared_function(Notes(), "numpy.add", np.add, np.add)

    assert pickle.loads(pickle.dumps(made)) is np.add


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
            # What their assertions say is not read, and pytest need not rewrite them.
            *(sys.executable, "-m", "pytest", "-q", "--tb=no", "--assert=plain", "-W", "ignore"),
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
        if not any(
            re.fullmatch(one.functions, name.partition(" | ")[0]) and re.fullmatch(one.kinds, name.partition(" | ")[2])
            for one in DIFFERENCES
        )
    }
    assert not unexplained
