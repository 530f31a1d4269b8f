"""`python -m benchmarks.layers`: norms and convolutions, forward and backward, beside PyTorch and NumPy by hand.

All are in float32 and on one thread, and take turns; their gradients are compared before they are timed. By hand is
what a reader of the formulas writes in NumPy: it tells what a difference to PyTorch owes to that. It writes nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, final

# The libraries read it when the imports below load them.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

import asyncgrad as ag
from asyncgrad import nn

from .pairs import Times, measure_pair
from .peers import Array, torch
from .transformer import EPSILON, floor_norm

__all__ = ["LAYERS", "Layer", "main", "measure"]

Gradients = Sequence[Any]


@final
class Layer(NamedTuple):
    """A layer with the shapes of its input and its parameters."""

    shapes: tuple[tuple[int, ...], ...]
    asyncgrad: Callable[..., Any]
    torch: Callable[..., Any]
    #: Returns the gradients of the sum of the result, by hand.
    by_hand: Callable[..., Gradients]


def _layer_norm(rows: int, width: int) -> Layer:
    def by_hand(x: Array, weight: Array, bias: Array) -> Gradients:
        y, pullback = floor_norm(x, weight, bias)
        gradients: Gradients = pullback(np.ones_like(y))
        return gradients

    return Layer(
        ((rows, width), (width,), (width,)),
        lambda x, weight, bias: nn.layer_norm(x, (width,), weight, bias, EPSILON),
        lambda x, weight, bias: torch.nn.functional.layer_norm(x, (width,), weight, bias, EPSILON),
        by_hand,
    )


def _group_norm(shape: tuple[int, int, int, int], groups: int) -> Layer:
    channels = shape[1]

    def by_hand(x: Array, weight: Array, bias: Array) -> Gradients:
        rows = x.reshape(shape[0] * groups, -1)
        one, none = np.ones(1, np.float32), np.zeros(1, np.float32)
        y, pullback = floor_norm(rows, one, none)
        out = y.reshape(shape) * weight[:, None, None] + bias[:, None, None]
        g = np.ones_like(out)
        of_weight = (g * y.reshape(shape)).sum(axis=(0, 2, 3))
        of_x, _, _ = pullback((g * weight[:, None, None]).reshape(rows.shape))
        return of_x.reshape(shape), of_weight, g.sum(axis=(0, 2, 3))

    return Layer(
        (shape, (channels,), (channels,)),
        lambda x, weight, bias: nn.group_norm(x, groups, weight, bias, EPSILON),
        lambda x, weight, bias: torch.nn.functional.group_norm(x, groups, weight, bias, EPSILON),
        by_hand,
    )


def _convolution(shape: tuple[int, ...], filters: tuple[int, ...], stride: int, padding: int, groups: int) -> Layer:
    axes = len(shape) - 2
    ours, theirs = (nn.conv1d, "conv1d") if axes == 1 else (nn.conv2d, "conv2d")
    options: dict[str, Any] = {"stride": stride, "padding": padding, "groups": groups}

    def by_hand(x: Array, weight: Array, bias: Array) -> Gradients:
        border = [(0, 0), (0, 0), *[(padding, padding)] * axes]
        padded = np.pad(x, border)
        at = tuple(range(2, 2 + axes))
        windows = np.lib.stride_tricks.sliding_window_view(padded, filters[2:], at)
        windows = windows[(slice(None), slice(None), *[slice(None, None, stride)] * axes)]
        places = windows.shape[2 : 2 + axes]
        # (groups, channels of a group * weights, images * places)
        order = (1, *range(2 + axes, 2 + 2 * axes), 0, *at)
        columns = windows.transpose(order).reshape(groups, -1, len(x) * int(np.prod(places)))
        matrices = weight.reshape(groups, -1, columns.shape[1])
        out = matrices @ columns + bias.reshape(groups, -1, 1)
        g = np.ones_like(out)
        of_weight = (g @ columns.swapaxes(1, 2)).reshape(weight.shape)
        of_columns = matrices.swapaxes(1, 2) @ g
        of_windows = of_columns.reshape(shape[1], *filters[2:], len(x), *places)
        of_padded = np.zeros_like(padded)
        for offset in np.ndindex(*filters[2:]):
            ends = [
                slice(one, one + (count - 1) * stride + 1, stride) for one, count in zip(offset, places, strict=True)
            ]
            of_padded[(slice(None), slice(None), *ends)] += of_windows[(slice(None), *offset)].swapaxes(0, 1)
        inner = [slice(padding, padding + length) for length in shape[2:]]
        return of_padded[(slice(None), slice(None), *inner)], of_weight, g.sum(axis=2).reshape(-1)

    return Layer(
        (shape, filters, (filters[0],)),
        lambda x, weight, bias: ours(x, weight, bias, **options),
        lambda x, weight, bias: getattr(torch.nn.functional, theirs)(x, weight, bias, **options),
        by_hand,
    )


#: By name.
LAYERS: dict[str, Layer] = {
    "layer norm, 256 rows of 512": _layer_norm(256, 512),
    "layer norm, 2,048 rows of 512": _layer_norm(2048, 512),
    "layer norm, 4,096 rows of 64": _layer_norm(4096, 64),
    "group norm, 16 images of 64 x 28 x 28, 8 groups": _group_norm((16, 64, 28, 28), 8),
    "group norm, 32 images of 32 x 8 x 8, 8 groups": _group_norm((32, 32, 8, 8), 8),
    "conv1d, 16 of 32 x 256 to 64, kernel 5": _convolution((16, 32, 256), (64, 32, 5), 1, 2, 1),
    "conv2d, 16 of 16 x 28 x 28 to 32, kernel 3": _convolution((16, 16, 28, 28), (32, 16, 3, 3), 1, 1, 1),
    "conv2d, 8 of 64 x 14 x 14 to 64, kernel 3": _convolution((8, 64, 14, 14), (64, 64, 3, 3), 1, 1, 1),
    "conv2d, 32 of 3 x 32 x 32 to 16, kernel 5, stride 2": _convolution((32, 3, 32, 32), (16, 3, 5, 5), 2, 2, 1),
    "depthwise, 16 of 32 x 28 x 28, kernel 3": _convolution((16, 32, 28, 28), (32, 1, 3, 3), 1, 1, 32),
    "depthwise, 16 of 32 x 28 x 28, kernel 3, stride 2": _convolution((16, 32, 28, 28), (32, 1, 3, 3), 2, 1, 32),
}


def calls(layer: Layer, runner: asyncio.Runner) -> dict[str, Callable[[], Gradients]]:
    """Return what computes the gradients of the sum of a layer's result, by who does."""
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(shape).astype(np.float32) for shape in layer.shapes]
    leaves = [ag.tensor(array, requires_grad=True) for array in arrays]

    async def step() -> None:
        await layer.asyncgrad(*leaves).sum().backward()

    def ours() -> Gradients:
        for leaf in leaves:
            leaf.grad = None
        # A runner prints the result of a coroutine to itself, and so must not get the gradients.
        runner.run(step())
        return [leaf.grad for leaf in leaves]

    found: dict[str, Callable[[], Gradients]] = {"asyncgrad": ours, "by hand": lambda: layer.by_hand(*arrays)}
    if torch is not None:
        torch.set_num_threads(1)
        theirs = [torch.tensor(array, requires_grad=True) for array in arrays]

        def by_torch() -> Gradients:
            for one in theirs:
                one.grad = None
            layer.torch(*theirs).sum().backward()
            return [one.grad for one in theirs]

        found["PyTorch"] = by_torch
    return found


