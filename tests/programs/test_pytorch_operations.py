"""PyTorch's own samples of the operations that have NumPy's and SciPy's names here, and of calls that it refuses.

Values, dtypes, gradients and second derivatives are its, and what it refuses is refused, but for what is listed with a
reason.
"""

from __future__ import annotations

import random
import re
import sys
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from tests.support.pytorch_operations import counterpart
from tests.support.pytorch_samples import OPERATIONS, converted, databases, leaf_of, mapped, outputs_of
from tools import pytorch_differences
from tools.pytorch_differences import DIFFERENCES

#: Samples of each operation and dtype, the most elements of one, and the parts that operations are tested in.
COUNT, LARGEST, PARTS = 1, 2000, 4


def _with(value: float, place: int) -> Callable[[Any], Any]:
    def change(tensor: Any) -> Any:
        if tensor.numel():
            tensor.view(-1)[min(place, tensor.numel() - 1)] = value
        return tensor

    return change


#: By name, a function of the first tensor of a sample.
CHANGES: dict[str, Callable[[Any], Any]] = {
    "as it is": lambda tensor: tensor,
    "NaN": _with(float("nan"), 0),
    "infinity": _with(float("inf"), 1),
    "zeros": lambda tensor: tensor * 0,
    "nothing": lambda tensor: tensor[:0] if tensor.ndim else tensor,
    "a number": lambda tensor: tensor.reshape(-1)[0] if tensor.numel() else tensor,
}


@pytest.fixture(scope="module")
def torch() -> Iterator[Any]:
    with databases() as found:
        yield found


def test_the_page_lists_what_differs() -> None:
    written = pytorch_differences.PAGE.read_text()

    assert written == pytorch_differences.page(written), "write python -m tools.pytorch_differences"


def agree(array: Any, expected: Any) -> bool:
    """Return whether arrays have one dtype and nearly the same elements."""
    finite = np.abs(expected[np.isfinite(expected)])
    size = max(1.0, float(finite.max(initial=0)))
    return bool(np.allclose(array, expected, rtol=1e-7, atol=1e-7 * size, equal_nan=True))


def array_of(value: Any) -> Any:
    if isinstance(value, ag.Tensor):
        return value.detach().numpy()
    return value.detach().resolve_conj().resolve_neg().numpy() if hasattr(value, "detach") else np.asarray(value)


def gradients(torch: Any, found: list[Any], expected: list[Any], leaves: list[tuple[Any, Any]]) -> Any:
    """Return our gradients and PyTorch's of results, weighted alike, for further derivatives."""
    weights = [np.linspace(0.5, 1.5, one.size).reshape(one.shape).astype(one.dtype) for one in found]
    wanted = [(ours, peer) for peer, ours in leaves if peer.requires_grad]
    options: dict[str, Any] = {"allow_unused": True, "create_graph": True}
    ours = sync.grad(found, [one for one, _ in wanted], [ag.tensor(one) for one in weights], **options)
    peers = torch.autograd.grad(expected, [one for _, one in wanted], [torch.tensor(one) for one in weights], **options)
    return ours, peers


def differences(torch: Any, ours: Any, theirs: Any, args: Any, options: Any, second: bool) -> Iterator[str]:
    """Yield the kinds of what differs between two functions: "raised", "not-raised", "value", "gradient" and others."""
    args, options = mapped((args, options), leaf_of)
    leaves: list[tuple[Any, Any]] = []
    errors, results = [], []
    for function, given in ((theirs, (args, options)), (ours, converted((args, options), leaves))):
        try:
            results.append(outputs_of(function(*given[0], **given[1])))
        except Exception as error:  # of any kind: it is compared with that of the other
            errors.append(error)
            results.append([])
    if errors:
        if len(errors) == 1:
            yield "not-raised" if results[1] else "raised"
        return
    expected, found = results
    arrays = [(array_of(one), array_of(other)) for one, other in zip(found, expected, strict=False)]
    if len(found) != len(expected) or any(one.shape != other.shape for one, other in arrays):
        yield "shape"
    elif any(one.dtype != other.dtype for one, other in arrays):
        yield "dtype"
    elif not all(agree(*pair) for pair in arrays):
        yield "value"
    else:
        yield from _different_gradients(torch, found, expected, leaves, second)


def _different_gradients(
    torch: Any, found: list[Any], expected: list[Any], leaves: list[tuple[Any, Any]], second: bool
) -> Iterator[str]:
    for kind in ("gradient", "second derivative")[: 1 + second]:
        pairs = [
            pair
            for pair in zip(found, expected, strict=True)
            if all(getattr(one, "requires_grad", False) for one in pair)
        ]
        if not pairs:
            return
        ours, peers = gradients(torch, [one for one, _ in pairs], [one for _, one in pairs], leaves)
        both = [pair for pair in zip(ours, peers, strict=True) if pair[0] is not None and pair[1] is not None]
        alone = [
            one for pair in zip(ours, peers, strict=True) if (pair[0] is None) != (pair[1] is None) for one in pair
        ]
        if not all(agree(array_of(one), array_of(other)) for one, other in both) or any(
            np.any(array_of(one)) for one in alone if one is not None
        ):
            yield kind
            return
        found, expected = [one for one, _ in both], [other for _, other in both]


def samples(entry: Any, torch: Any) -> Iterator[tuple[str, Any, Any]]:
    """Yield calls of an operation: what has been changed, the arguments, and the options."""
    for sample in entry.error_inputs("cpu") if entry.error_inputs_func is not None else ():
        yield "error", (sample.sample_input.input, *sample.sample_input.args), sample.sample_input.kwargs
    for dtype in (torch.float64, torch.complex128):
        if not entry.supports_dtype(dtype, "cpu"):
            continue
        given = entry.sample_inputs("cpu", dtype, requires_grad=entry.supports_autograd)
        for sample in islice(given, 0, 3 * COUNT, 3):
            first, requires_grad = sample.input, getattr(sample.input, "requires_grad", False)
            if not hasattr(first, "detach"):
                yield "as it is", (first, *sample.args), sample.kwargs
            elif first.numel() <= LARGEST:
                for name, change in CHANGES.items():
                    changed = change(first.detach().clone()).detach().requires_grad_(requires_grad)
                    yield name, (changed, *sample.args), sample.kwargs


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("part", range(PARTS))
def test_what_differs_from_an_operation_of_pytorch_has_a_reason(torch: Any, part: int) -> None:
    torch.manual_seed(0)
    random.seed(0)
    unexplained: dict[str, int] = {}
    entries = [entry for entry in sys.modules[OPERATIONS].op_db if counterpart(entry.name) is not None]
    for entry in entries[part::PARTS]:
        for change, args, options in samples(entry, torch):
            if "out" in options:
                continue
            second = entry.supports_gradgrad and change == "as it is"
            for kind in differences(torch, counterpart(entry.name), entry.op, args, options, second):
                name = f"{change} | {kind}"
                if not any(
                    re.fullmatch(one.functions, entry.name) and re.fullmatch(one.kinds, name) for one in DIFFERENCES
                ):
                    unexplained[f"{entry.name} | {name}"] = unexplained.get(f"{entry.name} | {name}", 0) + 1

    assert unexplained == {}
