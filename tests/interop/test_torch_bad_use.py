"""What bad use of PyTorch's modules and functions gets: an error that says what is there and what to write."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs PyTorch: pip install 'asyncgrad[torch]'")

import torch

import asyncgrad as ag
from asyncgrad import nn
from asyncgrad.errors import ArgumentError, ArgumentTypeError, DeviceError, InPlaceError
from asyncgrad.interop.torch import as_autograd_function, from_torch_state_dict, to_torch_state_dict, wrap
from asyncgrad.testing import SimulatedAccelerator


def tensor(dtype: Any = np.float64, requires_grad: bool = True) -> Any:
    return ag.tensor(np.arange(1, 4), dtype=dtype).requires_grad_(requires_grad)


def meta(x: Any) -> Any:
    """Return a tensor on another device than the cpu, as CUDA's are."""
    return torch.zeros(3, device="meta")


async def asynchronous(x: Any) -> Any:
    return x


CASES: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "no_function": (lambda: wrap(3), ArgumentTypeError, "wrap takes a function as its first argument, not int 3"),  # type: ignore[call-overload]
    "an_async_function": (
        lambda: wrap(asynchronous),
        ArgumentTypeError,
        "plain function of PyTorch.*wrap what computes",
    ),
    "a_module_that_torch_jit_has_compiled": (
        lambda: wrap(torch.jit.ScriptModule()),
        ArgumentTypeError,
        r"ScriptModule is a module that torch\.jit has compiled.*torch\.nn\.Sequential\(module\) around it",
    ),
    "an_unknown_option": (lambda: wrap(torch.sin, grads="both"), ArgumentError, '"asyncgrad" or "torch", not \'both\''),
    "no_tensor": (
        lambda: wrap(lambda x: x.sum().item())(tensor()),
        ArgumentTypeError,
        r"returned float 6\.0, and no tensor of PyTorch: return a tensor.*without y\.numpy\(\) or y\.item\(\)",
    ),
    "none": (lambda: wrap(lambda x: None)(tensor()), ArgumentTypeError, "returned NoneType None, and no tensor"),
    "an_output_on_another_device": (
        lambda: wrap(meta)(tensor()),
        DeviceError,
        r"output 0 of meta is on the device meta, and must be on the cpu: return y\.cpu\(\)",
    ),
    "a_module_on_another_device": (
        lambda: wrap(torch.nn.Linear(2, 1, device="meta")),
        DeviceError,
        r"parameter 'weight' of Linear is on the device meta.*write module\.cpu\(\)",
    ),
    "a_module_of_bfloat16": (
        lambda: wrap(torch.nn.Linear(2, 1).bfloat16()),
        ArgumentTypeError,
        r"'weight' of Linear is of torch\.bfloat16, which NumPy has not: write module\.float\(\)",
    ),
    "an_output_of_bfloat16": (
        lambda: wrap(lambda x: x.bfloat16())(tensor()),
        ArgumentTypeError,
        r"output 0 of .* is of torch\.bfloat16, which NumPy has not: return y\.float\(\)",
    ),
    "a_sparse_output": (
        lambda: wrap(lambda x: x.to_sparse())(tensor(requires_grad=False)),
        ArgumentError,
        r"must be dense: return y\.to_dense\(\)",
    ),
    "a_lazy_module": (lambda: wrap(torch.nn.LazyLinear(2)), ArgumentError, "has no shape yet.*call the module once"),
    "a_dtype_that_pytorch_has_not": (
        lambda: wrap(torch.sin)(tensor(np.longdouble)),
        ArgumentTypeError,
        r"args\[0\] has the dtype (longdouble|float128), which PyTorch has not",
    ),
    "a_leaf_of_pytorch": (
        lambda: wrap(lambda a, b: a * b["w"])(tensor(), {"w": torch.zeros(3, requires_grad=True)}),
        ArgumentTypeError,
        r"args\[1\]\['w'\] is .* of PyTorch that requires grad.*pass value\.detach\(\)",
    ),
    "a_write_into_an_argument": (
        lambda: wrap(lambda x, y: x.add_(1))(tensor(requires_grad=False), tensor()),
        InPlaceError,
        r"has written into args\[0\] in place.*x = x\.clone\(\)",
    ),
    "a_function_of_asyncgrad_without_tensors": (
        lambda: as_autograd_function(lambda x: x.sum().item())(torch.zeros(3)),
        ArgumentTypeError,
        r"returned float 0\.0, and no tensor of asyncgrad",
    ),
    "a_module_of_asyncgrad_with_parameters": (
        lambda: as_autograd_function(nn.Linear(2, 1)),
        ArgumentTypeError,
        r"Linear has parameters of asyncgrad.*model\.snapshot\(\)",
    ),
    "an_argument_on_another_device": (
        lambda: as_autograd_function(np.sin)(torch.zeros(3, device="meta")),
        DeviceError,
        r"an argument of sin is on the device meta.*pass x\.cpu\(\)",
    ),
    "a_state_with_something_else": (
        lambda: from_torch_state_dict({"extra": 3}),
        ArgumentTypeError,
        "extra must be a tensor of PyTorch, not int 3: take it out",
    ),
    "a_state_that_is_none": (
        lambda: to_torch_state_dict([1]),  # type: ignore[arg-type]
        ArgumentTypeError,
        "takes a module of asyncgrad or a dict of tensors",
    ),
    "a_state_with_no_arrays": (
        lambda: to_torch_state_dict({"a": "b"}),
        ArgumentTypeError,
        "a must be a tensor of asyncgrad or an array, not str 'b'",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_an_error_says_what_is_wrong_and_what_to_write(name: str) -> None:
    use, kind, message = CASES[name]

    with pytest.raises(kind, match=message):
        use()


def test_arguments_of_another_dtype_than_the_parameters_are_named_beside_pytorchs_own_error() -> None:
    with pytest.raises(RuntimeError, match="dtype") as caught:
        wrap(torch.nn.Linear(3, 1))(tensor())

    (note,) = caught.value.__notes__
    assert "a parameter of Linear is of float32" in note
    assert "args[0] is of float64. Write x.astype(np.float32)" in note


def test_a_write_into_a_leaf_of_the_graph_is_explained_beside_pytorchs_own_error() -> None:
    with pytest.raises(RuntimeError, match="leaf Variable") as caught:
        wrap(lambda x: x.add_(1))(tensor())

    assert "x = x.clone()" in caught.value.__notes__[0]


def test_a_tensor_on_another_device_of_asyncgrad_is_refused() -> None:
    x = ag.tensor([1.0], device=SimulatedAccelerator())

    with pytest.raises(DeviceError, match=r'args\[0\] is on the device.*write x\.to\("cpu"\)'):
        wrap(torch.sin)(x)