def measure(name: str, rounds: int) -> dict[str, Times]:
    """Return the times of a layer beside each peer, once the gradients have been seen to agree."""
    # What would run on a worker is one thread more.
    with ag.workers(0), asyncio.Runner() as runner:
        found = calls(LAYERS[name], runner)
        ours = found.pop("asyncgrad")
        expected = [np.array(one.numpy()) for one in ours()]
        for peer, call in found.items():
            for one, other in zip(expected, call(), strict=True):
                if not np.allclose(one, np.asarray(other), rtol=1e-2, atol=1e-2):
                    raise ValueError(f"{name}: the gradients of asyncgrad and {peer} do not agree")
        return {peer: measure_pair([ours, call], rounds) for peer, call in found.items()}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.layers", description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=15, help="how often each is timed (default: %(default)s)")
    options = parser.parse_args(arguments)
    peers = ["by hand", "PyTorch"] if torch is not None else ["by hand"]
    print(f"| forward and backward | asyncgrad, µs | {' | '.join(f'÷ {peer}' for peer in peers)} |")
    print(f"| --- |{' ---: |' * (1 + len(peers))}")
    for name in LAYERS:
        found = measure(name, options.rounds)
        ratios = " | ".join(f"{found[peer].ratio:.2f}" for peer in peers)
        print(f"| {name} | {found[peers[-1]].ours * 1e6:,.0f} | {ratios} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
