"""`python -m benchmarks.interop`: modules and functions of PyTorch and JAX as nodes, beside the libraries themselves.

The forward and the backward of an MLP of three layers, in float32, by its parameters. The two take turns, and their
gradients are compared before they are timed. It writes nothing.
"""

from __future__ import annotations

import argparse
import copy
import sys
from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np

import asyncgrad as ag
from asyncgrad import interop, sync

from .pairs import Times, measure_pair, table

try:
    import torch
except ImportError:
    torch = None
try:
    import jax
except ImportError:
    jax = None

__all__ = ["PAIRS", "main", "measure"]

LAYERS, BATCH = 3, 256

#: The calls of a pair, ours and the library's, each of which returns the gradients.
Pair = tuple[Callable[[], Sequence[Any]], Callable[[], Sequence[Any]]]


def _data(width: int) -> tuple[np.ndarray, list[tuple[np.ndarray, np.ndarray]]]:
    """Return a batch, and the weight and the bias of each layer."""
    rng = np.random.default_rng(0)
    layers = [(rng.standard_normal((width, width)) / width**0.5, np.zeros(width)) for _ in range(LAYERS)]
    return (
        rng.standard_normal((BATCH, width)).astype(np.float32),
        [(weight.astype(np.float32), bias.astype(np.float32)) for weight, bias in layers],
    )


if torch is not None:

    @final
    class _Sum(torch.nn.Module):
        """The sum of all numbers, as a loss."""

        def forward(self, x: Any) -> Any:
            return x.sum()


def _torch_modules(width: int) -> tuple[Any, Any, Any]:
    x, layers = _data(width)
    parts: list[Any] = []
    for weight, bias in layers:
        linear = torch.nn.Linear(width, width)
        linear.load_state_dict({"weight": torch.tensor(weight), "bias": torch.tensor(bias)})
        parts += [linear, torch.nn.Tanh()]
    module = torch.nn.Sequential(*parts, _Sum())
    return module, copy.deepcopy(module), x


def torch_leaves(width: int) -> Pair:
    """Return the calls for a module of PyTorch whose parameters are leaves of asyncgrad."""
    module, native, x = _torch_modules(width)
    model, given, peer = interop.torch.wrap(module, random=False), ag.asarray(x), torch.tensor(x)
    params, peers = list(model.parameters()), list(native.parameters())

    def ours() -> Sequence[Any]:
        for param in params:
            param.grad = None
        sync.backward(model(given))
        return [param.grad for param in params]

    return ours, lambda: _native(native, peers, peer)


def torch_own(width: int) -> Pair:
    """Return the calls for a module of PyTorch whose own `.grad` is written."""
    module, native, x = _torch_modules(width)
    model, given, peer = interop.torch.wrap(module, grads="torch", random=False), ag.asarray(x), torch.tensor(x)
    params, peers = list(module.parameters()), list(native.parameters())

    def ours() -> Sequence[Any]:
        for param in params:
            param.grad = None
        sync.backward(model(given))
        return [param.grad for param in params]

    return ours, lambda: _native(native, peers, peer)


def _native(module: Any, params: Sequence[Any], x: Any) -> Sequence[Any]:
    for param in params:
        param.grad = None
    module(x).backward()
    return [param.grad for param in params]


def torch_by_asyncgrad(width: int) -> Pair:
    """Return the calls for asyncgrad's MLP as a function of PyTorch, beside the same MLP in asyncgrad."""
    x, layers = _data(width)
    mlp = interop.torch.as_autograd_function(lambda x, layers: _mlp(np, x, layers))
    theirs = [(torch.tensor(w, requires_grad=True), torch.tensor(b, requires_grad=True)) for w, b in layers]
    own = [(ag.tensor(w, requires_grad=True), ag.tensor(b, requires_grad=True)) for w, b in layers]
    flat, own_flat = [one for pair in theirs for one in pair], [one for pair in own for one in pair]
    given, peer = ag.asarray(x), torch.tensor(x)
    return (
        lambda: torch.autograd.grad(mlp(peer, theirs).sum(), flat),
        lambda: sync.grad(_mlp(np, given, own).sum(), own_flat),
    )


def _mlp(library: Any, x: Any, layers: Sequence[tuple[Any, Any]]) -> Any:
    for weight, bias in layers:
        x = library.tanh(x @ weight.T + bias)
    return x


def jax_compiled(width: int) -> Pair:
    """Return the calls for a function of JAX whose forward and backward it compiles, as both do."""
    x, layers = _data(width)
    mlp = interop.jax.wrap(lambda x, layers: _mlp(jax.numpy, x, layers).sum(), jit=True)
    own = interop.jax.to_tensors(layers, requires_grad=True)
    flat = [one for pair in own for one in pair]
    theirs = jax.tree_util.tree_map(jax.numpy.asarray, layers)
    forward = jax.jit(lambda layers, x: jax.vjp(lambda layers: _mlp(jax.numpy, x, layers).sum(), layers))
    backward = jax.jit(lambda pullback, grad: pullback(grad))
    given, peer, one = interop.jax.to_tensors(x), jax.numpy.asarray(x), jax.numpy.float32(1)

    def native() -> Sequence[Any]:
        loss, pullback = forward(theirs, peer)
        loss.block_until_ready()
        return list(jax.tree_util.tree_leaves(jax.block_until_ready(backward(pullback, one))))

    return lambda: sync.grad(mlp(given, own), flat), native


#: By name: what makes the calls, and the library that it needs.
PAIRS: dict[str, tuple[Callable[[int], Pair], Any]] = {
    "module of PyTorch, leaves of asyncgrad": (torch_leaves, torch),
    "module of PyTorch, its own .grad": (torch_own, torch),
    "function of asyncgrad in PyTorch, beside asyncgrad": (torch_by_asyncgrad, torch),
    "function of JAX, jit=True": (jax_compiled, jax),
}


def measure(name: str, width: int, rounds: int) -> Times:
    """Return the times of a pair, once its gradients have been seen to agree."""
    ours, theirs = PAIRS[name][0](width)
    for one, other in zip(ours(), theirs(), strict=True):
        if not np.allclose(np.asarray(one), np.asarray(other), rtol=1e-3, atol=1e-3):
            raise ValueError(f"{name}: the gradients do not agree")
    return measure_pair([ours, theirs], rounds)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.interop", description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=31, help="how often each is timed (default: %(default)s)")
    parser.add_argument("--width", type=int, default=512, help="of each layer (default: %(default)s)")
    options = parser.parse_args(arguments)
    names = [name for name, (_, library) in PAIRS.items() if library is not None]
    if not names:
        print("Neither PyTorch nor JAX is installed: pip install -e '.[torch,jax]'")
        return 1
    found = {name: measure(name, options.width, options.rounds) for name in names}
    print(table(f"MLP of {LAYERS} layers, width {options.width}, {BATCH} rows", "the library", found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
