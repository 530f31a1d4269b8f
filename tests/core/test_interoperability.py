"""Tensors in the functions of other libraries, and those libraries' arrays in asyncgrad's."""

from __future__ import annotations

import io
import operator
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.errors import RequiresGradError
from asyncgrad.sync import func
from tests.support.processes import run_python

VALUES = np.arange(6.0).reshape(2, 3)
#: What the error of a conversion that would lose the history says to write.
ADVICE = r"write t\.(numpy|item)\(\) or t\.detach\(\)"


def matrix(requires_grad: bool = False) -> Any:
    return ag.tensor(VALUES, requires_grad=requires_grad)


# --- einops --------------------------------------------------------------------------------------


def registered_einops() -> Any:
    einops = pytest.importorskip("einops")
    # Other tests have used tensors before it was imported.
    ag.extend.register_einops()
    return einops


#: Each as a function of einops and of an array.
EINOPS_CALLS = {
    "rearrange": lambda einops, x: einops.rearrange(x, "b c -> c b"),
    "rearrange_splits": lambda einops, x: einops.rearrange(x, "b (c d) -> (b d) c", d=1),
    "rearrange_list": lambda einops, x: einops.rearrange([x, x * 2], "k b c -> b (k c)"),
    "reduce_mean": lambda einops, x: einops.reduce(x, "b c -> b", "mean"),
    "reduce_sum": lambda einops, x: einops.reduce(x, "b c -> 1 c", "sum"),
    "reduce_max": lambda einops, x: einops.reduce(x, "b c -> c", "max"),
    "reduce_prod": lambda einops, x: einops.reduce(x + 1, "b c -> ", "prod"),
    "repeat": lambda einops, x: einops.repeat(x, "b c -> b (c k) n", k=2, n=3),
    "einsum": lambda einops, x: einops.einsum(x, x * 3, "b c, d c -> b d"),
    "pack": lambda einops, x: einops.pack([x, x[0]], "* c")[0],
    "unpack": lambda einops, x: einops.unpack(x, [[1], []], "* c")[1],
}


@pytest.mark.parametrize("name", EINOPS_CALLS)
def test_einops_on_tensors_gives_what_it_gives_on_arrays(name: str) -> None:
    einops = registered_einops()

    result = EINOPS_CALLS[name](einops, matrix())

    assert isinstance(result, ag.Tensor)
    assert np.array_equal(result.numpy(), EINOPS_CALLS[name](einops, VALUES))


@pytest.mark.parametrize("name", EINOPS_CALLS)
def test_the_gradients_of_einops_functions_are_right(name: str) -> None:
    einops = registered_einops()

    assert sync.gradcheck(lambda x: EINOPS_CALLS[name](einops, x), (matrix(requires_grad=True),))


def test_einops_asnumpy_gives_the_values_of_a_tensor_that_requires_grad() -> None:
    einops = registered_einops()

    assert np.array_equal(einops.asnumpy(matrix(requires_grad=True)), VALUES)


@pytest.mark.parametrize("imports", ["asyncgrad as ag, einops", "einops, asyncgrad as ag"])
def test_einops_knows_tensors_whichever_is_imported_first(imports: str) -> None:
    pytest.importorskip("einops")
    program = f"import {imports}; t = ag.tensor([[1.0, 2.0]]); print(einops.rearrange(t, 'b c -> c b').shape)"

    assert run_python(program) == "(2, 1)"


def test_einops_that_is_imported_after_the_first_tensor_knows_tensors_once_it_is_told() -> None:
    pytest.importorskip("einops")
    program = (
        "import gc, asyncgrad as ag; t = ag.tensor([[1.0, 2.0]]); import einops\n"
        "for _ in range(2): ag.extend.register_einops()\n"
        "gc.collect(); print(einops.rearrange(t, 'b c -> c b').shape)"
    )

    assert run_python(program) == "(2, 1)"


def test_einops_that_is_not_there_is_said_to_be_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "einops._backends", None)

    with pytest.raises(ImportError, match="pip install einops"):
        ag.extend.register_einops()


def test_asyncgrad_does_not_import_einops() -> None:
    program = "import sys, asyncgrad as ag; ag.tensor([1.0]); print('einops' in sys.modules)"

    assert run_python(program) == "False"


# --- opt_einsum ----------------------------------------------------------------------------------


def test_opt_einsum_contracts_tensors_with_gradients() -> None:
    opt_einsum = pytest.importorskip("opt_einsum")

    def contracted(x: Any) -> Any:
        return opt_einsum.contract("bc,dc,dk->bk", x, x, x)

    assert np.allclose(contracted(matrix()).numpy(), VALUES @ VALUES.T @ VALUES)
    assert sync.gradcheck(contracted, (matrix(requires_grad=True),))


