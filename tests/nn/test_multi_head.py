"""The function of several heads computes what the layer does, from the same parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from asyncgrad import nn
from asyncgrad.errors import ArgumentError

_rng = np.random.default_rng(0)
QUERY, KEY = _rng.standard_normal((3, 2, 8)), _rng.standard_normal((5, 2, 8))
PADDING = np.array([[False, False, True, False, False], [True, False, False, False, True]])


def called(layer: Any, *arrays: Any, **options: Any) -> Any:
    """Return what the function makes of a layer's parameters."""
    function: Any = nn.multi_head_attention_forward
    return function(
        *arrays,
        *(layer.embed_dim, layer.num_heads, layer.in_proj_weight, layer.in_proj_bias, layer.bias_k, layer.bias_v),
        *(layer.add_zero_attn, layer.dropout, layer.out_proj.weight, layer.out_proj.bias, layer.training),
        **options,
    )


@pytest.mark.parametrize("options", [{}, {"add_bias_kv": True, "add_zero_attn": True}, {"bias": False}], ids=str)
@pytest.mark.parametrize(
    "masks",
    [
        {},
        {"key_padding_mask": PADDING},
        {"attn_mask": _rng.standard_normal((3, 5)), "average_attn_weights": False},
        {"is_causal": True, "need_weights": False},
    ],
    ids=str,
)
def test_the_function_returns_what_the_layer_does(options: dict[str, Any], masks: dict[str, Any]) -> None:
    layer = nn.MultiheadAttention(8, 4, **options)
    found, expected = called(layer, QUERY, KEY, KEY, **masks), layer(QUERY, KEY, KEY, **masks)

    np.testing.assert_array_equal(found[0].numpy(), expected[0].numpy())
    if expected[1] is None:
        assert found[1] is None
    else:
        np.testing.assert_array_equal(found[1].numpy(), expected[1].numpy())


@pytest.mark.parametrize("has_zeros", [False, True])
def test_static_keys_and_values_take_the_place_of_those_computed(has_zeros: bool) -> None:
    torch = pytest.importorskip("torch")
    layer = nn.MultiheadAttention(8, 4, add_zero_attn=has_zeros)
    static = {"static_k": _rng.standard_normal((8, 6, 2)), "static_v": _rng.standard_normal((8, 6, 2))}
    output, weights = called(layer, QUERY, KEY, KEY, **static)
    parameters = [
        None if one is None else torch.tensor(one.numpy())
        for one in (layer.in_proj_weight, layer.in_proj_bias, layer.out_proj.weight, layer.out_proj.bias)
    ]
    arrays = [torch.tensor(one) for one in (QUERY, KEY, KEY)]
    expected, shares = torch.nn.functional.multi_head_attention_forward(
        *(*arrays, 8, 4, *parameters[:2], None, None, has_zeros, 0.0, *parameters[2:]),
        **{name: torch.tensor(one) for name, one in static.items()},
    )

    np.testing.assert_allclose(output.numpy(), expected.numpy(), rtol=1e-12)
    np.testing.assert_allclose(weights.numpy(), shares.numpy(), rtol=1e-12)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda layer: nn.multi_head_attention_forward(*_arguments(layer, num_heads=3)), "num_heads that divides"),
        (lambda layer: nn.multi_head_attention_forward(*_arguments(layer, embed_dim=4)), r"\(12, 4\), not \(24, 8\)"),
        (lambda layer: called(layer, QUERY, KEY, KEY, use_separate_proj_weight=True), "q_proj_weight, k_proj_weight"),
        (lambda layer: called(layer, QUERY, KEY, KEY[:4]), "as many keys as values"),
        (lambda layer: called(layer, QUERY, KEY[..., :4], KEY), "of 8, 8 and 8 features"),
        (lambda layer: called(layer, QUERY, KEY, KEY, static_k=KEY), r"static_k must have shape \(8, sources, 2\)"),
        (
            lambda layer: called(nn.MultiheadAttention(8, 4, add_bias_kv=True), QUERY, KEY, KEY, static_v=KEY),
            "static_v or bias_k and bias_v, not both",
        ),
    ],
)
def test_what_does_not_fit_is_refused(call: Callable[[Any], Any], words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        call(nn.MultiheadAttention(8, 4))


def _arguments(layer: Any, num_heads: int = 4, embed_dim: int = 8) -> tuple[Any, ...]:
    weights = (layer.in_proj_weight, layer.in_proj_bias, None, None, False, 0.0, layer.out_proj.weight, None)
    return (QUERY, KEY, KEY, embed_dim, num_heads, *weights)
