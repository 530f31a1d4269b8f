"""A refusal of one kind has one function that words it: a wrong type, a device that lacks a function, and others."""

from __future__ import annotations

import ast
import re
from functools import cache

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad.core.arrays.values import refuse_complex
from asyncgrad.core.settings.arguments import check_callable, must_be, takes
from asyncgrad.errors import ArgumentTypeError, HookTypeError
from tests.support.house import Source, own_house

pytestmark = pytest.mark.usefixtures("parsed_house")

HOUSE = own_house()

#: How the words of each kind look, with `{}` for each value, and the module that may put them together.
KINDS = {
    "must_be": (re.compile(r" must be .+, not \{describe\(.*\)\}"), "asyncgrad.core.settings.arguments"),
    "unavailable": (re.compile(r" (is|are) not available on "), "asyncgrad.core.arrays.device_arrays"),
    "missing_extra": (re.compile(r"^raise .*asyncgrad\["), "asyncgrad.core.settings.extras"),
    "refuse_complex": (re.compile(r" takes? (a )?real .+, not \{.*dtype\}"), "asyncgrad.core.arrays.values"),
}

#: The nodes that have the words, where a text without values may have them.
KINDS_OF_NODES = {"missing_extra": ast.Raise}


def worded_here(source: Source, kind: str) -> list[str]:
    """Return where a module words a refusal of a kind by itself."""
    words, module = KINDS[kind]
    found = [line for line, text in texts(source, KINDS_OF_NODES.get(kind, ast.JoinedStr)) if words.search(text)]
    return [] if source.module == module else [source.at(line, f"call {module}.{kind}") for line in found]


@cache
def texts(source: Source, kind: type[ast.AST]) -> list[tuple[int, str]]:
    """Return the nodes of a kind in a module, as they are written, each with its line."""
    return [(node.lineno, ast.unparse(node)) for node in source.nodes if isinstance(node, kind)]


@pytest.mark.parametrize("kind", KINDS)
def test_a_refusal_is_worded_in_one_place(kind: str):
    assert [line for each in HOUSE.package for line in worded_here(each, kind)] == []


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("must_be", 'raise TypeError(f"x must be an int, not {describe(x)}: write 1")'),
        ("unavailable", 'raise TypeError(f"{name} is not available on {device}")'),
        ("missing_extra", 'raise ImportError("f needs SciPy: pip install asyncgrad[scipy]")'),
        ("refuse_complex", 'raise TypeError(f"{name} takes a real x, not {x.dtype}")'),
    ],
)
def test_a_refusal_worded_elsewhere_is_found(kind: str, text: str):
    (line,) = worded_here(Source("elsewhere.py", "asyncgrad.elsewhere", text), kind)

    assert kind in line


def test_the_words_name_the_argument_what_it_must_be_what_it_is_and_what_to_write():
    assert must_be("x", "an int", "1", "write 1") == "x must be an int, not str '1': write 1"
    assert takes("f", "an int", None) == "f takes an int, not NoneType None"


def test_what_cannot_be_called_is_refused_with_the_error_of_its_caller():
    check_callable(print, "fn")
    with pytest.raises(HookTypeError, match="fn must be callable, not int 3: pass a function or an async def"):
        check_callable(3, "fn")
    with pytest.raises(ArgumentTypeError, match="fn must be callable with x, not int 3: pass f"):
        check_callable(3, "fn", "with x", "pass f", ArgumentTypeError)


@pytest.mark.parametrize("function", [np.quantile, np.percentile, np.nanquantile, np.nanpercentile])
def test_a_function_of_real_numbers_says_so_of_a_complex_argument(function):
    with pytest.raises(
        ArgumentTypeError, match=rf"{function.__name__}.* takes a real array, not complex128: pass a.real"
    ):
        function(ag.tensor([1j, 2.0]), 0.5)


def test_a_real_argument_is_not_refused():
    refuse_complex("f", "real numbers", np.ones(2))