def test_opt_einsum_finds_paths_and_makes_expressions_for_tensors() -> None:
    opt_einsum = pytest.importorskip("opt_einsum")
    t = matrix(requires_grad=True)

    path = opt_einsum.contract_path("bc,dc,dk->bk", t, t, t)[0]
    product = opt_einsum.contract_expression("bc,dc->bd", t.shape, t.shape)(t, t)

    assert path == opt_einsum.contract_path("bc,dc,dk->bk", VALUES, VALUES, VALUES)[0]
    assert product.requires_grad
    assert np.array_equal(product.detach().numpy(), VALUES @ VALUES.T)


# --- arrays of other libraries -------------------------------------------------------------------

#: How a tensor becomes the array of a library: its name, and a function of the library.
CONVERSIONS = {
    "torch.as_tensor": ("torch", lambda torch, t: torch.as_tensor(t)),
    "torch.tensor": ("torch", lambda torch, t: torch.tensor(t)),
    "torch.from_dlpack": ("torch", lambda torch, t: torch.from_dlpack(t)),
    "jax.numpy.from_dlpack": ("jax.numpy", lambda jnp, t: jnp.from_dlpack(t)),
    "jax.numpy.asarray": ("jax.numpy", lambda jnp, t: jnp.asarray(t)),
    "jax.numpy.array": ("jax.numpy", lambda jnp, t: jnp.array(t)),
    "numpy.from_dlpack": ("numpy", lambda np, t: np.from_dlpack(t)),
    "numpy.asarray": ("numpy", lambda np, t: np.asarray(t)),
    "pandas.DataFrame": ("pandas", lambda pd, t: pd.DataFrame(t)),
    "pandas.Series": ("pandas", lambda pd, t: pd.DataFrame({"a": pd.Series(t[0]), "b": pd.Series(t[1])}).T),
    "xarray.values": ("xarray", lambda xr, t: xr.DataArray(t).values),
}


@pytest.mark.parametrize("name", CONVERSIONS)
def test_a_tensor_without_grad_becomes_an_array_of_another_library(name: str) -> None:
    module, convert = CONVERSIONS[name]
    library = pytest.importorskip(module)

    assert np.array_equal(np.asarray(convert(library, matrix())), VALUES)


@pytest.mark.parametrize("name", CONVERSIONS)
def test_converting_a_tensor_that_requires_grad_names_the_line_to_write(name: str) -> None:
    module, convert = CONVERSIONS[name]
    library = pytest.importorskip(module)

    with pytest.raises(RequiresGradError, match=ADVICE):
        convert(library, matrix(requires_grad=True))


@pytest.mark.parametrize("name", ["as_tensor", "from_dlpack"])
def test_a_tensor_of_torch_shares_the_memory_of_ours(name: str) -> None:
    torch = pytest.importorskip("torch")
    t = matrix()

    getattr(torch, name)(t)[0, 0] = 9.0

    assert t[0, 0].item() == 9.0


@pytest.mark.parametrize("library", ["torch", "jax.numpy"])
def test_tensor_copies_and_asarray_shares_where_the_library_allows(library: str) -> None:
    module = pytest.importorskip(library)
    source = module.arange(3)

    copied, shared = ag.tensor(source), ag.asarray(source)

    assert copied.tolist() == shared.tolist() == [0, 1, 2]
    assert not np.shares_memory(copied.numpy(), np.asarray(source))
    assert np.shares_memory(shared.numpy(), np.asarray(source))


def test_a_torch_tensor_that_requires_grad_is_refused() -> None:
    torch = pytest.importorskip("torch")

    with pytest.raises(RuntimeError, match="detach"):
        ag.tensor(torch.ones(2, requires_grad=True))


# --- pandas and xarray ---------------------------------------------------------------------------


def test_a_conversion_in_a_library_without_histories_says_so() -> None:
    pd = pytest.importorskip("pandas")
    with pytest.raises(RequiresGradError, match="NumPy's functions to compute with it, since pandas keeps no history"):
        pd.Series(ag.tensor([1.0, 2.0], requires_grad=True))


def test_a_column_becomes_a_tensor_and_multiplies_one() -> None:
    pd = pytest.importorskip("pandas")
    column = pd.DataFrame({"a": [1.0, 2.0, 3.0]})["a"]
    t = ag.tensor([1.0, 2.0, 3.0], requires_grad=True)

    sync.backward(np.sum(t * column))

    assert ag.tensor(column).tolist() == [1.0, 2.0, 3.0]
    assert t.grad.tolist() == [1.0, 2.0, 3.0]


def test_a_column_times_a_tensor_without_grad_is_a_column() -> None:
    pd = pytest.importorskip("pandas")
    column = pd.Series([1.0, 2.0])

    assert (column * ag.tensor([3.0, 4.0])).tolist() == [3.0, 8.0]


def test_an_operator_beside_an_xarray_object_keeps_its_labels_and_the_history() -> None:
    xr = pytest.importorskip("xarray")
    data = xr.DataArray(np.array([1.0, 2.0, 4.0]), dims="a")
    t = ag.tensor(2.0, requires_grad=True)
    result = t * (t * data) + t
    assert isinstance(result, xr.DataArray)
    assert result.dims == ("a",)
    sync.backward(result.data.sum())
    assert t.grad is not None
    assert t.grad.item() == 2 * 2.0 * 7.0 + 3


