"""The reference says what a reader looks for: each argument, the formula of each layer, a derivative that runs."""

from __future__ import annotations

import doctest
import importlib
import inspect
import re
from typing import Any

import pytest

from asyncgrad import nn, optim
from tools import derivative_examples, formulas, reference

#: Every class and function of neural networks and their training.
NETWORK = {
    f"{space.__name__}.{name}": getattr(space, name)
    for space in (nn, optim, optim.schedule)
    for name in space.__all__
    if not inspect.ismodule(getattr(space, name))
}


def undescribed(thing: Any) -> list[str]:
    """Return the parameters that the section Args of a docstring leaves out."""
    function = thing.__init__ if isinstance(thing, type) else thing
    if function is object.__init__:
        return []
    section = re.search(r"\nArgs:\n(.*?)(?:\n\n|\Z)", inspect.getdoc(thing) or "", re.DOTALL)
    told = re.findall(r"^    ([*\w, ]+):", section[1] if section else "", re.MULTILINE)
    described = {name.strip().lstrip("*") for names in told for name in names.split(",")}
    return [name for name in inspect.signature(function).parameters if name not in {"self", *described}]


def test_each_argument_of_a_layer_a_loss_and_an_optimizer_is_described() -> None:
    assert {name: missing for name, thing in NETWORK.items() if (missing := undescribed(thing))} == {}


def test_each_layer_loss_and_optimizer_has_a_formula_that_browsers_show() -> None:
    names = {name.rpartition(".")[2] for name in NETWORK if ".schedule." not in name}
    shown = {name: formulas.as_mathml(formula) for name, formula in formulas.FORMULAS.items()}

    assert names == formulas.FORMULAS.keys() | formulas.WITHOUT
    assert not formulas.FORMULAS.keys() & formulas.WITHOUT
    assert all(text.startswith("<math") and "\\" not in text for text in shown.values())


def test_a_formula_that_docutils_does_not_know_is_refused() -> None:
    with pytest.raises(ValueError, match="Unknown LaTeX command"):
        formulas.as_mathml(r"\nosuchcommand{x}")


def test_no_page_of_the_reference_names_an_entry_twice_and_layers_stand_by_kind() -> None:
    pages = reference.pages()

    assert [line for text in pages.values() for line in re.findall(r"^\.\. py:data:: asyncgrad\..*", text, re.M)] == []
    assert {f"asyncgrad.nn-{kind}" for kind in reference.kinds()} <= pages.keys()
    assert ".. autoclass:: asyncgrad.nn.Conv2d\n" in pages["asyncgrad.nn-convolution"]
    assert ".. autoclass::" not in pages["asyncgrad.nn"]


def test_classes_without_a_constructor_to_call_are_public() -> None:
    assert reference.GIVEN - reference.public_names().keys() == set()


@pytest.mark.parametrize(
    ("name", "page"),
    [
        ("asyncgrad.numpy.exp", "https://numpy.org/doc/stable/reference/generated/numpy.exp.html"),
        ("asyncgrad.numpy.linalg.norm", "https://numpy.org/doc/stable/reference/generated/numpy.linalg.norm.html"),
        ("asyncgrad.numpy.double", "https://numpy.org/doc/stable/reference/arrays.scalars.html#numpy.float64"),
        ("asyncgrad.numpy.pi", "https://numpy.org/doc/stable/reference/constants.html#numpy.pi"),
        ("asyncgrad.numpy.newaxis", "https://numpy.org/doc/stable/reference/constants.html#numpy.newaxis"),
        ("asyncgrad.numpy.r_", "https://numpy.org/doc/stable/reference/generated/numpy.r_.html"),
        ("asyncgrad.numpy.ma", "https://numpy.org/doc/stable/reference/routines.ma.html"),
        ("asyncgrad.numpy.linalg", None),
        ("asyncgrad.nn.relu", None),
    ],
)
def test_a_name_of_numpy_leads_to_numpy_s_page(name: str, page: str | None) -> None:
    assert reference.page_of(name) == page


def test_a_derivative_s_example_runs_as_printed() -> None:
    names = ("exp", "logaddexp", "arccosh", "linalg.det", "linalg.solve", "matmul")
    examples = {name: "\n".join(derivative_examples.example_of(f"asyncgrad.numpy.{name}")) for name in names}
    told: list[str] = []
    for name, text in examples.items():
        test = doctest.DocTestParser().get_doctest(f"{text}\n", {}, name, name, 0)
        doctest.DocTestRunner(verbose=False).run(test, out=told.append)

    assert "".join(told) == ""
    assert all(text.count(">>>") >= 4 for text in examples.values())
    assert derivative_examples.example_of("asyncgrad.numpy.sign") == ()


def test_signatures_show_defaults_as_a_program_writes_them_and_the_arguments_of_init() -> None:
    pytest.importorskip("sphinx", reason="Sphinx is not installed: pip install --group docs")
    pytest.importorskip("furo", reason="furo is not installed: pip install --group docs")
    extension = importlib.import_module("tools.docs_extension")
    generic = "(*args: object, **kwargs: object)"

    def shown(name: str, signature: str) -> tuple[str, str | None]:
        thing = reference.public_names()[name]
        found: tuple[str, str | None] = extension._shorten(None, "class", name, thing, None, signature, "")
        return found

    assert shown("asyncgrad.nn.Linear", generic)[0].startswith(
        "(in_features: int, out_features: int, bias: bool = True,"
    )
    assert shown("asyncgrad.nn.Tanh", generic)[0] == "()"
    assert shown("asyncgrad.engine.GraphTask", "(root: Node)") == ("", "")
    assert extension.as_written("(dtype=<class 'numpy.float64'>)") == "(dtype=numpy.float64)"
    assert extension.as_written("(a=<function _identity>, b=<factory>)") == "(a=..., b=...)"
    assert extension.as_written("(clock=<built-in function monotonic>)") == "(clock=monotonic)"
    assert extension.as_written("(keepdims=<no value>, *args: ~typing.~P)") == "(keepdims=..., *args: P)"


def test_an_entry_links_to_numpy_s_page_ahead_of_its_example_and_once() -> None:
    pytest.importorskip("sphinx", reason="Sphinx is not installed: pip install --group docs")
    pytest.importorskip("furo", reason="furo is not installed: pip install --group docs")
    extension = importlib.import_module("tools.docs_extension")
    page = "https://numpy.org/doc/stable/reference/generated/numpy.arange.html"

    def told(name: str, *lines: str) -> list[str]:
        found = list(lines)
        extension._tell_more(None, "function", name, None, None, found)
        return [line for line in found if line]

    assert told("asyncgrad.numpy.arange", "A range.", "", "Example:", "    >>> 1") == [
        *("A range.", f"NumPy's page: `numpy.arange <{page}>`__.", "Example:", "    >>> 1")
    ]
    assert told("asyncgrad.numpy.arange", "A range.")[1:] == [f"NumPy's page: `numpy.arange <{page}>`__."]
    assert told("asyncgrad.tree.map", "A law.") == ["A law."]
    assert len(told("asyncgrad.scipy.special.erf", "A law.", "", "Source: scipy.special.erf.")) == 2


def test_no_entry_shows_what_python_prints_of_objects() -> None:
    pages = reference.pages()

    assert "The module `asyncgrad.hips.numpy`." in pages["asyncgrad.hips"]
    assert ".. autodata:: asyncgrad.numpy.r_\n   :no-value:\n" in pages["asyncgrad.numpy"]
    assert ".. autoclass:: asyncgrad.graph.AccumulateGrad\n\n" in pages["asyncgrad.graph"]
