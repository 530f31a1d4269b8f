"""SciPy is optional, and nothing is imported of it before it is used."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

import numpy as np
import pytest
import scipy.cluster.vq
import scipy.fft
import scipy.linalg
import scipy.signal
import scipy.stats
from scipy import special

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.core.ops import RULES
from asyncgrad.errors import MissingDerivativeError, RequiresGradError
from asyncgrad.scipy.unsupported import LEFT_OUT
from tests.support.processes import run_python


def test_asyncgrad_imports_nothing_of_scipy_before_it_is_used() -> None:
    code = """
import sys, asyncgrad as ag, numpy as np
ag.numpy.exp(ag.tensor([1.0]))
print([name for name in sys.modules if name.split(".")[0] == "scipy" or name.startswith("asyncgrad.scipy")])
"""
    assert run_python(code) == "[]"


@pytest.mark.slow
def test_the_rules_are_there_at_the_first_call_of_a_ufunc_of_scipy() -> None:
    code = """
import asyncgrad as ag
import scipy.cluster.vq
import scipy.fft
import scipy.linalg
import scipy.signal
import scipy.stats
from scipy import special
x = ag.tensor(0.0, requires_grad=True)
ag.sync.backward(special.expit(x))
print(x.grad.item())
"""
    assert run_python(code) == "0.25"


def test_without_scipy_the_error_names_the_extra() -> None:
    code = """
import sys
sys.modules["scipy"] = None
try:
    import asyncgrad.scipy.special
except ImportError as error:
    print(error)
"""
    assert run_python(code).startswith(
        "asyncgrad.scipy needs SciPy, which is not installed: pip install 'asyncgrad[scipy]', or"
    )


def test_a_ufunc_without_a_rule_is_named_with_its_module(monkeypatch: pytest.MonkeyPatch) -> None:
    special.mathieu_a(1, ag.tensor(1.0))
    monkeypatch.delitem(RULES, special.mathieu_a)

    with pytest.raises(MissingDerivativeError, match=r"scipy\.special\.mathieu_a has no derivative rule"):
        special.mathieu_a(1, ag.tensor(1.0))


def test_a_ufunc_without_a_rule_is_told_which_similar_ones_have_one(monkeypatch: pytest.MonkeyPatch) -> None:
    special.modfresnelm(ag.tensor(1.0))
    monkeypatch.delitem(RULES, special.modfresnelm)

    with pytest.raises(
        MissingDerivativeError, match=r"special\.modfresnelm .*; scipy\.special\.modfresnelp, .*fresnel have"
    ):
        special.modfresnelm(ag.tensor(1.0))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            scipy.signal.fftconvolve,
            r"scipy\.signal\.fftconvolve has no .*asyncgrad\.scipy\.signal\.fftconvolve to keep",
        ),
        (scipy.stats.norm.logpdf, r"scipy\.stats\.norm\.logpdf has no .*asyncgrad\.scipy\.stats\.norm to keep"),
        (
            scipy.stats.gaussian_kde,
            r"scipy\.stats\.gaussian_kde has no .*asyncgrad\.scipy\.stats\.gaussian_kde to keep",
        ),
        (scipy.fft.dct, r"scipy\.fft\.dct has no .*asyncgrad\.scipy\.fft\.dct to keep"),
        (scipy.linalg.block_diag, r"scipy\.linalg\.block_diag has no .*asyncgrad\.scipy\.linalg\.block_diag to keep"),
        (
            scipy.stats.boxcox_normmax,
            r"scipy\.stats\.boxcox_normmax has no .*asyncgrad\.scipy\.stats has, such as boxcox\w*, to",
        ),
        (scipy.cluster.vq.whiten, r"the functions of asyncgrad\.scipy to keep it"),
    ],
)
def test_a_function_that_converts_tensors_is_told_what_to_write_instead(call: Any, message: str) -> None:
    x = ag.tensor([1.0, 2.0], requires_grad=True)

    with pytest.raises(RequiresGradError, match=message):
        call(*[x] * (1 if call is not scipy.signal.fftconvolve else 2))


@pytest.mark.parametrize("module", sorted(set(LEFT_OUT) - {"integrate", "optimize", "stats"}))
def test_every_name_of_scipy_is_there_or_says_what_to_write_instead(module: str) -> None:
    ours, theirs = (importlib.import_module(f"{package}.{module}") for package in ("asyncgrad.scipy", "scipy"))
    names = [name for name in theirs.__all__ if not inspect.ismodule(getattr(theirs, name, None))]

    assert [name for name in names if name not in ours.__all__ and name not in LEFT_OUT[module]] == []
    assert set(ours.__all__).isdisjoint(LEFT_OUT[module])
    for name in LEFT_OUT[module]:
        with pytest.raises(AttributeError, match=rf"asyncgrad\.scipy\.{module} has no {name}: [a-z]"):
            getattr(ours, name)


@pytest.mark.parametrize("module", ["interpolate", "stats"])
def test_every_name_of_scipy_that_is_not_there_is_told_so_with_what_to_write_instead(module: str) -> None:
    ours, theirs = (importlib.import_module(f"{package}.{module}") for package in ("asyncgrad.scipy", "scipy"))
    missing = [name for name in theirs.__all__ if callable(getattr(theirs, name, None)) and name not in ours.__all__]

    assert missing
    for name in missing:
        with pytest.raises(AttributeError, match=rf"asyncgrad\.scipy\.{module} has no {name}: [a-z]"):
            getattr(ours, name)


@pytest.mark.parametrize(
    ("module", "name", "message"),
    [
        ("stats", "anderson", r"call scipy\.stats\.anderson on t\.detach\(\)\.numpy\(\): it has no derivative here"),
        ("stats", "levy_stable", r"call scipy\.stats\.levy_stable on arrays: its density is a series"),
        ("stats", "FitError", r"import it from scipy\.stats"),
        ("interpolate", "KroghInterpolator", r"write np\.polyval\(np\.linalg\.solve\(np\.vander\(xi\), yi\), x\)"),
        ("stats", "nrom", r"has no attribute 'nrom'\. Did you mean norm\?"),
        ("optimize", "minimise", r"has no attribute 'minimise'\. Did you mean minimize\?"),
        ("stats", "nothing_like_it", r"module 'asyncgrad\.scipy\.stats' has no attribute 'nothing_like_it'$"),
    ],
)
def test_a_name_that_is_not_there_is_told_what_to_write(module: str, name: str, message: str) -> None:
    with pytest.raises(AttributeError, match=message):
        getattr(importlib.import_module(f"asyncgrad.scipy.{module}"), name)


def test_functions_of_numpy_and_scipy_make_one_graph() -> None:
    x = ag.tensor([0.5, -1.0], requires_grad=True)

    sync.backward(np.sum(special.expit(x) * np.exp(x)))

    out = special.expit(x.numpy())
    np.testing.assert_allclose(x.grad.numpy(), np.exp(x.numpy()) * out * (2 - out), rtol=1e-15)
