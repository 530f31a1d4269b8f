"""Warnings and errors speak of the line that called asyncgrad."""

from __future__ import annotations

import asyncio
import inspect
import operator
import traceback
import warnings
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.core.settings.callers import is_own_file
from asyncgrad.errors import ReleasedGraphError
from tests.support.loops import on_each_loop


def line() -> int:
    """Return the number of the line that calls this."""
    frame = inspect.currentframe()
    assert frame is not None
    assert frame.f_back is not None
    return frame.f_back.f_lineno


X = ag.tensor([-1.0, 0.0, 1e308], requires_grad=True)

CALLS = {
    "ufunc": lambda: np.sqrt(X),
    "ufunc of two": lambda: np.multiply(X, 1e308),
    "operator": lambda: X * 1e308,
    "reflected operator": lambda: 1.0 / X,
    "method": lambda: X.__rtruediv__(1.0),
    "function in several steps": lambda: np.linalg.norm(X, ord=-1),
    "without a history": lambda: np.log(X.detach()),
    "in place": lambda: X.detach().copy().__itruediv__(0.0),
    "nn": lambda: ag.nn.softplus(np.log(X)),
    "function whose warning NumPy shows in a file of its own": lambda: np.mean(X[:0]),
    "method whose warning NumPy shows in a file of its own": lambda: X[:0].std(),
    "accumulation": lambda: np.cumprod(X[2:] * np.ones(2)),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_warning_of_numpy_is_shown_at_the_line_of_the_caller(name: str) -> None:
    call: Any = CALLS[name]
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        call()

    assert told
    for each in told:
        assert (each.filename, each.lineno) == (__file__, call.__code__.co_firstlineno)
        assert issubclass(each.category, RuntimeWarning)


def test_a_warning_is_shown_once_for_each_line() -> None:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("default")
        for _ in range(3):
            np.sqrt(X)
            first = line() - 1
        np.sqrt(X)
        second = line() - 1

    assert [each.lineno for each in told] == [first, second]


def test_a_warning_that_numpy_shows_in_a_file_of_its_own_is_shown_once_for_each_line() -> None:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("default")
        for _ in range(3):
            np.median(X[:0])
            first = line() - 1
        np.median(X[:0])
        second = line() - 1

    said = [each.lineno for each in told if str(each.message).startswith("Mean of empty slice")]
    assert said == [first, second]


def test_filters_are_asked_about_the_module_of_the_caller() -> None:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        warnings.filterwarnings("ignore", module=__name__.replace(".", r"\."))
        np.sqrt(X)
    assert told == []

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.filterwarnings("error", module=__name__.replace(".", r"\."))
        with pytest.raises(RuntimeWarning, match="invalid value encountered in sqrt"):
            np.sqrt(X)


@on_each_loop
def test_a_warning_of_a_backward_is_shown_where_that_was_called(run: Any) -> None:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        loss = np.sqrt(X[1]) * 1.0
        sync.backward(loss, retain_graph=True)
        blocking = line() - 1

        async def main() -> int:
            await loss.backward()
            return line() - 1

        awaited = run(main())

    assert [(each.filename, each.lineno) for each in told] == [(__file__, blocking), (__file__, awaited)]


def test_other_warnings_are_shown_as_they_were() -> None:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        np.sqrt(np.array(-1.0))
        warnings.warn("mine", UserWarning, stacklevel=1)
        np.median(np.array([]))

    assert [(each.filename, str(each.message)) for each in told[:2]] == [
        (__file__, "invalid value encountered in sqrt"),
        (__file__, "mine"),
    ]
    assert __file__ not in {each.filename for each in told[2:]}


def second_backward() -> None:
    loss = (X * X).sum()
    sync.backward(loss, inputs=[X])
    sync.backward(loss, inputs=[X])


async def second_awaited_backward() -> None:
    loss = (X * X).sum()
    await loss.backward(inputs=[X])
    await loss.backward(inputs=[X])


def second_grad() -> None:
    loss = (X * X).sum()
    sync.grad(loss, X)
    sync.grad(loss, X)


@pytest.mark.parametrize(
    "call",
    [second_backward, second_grad, lambda: asyncio.run(second_awaited_backward())],
    ids=["sync", "grad", "await"],
)
def test_a_second_backward_is_told_in_under_twenty_lines(call: Any) -> None:
    with np.errstate(over="ignore"), pytest.raises(ReleasedGraphError) as caught:
        call()
    told = "".join(traceback.format_exception(caught.value.with_traceback(caught.tb.tb_next))).splitlines()  # type: ignore[union-attr]

    assert len(told) < 20, "\n".join(told)
    assert "retain_graph=True" in told[-2]


def test_the_traceback_of_an_error_keeps_the_frames_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    def hook(grad: Any) -> Any:
        return np.asarray(X)

    x = ag.tensor([1.0, 2.0, 3.0], requires_grad=True)
    x.register_hook(hook)
    frames = {}
    for setting in ("", "full"):
        monkeypatch.setenv("ASYNCGRAD_TRACEBACKS", setting)
        with pytest.raises(ag.errors.RequiresGradError) as caught:
            sync.backward((x * 1.0).sum())
        frames[setting] = [entry.name for entry in traceback.extract_tb(caught.tb)]

    assert "hook" in frames[""]
    assert "execute" not in frames[""]
    assert "hook" in frames["full"]
    assert "execute" in frames["full"]


class Failing(ag.Function):
    """A function whose rule suspends, and fails."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 2.0

    @staticmethod
    async def backward(ctx: Any, grad: Any) -> Any:
        await asyncio.sleep(0)
        raise KeyError("rule")


async def awaited_failure() -> None:
    x = ag.tensor(1.0, requires_grad=True)
    await Failing.apply(x).backward()


def blocking_failure() -> None:
    x = ag.tensor(1.0, requires_grad=True)
    sync.backward(Failing.apply(x))


def unfit_product() -> None:
    X @ np.ones((X.shape[-1] + 1, 2))


def unfit_module() -> None:
    ag.nn.Linear(3, 4)(ag.tensor(np.ones((2, 2))))


@pytest.mark.parametrize(
    ("call", "most"),
    [(lambda: asyncio.run(awaited_failure()), 0), (blocking_failure, 1), (unfit_product, 3), (unfit_module, 0)],
    ids=["await", "sync", "matmul", "module"],
)
def test_the_traceback_of_a_users_error_has_few_frames_of_asyncgrad(call: Any, most: int) -> None:
    with pytest.raises(Exception, match=r"rule|arrays of shapes|takes x of shape") as caught:
        call()
    own = [entry for entry in traceback.extract_tb(caught.tb) if is_own_file(entry.filename)]

    assert len(own) <= most, own


TWO, THREE = ag.tensor(np.ones(2), requires_grad=True), np.ones(3)
UNFIT = {
    "add": lambda: np.add(TWO, THREE),
    "operator": lambda: TWO + THREE,
    "reflected operator": lambda: THREE - TWO,
    "matmul": lambda: TWO @ THREE,
    "reflected matmul": lambda: THREE @ TWO,
    "dot": lambda: np.dot(TWO, THREE),
    "tensordot": lambda: np.tensordot(TWO, THREE, 1),
    "stack": lambda: np.stack([TWO, THREE]),
    "where": lambda: np.where(THREE > 0.0, TWO, 0.0),
    "einsum": lambda: np.einsum("i,i->", TWO, THREE),
    "interp": lambda: np.interp([0.0], TWO, THREE),
    "namespace": lambda: ag.numpy.multiply(TWO, THREE),
    "solve": lambda: np.linalg.solve(TWO, THREE),
    "lstsq": lambda: np.linalg.lstsq(TWO[:, None], THREE[:, None]),
    "equal": lambda: TWO == THREE,
    "not_equal": lambda: TWO != THREE,
    "divmod": lambda: divmod(TWO, THREE),
    "reflected divmod": lambda: divmod(THREE.tolist(), TWO),
    "cross": lambda: np.cross(TWO[:, None] * THREE, np.outer(THREE, THREE)),
    "bincount": lambda: np.bincount([0, 1, 1], weights=TWO),
    "searchsorted": lambda: np.searchsorted(TWO[:, None], THREE),
    "by keyword": lambda: np.dot(TWO, b=THREE, out=None),
    "mse_loss": lambda: ag.nn.mse_loss(TWO, THREE),
    "in place": lambda: operator.iadd(TWO * 1.0, THREE),
    "in place, not recorded": lambda: operator.imul(TWO.detach(), THREE),
    "index": lambda: (TWO * 1.0).__setitem__(slice(None), THREE),
    "index, not recorded": lambda: TWO.detach().__setitem__(slice(None), THREE),
}
NAMES = {
    "operator": "add",
    "reflected operator": "subtract",
    "reflected matmul": "matmul",
    "reflected divmod": "divmod",
    "by keyword": "dot",
    "namespace": "multiply",
    "in place": "iadd",
    "in place, not recorded": "imul",
    "index": "t[index] = value",
    "index, not recorded": "t[index] = value",
}


@pytest.mark.parametrize("name", UNFIT)
def test_an_error_of_shapes_names_the_function_and_all_shapes(name: str) -> None:
    with pytest.raises(ValueError, match=r".+") as caught:
        UNFIT[name]()

    said = str(caught.value)
    assert all(part in said for part in (NAMES.get(name, name), "(2,", "(3,")), said
    assert said.count(" of arrays of shapes ") <= 1, said
