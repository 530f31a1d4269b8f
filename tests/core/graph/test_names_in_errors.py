"""Errors name the function that was called: of which package, and where it converts tensors by itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad.core.ops import RULES
from asyncgrad.errors import MissingDerivativeError, RequiresGradError


def matrix_that_requires_grad() -> Any:
    return ag.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)


def test_a_ufunc_of_scipy_is_named_as_scipys(monkeypatch: pytest.MonkeyPatch) -> None:
    special: Any = pytest.importorskip("scipy.special")
    # The first call on a tensor fills the table of rules.
    special.expit(matrix_that_requires_grad())
    monkeypatch.delitem(RULES, special.mathieu_a)
    monkeypatch.delitem(RULES, special.pro_cv)

    with pytest.raises(MissingDerivativeError, match=r"^scipy\.special\.mathieu_a has no derivative rule"):
        special.mathieu_a(matrix_that_requires_grad(), 1.0)
    with pytest.raises(MissingDerivativeError, match=r"^scipy\.special\.pro_cv has no derivative rule"):
        special.pro_cv(1.0, 1.0, matrix_that_requires_grad())


def test_a_ufunc_without_a_rule_is_named_as_numpys_where_it_is_numpys() -> None:
    # Through variables without types, since NumPy's know of no Tensor.
    function: Any = np.isnat

    with pytest.raises(MissingDerivativeError, match=r"^numpy\.isnat has no derivative rule"):
        function(matrix_that_requires_grad())


def test_a_ufunc_of_nobodys_is_named_as_it_names_itself() -> None:
    function: Any = np.frompyfunc(lambda value: value, 1, 1)

    with pytest.raises(MissingDerivativeError, match=r"^\S*lambda.* \(vectorized\) has no derivative rule"):
        function(matrix_that_requires_grad())


@pytest.mark.parametrize("name", ["ndimage.gaussian_filter", "linalg.expm", "linalg.svd", "special.logsumexp"])
def test_a_function_that_converts_its_arguments_is_named(name: str) -> None:
    scipy: Any = pytest.importorskip("scipy")
    module, function = name.split(".")
    pytest.importorskip(f"scipy.{module}")
    arguments = (matrix_that_requires_grad(), 1.0) if function == "gaussian_filter" else (matrix_that_requires_grad(),)

    with pytest.raises(RequiresGradError, match=rf"^scipy\.{name} has no derivative rule, and converting a tensor"):
        getattr(getattr(scipy, module), function)(*arguments)


def test_a_function_of_numpys_that_converts_its_arguments_is_named() -> None:
    function: Any = np.polynomial.polynomial.polyval

    with pytest.raises(RequiresGradError, match=r"^numpy\.polynomial\.polynomial\.polyval has no derivative rule"):
        function(1.0, matrix_that_requires_grad())


def test_a_sparse_matrix_on_the_left_is_named() -> None:
    sparse: Any = pytest.importorskip("scipy.sparse")

    with pytest.raises(RequiresGradError, match=r"^scipy\.sparse\..*multiply has no derivative rule"):
        sparse.csr_array(np.eye(2)).multiply(matrix_that_requires_grad())


def test_a_conversion_by_the_users_own_code_names_no_function() -> None:
    with pytest.raises(RequiresGradError, match=r"^converting a tensor of shape \(2, 2\) that requires grad"):
        np.asarray(matrix_that_requires_grad())


def test_a_function_that_stands_in_a_private_module_is_named_as_it_is_called():
    x = ag.tensor(1.0, requires_grad=True)
    with pytest.raises(RequiresGradError, match=r"^numpy\.full has no derivative rule"):
        np.full(2, x)
