"""SciPy's own tests, with asyncgrad's functions beside SciPy's.

Values are the same, and gradients are those of differences, but for what is listed here with a reason.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import scipy

ROOT = Path(__file__).parents[2]
SCIPY = Path(scipy.__file__).parent

#: Files of SciPy's tests, by area; of each the same share of the tests is run.
FILES = {
    "optimize": ["test_least_squares", "test_nnls", "test_minpack"],
    "linalg": ["test_basic", "test_decomp_cholesky", "test_decomp_lu", "test_solvers"],
    "interpolate": ["test_polyint", "test_fitpack", "test_rbfinterp"],
    "integrate": ["test_quadrature"],
    "signal": ["test_savitzky_golay", "test_upfirdn", "test_waveforms"],
    "ndimage": ["test_measurements"],
    "stats": ["test_entropy"],
}
SHARE = 0.04

#: What differs: a pattern of functions and kinds of difference, and why.
REASONS = [
    (r"scipy\.integrate\.trapezoid \| raised", "a tensor has no mask"),
    (r"scipy\.interpolate\.CubicSpline\(\)\.__call__ \| wrong-gradient", "at a knot, the slope on one side"),
    (r"scipy\.linalg\.\w+ \| raised", "a tensor holds numbers, no texts; and what is empty is what memory held"),
    (r"scipy\.linalg\.solve_(sylvester|continuous_lyapunov) \| value", "SciPy mixes real and complex Schur forms"),
    (r"scipy\.optimize\.\w+ \| dtype", "searches are in double precision"),
    (r"scipy\.optimize\.\w+ \| missing-gradient", "there is no derivative by where a search begins"),
    (r"scipy\.optimize\.\w+ \| raised", "there is no derivative by bounds, and functions must keep the history"),
    (r"scipy\.optimize\.curve_fit \| wrong-gradient", "SciPy's result moves less exactly than that"),
    (r"scipy\.optimize\.\w+ \| value", "asyncgrad's derivatives are exact, SciPy's are differences"),
]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_what_differs_in_scipys_own_tests_has_a_reason(tmp_path: Path) -> None:
    files = [SCIPY / area / "tests" / f"{name}.py" for area, names in FILES.items() for name in names]
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "ASYNCGRAD_UPSTREAM_REPORT": str(tmp_path / "report.json"),
        "ASYNCGRAD_UPSTREAM_SHARE": str(SHARE),
        "ASYNCGRAD_UPSTREAM_MOST": "20",
        "ASYNCGRAD_UPSTREAM_LARGEST": "300",
        "ASYNCGRAD_UPSTREAM_SLOWEST": "0.05",
    }
    plugins = ["no:cacheprovider", "no:xdist", "no:asyncio", "no:randomly", "tests.support.upstream.plugin"]
    subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "--tb=no", "-W", "ignore"),
            *(f"-c{tmp_path / 'pytest.ini'}", f"--rootdir={SCIPY}"),
            *("-k", "not bvp and not sparse"),
            *(f"-p{plugin}" for plugin in plugins),
            *(str(one) for one in files if one.exists()),
        ],
        env=environment,
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        check=False,
    )

    report = json.loads((tmp_path / "report.json").read_text())
    assert sum(report["calls"].values()) > 150
    assert len(report["calls"]) > 20
    unexplained = {
        name: found["examples"]
        for name, found in report["differences"].items()
        if not any(re.fullmatch(pattern, name) for pattern, _ in REASONS)
    }
    assert not unexplained
