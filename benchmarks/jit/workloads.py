"""The models that are measured, each with its arrays and its forms for NumPy by hand and for PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, final

from .. import chain, lstm, mlp, transformer
from ..peers import Problem
from . import convnet, gpt

__all__ = ["TINY", "WORKLOADS", "Workload"]

Model = Callable[..., Any]


@final
class Workload(NamedTuple):
    """A model, its arrays, and who measures it.

    JAX's and PyTensor's forms are the functions `name` of `jax_models` and `pytensor_models`, which are imported only
    where these libraries are.
    """

    title: str
    name: str
    #: Of asyncgrad: a function of constants and variables.
    model: Model
    torch: Model
    #: By hand in NumPy.
    floor: Model
    problem: Callable[[], Problem]
    #: Sides that do not take part, with the reason.
    lacks: Mapping[str, str] = MappingProxyType({})
    #: Whether it is also trained with Adam.
    is_trained: bool = True


_LONG = "its compiler unrolls the loop, and takes minutes"


def _chain(size: int, title: str) -> Workload:
    return Workload(
        title,
        "chain",
        chain.chain,
        chain.chain,
        chain.floor,
        lambda: chain.Chain.problem(size),
        {"torch.compile": _LONG},
        is_trained=False,
    )


WORKLOADS = [
    _chain(16, "chain of 4,000 nodes, size 16"),
    _chain(10_000, "chain of 4,000 nodes, size 10,000"),
    Workload(mlp.Mlp.title, "mlp", mlp.asyncgrad_model, mlp.torch_model, mlp.floor, mlp.Mlp.problem),
    Workload(
        transformer.Transformer.title,
        "transformer",
        transformer.asyncgrad_model,
        transformer.torch_model,
        transformer.floor,
        transformer.Transformer.problem,
    ),
    Workload(
        lstm.Lstm.title,
        "lstm",
        lstm.asyncgrad_model,
        lstm.torch_model,
        lstm.floor,
        lstm.Lstm.problem,
        {"torch.compile": _LONG},
    ),
    Workload(
        convnet.TITLE,
        "convnet",
        convnet.asyncgrad_model,
        convnet.torch_model,
        convnet.floor,
        convnet.problem,
        {"PyTensor": "it has no convolution of images that have channels"},
    ),
    Workload(
        gpt.TITLE,
        "gpt",
        gpt.asyncgrad_model,
        gpt.torch_model,
        gpt.floor,
        gpt.problem,
        {"PyTensor": "numba takes minutes to compile it"},
    ),
]

#: Of a size that takes no time: each peer runs it first, so that what it makes once in a process is no part of the time
#: that it takes to compile a model.
TINY = Workload(
    "MLP of a few numbers",
    "mlp",
    mlp.asyncgrad_model,
    mlp.torch_model,
    mlp.floor,
    lambda: mlp.draw_problem(batch=2, layers=2, width=3),
)
