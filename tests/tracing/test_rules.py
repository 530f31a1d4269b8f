"""Every rule is traced, forward and backward, and replayed on other numbers: the bits are those of the function."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from tests.core.ops.finite_differences import Case, call, leaves_of
from tests.core.ops.test_rules import CASES
from tests.nn.cases import CALLS
from tests.support.sampling import some
from tests.tracing.running import bits, grads_of

#: By function, which of its cases stay eager, since something in them leaves NumPy's functions.
EAGER = {
    "numpy einsum": {11, 25},
    "numpy histogram_bin_edges": {3, 4},
    "numpy histogram2d": {3},
    "numpy histogram": {7},
    "numpy real_if_close": {0},
    "numpy imag": {1},
    "numpy nanmedian": {0, 4},
    "numpy norm": {4, 5, 6, 7},
    "numpy quantile": {2},
    "numpy repeat": {2},
    # The lengths of the sequences, and where the bags begin, say how much is computed.
    "nn ctc_loss": {0},
    "nn embedding_bag": {0, 1, 2, 3},
    # The indices say how often neighbours are multiplied, and what is left out.
    "nn scatter_reduce": {1, 5},
}

ALL: dict[str, tuple[Callable[..., Any], list[Case]]] = {
    f"numpy {function.__name__}": (function, cases) for function, cases in CASES.items()
}
for one in CALLS:
    ALL.setdefault(f"nn {one.function.__name__}", (one.function, []))[1].append(one.case)


def of_case(function: Callable[..., Any], case: Case) -> Callable[..., Any]:
    """Return one real number that hangs on all results of a call, as a function of its leaves."""

    def value(*leaves: Any) -> Any:
        results = call(function, case, list(leaves))
        total: Any = 0.0
        for result in results:
            if isinstance(result, ag.Tensor):
                total = total + np.sum(np.real(result * (1.25 - 0.5j if result.dtype.kind == "c" else 1.25)))
        return total

    return value


def moved(leaf: np.ndarray) -> np.ndarray:
    """Return other numbers that lie in memory as these do."""
    other = np.empty_like(leaf)
    other[...] = leaf * 1.0625 + 0.001 * np.arange(leaf.size).reshape(leaf.shape)
    return other


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL)
def test_the_cases_of_a_rule_have_the_same_bits_on_the_traced_numbers_and_on_others(name):
    function, cases = ALL[name]
    eager, chosen = set[int](), some(range(len(cases)), of=name)
    for index in chosen:
        case = cases[index]
        value = of_case(function, case)
        jitted = ag.jit(value, verify=0)
        leaves = [np.array(leaf) for leaf in leaves_of(case)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                expected = [grads_of(value, leaves), grads_of(value, [moved(leaf) for leaf in leaves])]
            except Exception:
                # It has no gradient, or none where the numbers are moved.
                continue
            for _ in range(2):
                grads_of(jitted, leaves)
            assert [grads_of(jitted, leaves), grads_of(jitted, [moved(leaf) for leaf in leaves])] == expected, case
        if not jitted.counts["replayed"]:
            eager.add(index)

    assert eager == EAGER.get(name, set()).intersection(chosen)


def test_bits_tell_what_is_equal_apart():
    assert len({repr(bits(np.array(one))) for one in (0.0, -0.0, 0, np.float32(0.0))}) == 4


def test_the_list_of_what_stays_eager_names_rules():
    assert set(EAGER) <= set(ALL)
    assert sum(map(len, EAGER.values())) <= 0.02 * sum(len(cases) for _, cases in ALL.values())
