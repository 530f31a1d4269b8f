"""asyncgrad and PyTorch behind the same few names, for laws that both are held to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync

__all__ = ["OURS", "Library", "theirs"]


class Library(NamedTuple):
    """What a law needs beside the names that tensors of both have."""

    tensor: Callable[..., Any]
    no_grad: Callable[[], Any]
    is_grad_enabled: Callable[[], bool]
    exp: Callable[..., Any]
    #: Splits a vector in two.
    halves: Callable[[Any], Any]
    copy: Callable[[Any], Any]
    increment_version: Callable[[Any], None]
    hooks: Callable[..., Any]
    backward: Callable[..., None]
    grad: Callable[..., Any]
    gradient_edge: Callable[[Any], Any]
    function_class: type
    is_view: Callable[[Any], bool]
    #: Says how a view was made: "DEFAULT", "NO_GRAD", "MULTI_OUTPUT" or "IN_CUSTOM_FUNCTION".
    creation: Callable[[Any], str]
    #: The name of a node, without namespace and number.
    name: Callable[[Any], str]
    #: The SavedTensors of a node.
    saved: Callable[[Any], list[Any]]
    #: What they hold.
    unpacked: Callable[[Any], list[Any]]
    #: How the text of an error shows that a tensor has no valid grad_fn.
    invalid: str

    def leaf(self, *values: float) -> Any:
        """A vector that requires grad."""
        return self.tensor(values, requires_grad=True)

    def vector(self, *values: float) -> Any:
        """A vector that does not."""
        return self.tensor(values)

    def function(self, forward: Any, backward: Any = lambda ctx, grad: grad) -> Any:
        """The Function of a forward that takes a ctx, and of a backward."""
        body = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
        return type("Made", (self.function_class,), body)


OURS = Library(
    tensor=ag.tensor,
    no_grad=ag.no_grad,
    is_grad_enabled=ag.is_grad_enabled,
    exp=np.exp,
    halves=lambda t: np.split(t, 2),
    copy=lambda t: t.copy(),
    increment_version=ag.graph.increment_version,
    hooks=ag.graph.saved_tensors_hooks,
    backward=sync.backward,
    grad=sync.grad,
    gradient_edge=ag.graph.get_gradient_edge,
    function_class=ag.Function,
    is_view=lambda t: bool(t.is_view),
    creation=lambda t: str(t._view_meta().creation.name),
    name=lambda node: str(node.name),
    saved=lambda node: [*node.saved_tensors],
    unpacked=lambda node: [saved.unpack() for saved in node.saved_tensors],
    invalid="<invalid>",
)


def theirs() -> Library:
    """PyTorch, or a skip."""
    torch = pytest.importorskip("torch")
    meta = torch._C._autograd

    def tensor(values: Any, requires_grad: bool = False) -> Any:
        return torch.tensor(values, dtype=torch.float64, requires_grad=requires_grad)

    def saved(node: Any) -> list[Any]:
        return [getattr(node, name) for name in sorted(dir(node), reverse=True) if name.startswith("_raw_saved_")]

    def unpacked(node: Any) -> list[Any]:
        values = [getattr(node, name) for name in sorted(dir(node), reverse=True) if name.startswith("_saved_")]
        return [value for value in values if isinstance(value, torch.Tensor)]

    return Library(
        tensor=tensor,
        no_grad=torch.no_grad,
        is_grad_enabled=torch.is_grad_enabled,
        exp=torch.exp,
        halves=lambda t: t.chunk(2),
        copy=lambda t: t.clone(),
        increment_version=torch.autograd.graph.increment_version,
        hooks=torch.autograd.graph.saved_tensors_hooks,
        backward=torch.autograd.backward,
        grad=torch.autograd.grad,
        gradient_edge=torch.autograd.graph.get_gradient_edge,
        function_class=torch.autograd.Function,
        is_view=lambda t: bool(t._is_view()),
        creation=lambda t: meta._get_creation_meta(t).name.removesuffix("_NODE").removesuffix("_MODE"),
        name=lambda node: node.name().rpartition("::")[2].rstrip("0"),
        saved=saved,
        unpacked=unpacked,
        invalid="<Invalid>",
    )
