"""Errors of asyncgrad.scipy name the function that was called, and its arguments."""

from __future__ import annotations

import importlib
import inspect
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

scipy = pytest.importorskip("asyncgrad.scipy")
MODULES = ("fft", "integrate", "interpolate", "linalg", "ndimage", "optimize", "signal", "sparse", "spatial")
CALLS: list[tuple[Callable[[], Any], str]] = [
    (lambda: scipy.linalg.solve("abc", np.eye(2)), r"scipy.linalg.solve\(a: str 'abc', b: ndarray of shape \(2, 2\)"),
    (lambda: scipy.linalg.solve(np.eye(2)), r"scipy.linalg.solve\(\) missing .* 'b'"),
    (lambda: scipy.linalg.solve(np.eye(2), 1.0, x=3), r"scipy.linalg.solve\(\) got .* 'x'"),
    (lambda: scipy.special.gammaln("abc"), r"scipy.special.gammaln\((x: )?str 'abc'\): ufunc 'gammaln' not supported"),
    (lambda: scipy.special.xlogy(np.ones(3), np.ones(2)), r"scipy.special.xlogy\(.*\(3,\).*\(2,\).*broadcast"),
    (lambda: scipy.special.betainc(np.ones(3), 2.0, np.ones(2)), r"scipy.special.betainc\(.*float 2.0.*broadcast"),
    (lambda: scipy.stats.norm.pdf("abc"), r"scipy.stats.norm.pdf\(x: str 'abc'\): .* numbers"),
    (lambda: scipy.stats.norm(0.0, 1.0).pdf("abc"), r"scipy.stats.norm.pdf\(x: str 'abc', float 0.0, float 1.0\)"),
    (lambda: scipy.stats.gamma.sf(np.ones(3), np.ones(2)), r"scipy.stats.gamma.sf\(x: .*\(3,\).*\(2,\).*broadcast"),
    (lambda: scipy.stats.gamma.median("q"), r"scipy.stats.gamma.median\(str 'q'\)"),
    (lambda: scipy.stats.dirichlet.logpdf([0.5, 0.5], "abc"), r"scipy.stats.dirichlet.logpdf\(x: .*'abc'"),
    (lambda: scipy.stats.gaussian_kde("abc"), r"scipy.stats.gaussian_kde\(dataset: str 'abc'\)"),
    (
        lambda: scipy.stats.sem([1.5], axis=1),
        r"scipy.stats.sem\(a: list \[1.5\], axis: int 1\): axis 1 is out of bounds",
    ),
    (lambda: scipy.signal.savgol_filter(np.ones(9), "abc", 1), r"scipy.signal.savgol_filter\(.*window_length: str"),
    (lambda: scipy.interpolate.CubicSpline("abc", np.ones(3)), r"scipy.interpolate.CubicSpline\(x: str 'abc'"),
]


@pytest.mark.parametrize(("call", "expected"), CALLS)
def test_an_error_names_the_function_that_was_called_and_its_arguments(call: Callable[[], Any], expected: str) -> None:
    with pytest.raises((TypeError, ValueError), match=expected):
        call()


@pytest.mark.parametrize("module", MODULES)
def test_a_text_in_place_of_numbers_is_refused_by_the_name_of_the_function(module: str) -> None:
    found = importlib.import_module(f"asyncgrad.scipy.{module}")
    unnamed = []
    for name in found.__all__:
        function = getattr(found, name)
        if not inspect.isfunction(function):
            continue
        needed = [one for one in inspect.signature(function).parameters.values() if one.default is one.empty]
        try:
            function(*["abc"] * len([one for one in needed if one.kind is not one.VAR_POSITIONAL]))
        except (TypeError, ValueError, LookupError, AttributeError) as error:
            if f"scipy.{module}.{name}" not in str(error):
                unnamed.append(f"{name}: {error}")

    assert unnamed == []


def test_an_error_of_a_function_that_was_passed_stays_as_it_is() -> None:
    def loss(x: Any) -> Any:
        raise ValueError("mine")

    with pytest.raises(ValueError, match=r"^mine$"):
        scipy.optimize.minimize(loss, [1.0])


def test_functions_are_pickled_by_their_public_names() -> None:
    assert pickle.loads(pickle.dumps(scipy.linalg.solve)) is scipy.linalg.solve