@pytest.mark.parametrize("operate", [operator.pow, operator.mod, operator.floordiv, operator.truediv])
def test_any_operator_beside_an_xarray_object_gives_one_of_xarray(operate: Callable[[Any, Any], Any]) -> None:
    xr = pytest.importorskip("xarray")
    data, t = xr.DataArray(np.array([1.0, 2.0, 4.0]), dims="a"), ag.tensor(3.0, requires_grad=True)

    for result, expected in ((operate(t, data), operate(3.0, data)), (operate(data, t), operate(data, 3.0))):
        assert isinstance(result, xr.DataArray)
        np.testing.assert_array_equal(ag.asarray(result.data).detach().numpy(), expected.data)


def test_xarray_computes_with_tensors_and_keeps_their_history() -> None:
    xr = pytest.importorskip("xarray")
    t = matrix(requires_grad=True)

    result = (np.exp(xr.DataArray(t, dims=("a", "b"))) * 2).isel(a=1).sum("b").data
    sync.backward(result)

    assert isinstance(result, ag.Tensor)
    assert np.allclose(t.grad.numpy(), [[0, 0, 0], *(2 * np.exp(VALUES[1:]))])


# --- pictures and files --------------------------------------------------------------------------

PLOTS = {
    "plot": lambda axes, t: axes.plot(t[0], t[1]),
    "scatter": lambda axes, t: axes.scatter(t[0], t[1]),
    "imshow": lambda axes, t: axes.imshow(t),
    "hist": lambda axes, t: axes.hist(t[0]),
    "fill_between": lambda axes, t: axes.fill_between(t[0], t[1]),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PLOTS)
def test_matplotlib_draws_tensors_without_grad_and_refuses_others(name: str) -> None:
    figures = pytest.importorskip("matplotlib.figure")

    assert PLOTS[name](figures.Figure().subplots(), matrix()) is not None
    with pytest.raises(RequiresGradError, match=ADVICE):
        PLOTS[name](figures.Figure().subplots(), matrix(requires_grad=True))


@pytest.mark.parametrize("save", [np.save, np.savez, np.savez_compressed])
def test_numpy_saves_tensors_without_grad_and_refuses_others(save: Any) -> None:
    file = io.BytesIO()

    save(file, matrix())
    file.seek(0)
    loaded = np.load(file)

    assert np.array_equal(loaded if save is np.save else loaded["arr_0"], VALUES)
    with pytest.raises(RequiresGradError, match=ADVICE):
        save(io.BytesIO(), matrix(requires_grad=True))


def test_numpy_writes_tensors_without_grad_as_text() -> None:
    file = io.StringIO()

    np.savetxt(file, matrix())
    file.seek(0)

    assert np.array_equal(np.loadtxt(file), VALUES)
    with pytest.raises(RequiresGradError, match=ADVICE):
        np.savetxt(io.StringIO(), matrix(requires_grad=True))


# --- scipy.optimize ------------------------------------------------------------------------------

START = np.array([1.3, 0.7, 0.8, 1.9])


def rosenbrock(x: Any) -> Any:
    return np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def residuals(x: Any) -> Any:
    return np.stack([10 * (x[1] - x[0] ** 2), 1 - x[0]])


@pytest.mark.parametrize("method", ["CG", "BFGS", "L-BFGS-B", "TNC", "SLSQP"])
def test_scipy_minimizes_with_value_and_grad(method: str) -> None:
    optimize = pytest.importorskip("scipy.optimize")

    result = optimize.minimize(func.value_and_grad(rosenbrock), START, jac=True, method=method)

    assert result.success
    assert np.allclose(result.x, 1, atol=1e-2)


@pytest.mark.parametrize("method", ["Newton-CG", "trust-ncg", "trust-exact"])
def test_scipy_minimizes_with_a_hessian(method: str) -> None:
    optimize = pytest.importorskip("scipy.optimize")

    result = optimize.minimize(
        rosenbrock, START, jac=func.grad(rosenbrock), hess=func.hessian(rosenbrock), method=method
    )

    assert result.success
    assert np.allclose(result.x, 1, atol=1e-3)


def test_scipy_minimizes_with_products_of_the_hessian() -> None:
    optimize = pytest.importorskip("scipy.optimize")

    def product(x: Any, direction: Any) -> Any:
        return func.hvp(rosenbrock, (x,), (direction,))

    result = optimize.minimize(rosenbrock, START, jac=func.grad(rosenbrock), hessp=product, method="Newton-CG")

    assert result.success
    assert np.allclose(result.x, 1, atol=1e-3)


@pytest.mark.parametrize("solve", ["least_squares", "root"])
def test_scipy_solves_equations_with_a_jacobian(solve: str) -> None:
    optimize = pytest.importorskip("scipy.optimize")

    result = getattr(optimize, solve)(residuals, [2.0, 2.0], jac=func.jacrev(residuals))

    assert result.success
    assert np.allclose(result.x, 1)
