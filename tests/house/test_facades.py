"""Facades: what `ag.<TAB>` offers, and when each name is imported."""

from __future__ import annotations

import importlib
import importlib.util
import pickle
import pydoc
import re
import rlcompleter
from types import ModuleType

import pytest

import asyncgrad as ag
from tests.support.processes import run_each, run_python
from tests.support.sampling import SHARE, some

FACADES = [
    "asyncgrad",
    "asyncgrad.data",
    "asyncgrad.devices",
    "asyncgrad.engine",
    "asyncgrad.extend",
    "asyncgrad.func",
    "asyncgrad.functional",
    "asyncgrad.graph",
    "asyncgrad.hips",
    "asyncgrad.hips.extend",
    "asyncgrad.nn",
    "asyncgrad.nn.init",
    "asyncgrad.numpy.random",
    "asyncgrad.optim",
    "asyncgrad.optim.schedule",
    "asyncgrad.random",
    "asyncgrad.sync",
    "asyncgrad.sync.func",
    "asyncgrad.testing",
    "asyncgrad.tree",
]

#: The functions of a facade that have the name of one of its modules.
NAMESAKES = [
    (name, each)
    for name in (*FACADES, "asyncgrad.distributed")
    if hasattr(importlib.import_module(name), "__path__")
    for each in importlib.import_module(name).__all__
    if importlib.util.find_spec(f"{name}.{each}") is not None and callable(getattr(importlib.import_module(name), each))
]

#: The packages that no backward needs.
ON_DEMAND = {"data", "func", "functional", "memory", "nn", "observing", "optim", "testing", "transforms"}


def completions(facade: ModuleType) -> list[str]:
    """What Python's completion offers behind `facade.`, without the names that every object has."""
    completer = rlcompleter.Completer({"facade": facade})
    found = completer.attr_matches("facade.")
    return [name.removeprefix("facade.").rstrip("()") for name in found if not name.startswith("facade.__")]


@pytest.mark.parametrize("name", FACADES)
def test_completion_offers_the_public_names_of_a_facade_and_nothing_else(name):
    facade = importlib.import_module(name)

    assert sorted(completions(facade)) == sorted(facade.__all__)


@pytest.mark.parametrize("name", FACADES)
def test_each_public_name_of_a_facade_can_be_imported(name):
    facade = importlib.import_module(name)

    assert [each for each in facade.__all__ if not hasattr(facade, each)] == []


@pytest.mark.parametrize("name", ["asyncgrad", "asyncgrad.graph", "asyncgrad.engine"])
def test_a_name_that_a_facade_has_not_is_an_attribute_error_that_names_both(name):
    facade = importlib.import_module(name)

    with pytest.raises(AttributeError, match=f"module '{name}' has no attribute 'tensors'"):
        facade.tensors


def test_import_asyncgrad_alone_loads_no_other_package():
    program = (
        "import sys; import asyncgrad; "
        "print(sorted({'numpy', 'asyncio', 'uvloop', 'inspect', 'asyncgrad.tensor'} & set(sys.modules)))"
    )

    assert run_python(program) == "[]"


def test_the_first_name_that_is_used_loads_what_a_backward_needs():
    program = (
        "import sys; import asyncgrad as ag; ag.run; before = set(sys.modules); "
        "x = ag.tensor(2.0, requires_grad=True); ag.run((x * x).backward()); "
        "print(x.grad.item(), sorted(name for name in set(sys.modules) - before if name.startswith('asyncgrad')))"
    )

    assert run_python(program) == "4.0 []"


def test_a_first_tensor_loads_no_package_that_a_backward_does_not_need():
    program = (
        "import sys, asyncgrad as ag; ag.tensor(1.0); print(*(name for name in sys.modules if 'asyncgrad.' in name))"
    )

    assert {module.split(".")[1] for module in run_python(program).split()} & ON_DEMAND == set()


#: `__future__` and `importlib` are one small file each; the others are what a queue and a cache need.
ALLOWED = {"__future__", "_bisect", "_queue", "bisect", "copy", "gc", "importlib", "queue"}


def test_a_first_tensor_loads_little_of_the_standard_library_that_numpy_and_asyncio_do_not():
    program = (
        "import sys, numpy, asyncio; before = set(sys.modules); import asyncgrad as ag; ag.tensor(1.0); "
        "print(*({name.split('.')[0] for name in set(sys.modules) - before} & set(sys.stdlib_module_names)))"
    )

    assert set(run_python(program).split()) <= ALLOWED


def test_functions_with_the_name_of_their_module_are_among_those_tested():
    assert {each for name, each in NAMESAKES if name == "asyncgrad.distributed"} == {"http_app", "pipeline", "stage"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "before",
    [
        "",
        "import asyncgrad.sync",
        "import {facade} as f; f.{name}",
        "from {facade} import {name}",
        "from {facade} import *",
    ],
)
def test_a_function_is_never_hidden_by_the_module_of_its_name(before):
    chosen = some(NAMESAKES, 3 * SHARE, of=before)
    programs = [
        f"{before.format(facade=facade, name=name)}\n"
        f"import importlib, {facade} as f\n"
        f"importlib.import_module('{facade}.{name}')\n"
        f"from {facade} import {name}\n"
        f"print('{name}', callable(f.{name}), {name} is f.{name})"
        for facade, name in chosen
    ]

    assert run_each(programs) == [f"{name} True True" for _, name in chosen]


def test_a_star_import_gives_all_public_names():
    program = "from asyncgrad import *\nimport asyncgrad\nprint([n for n in asyncgrad.__all__ if n not in globals()])"

    assert run_python(program) == "[]"


def test_a_pickled_tensor_is_loaded_where_nothing_has_been_used_yet():
    pickled = pickle.dumps(ag.tensor([1.0, 2.0]))

    assert run_python(f"import pickle; print(pickle.loads({pickled!r}).tolist())") == "[1.0, 2.0]"


@pytest.mark.parametrize("facade", ["asyncgrad", "asyncgrad.distributed", "asyncgrad.engine", "asyncgrad.graph"])
def test_a_lazy_facade_is_pickled_by_its_name(facade):
    # A function that refers to one can then be sent to a worker.
    module = importlib.import_module(facade)

    assert pickle.loads(pickle.dumps(module)) is module


def test_two_threads_that_use_a_name_first_at_the_same_time_get_the_same_object():
    program = (
        "import asyncgrad as ag, threading\n"
        "found, start = [], threading.Barrier(2)\n"
        "def use():\n"
        "    start.wait()\n"
        "    found.append(ag.tensor)\n"
        "threads = [threading.Thread(target=use) for _ in range(2)]\n"
        "[thread.start() for thread in threads]\n"
        "[thread.join() for thread in threads]\n"
        "print(len(found), found[0] is found[1], callable(found[0]))"
    )

    assert run_python(program) == "2 True True"


@pytest.mark.slow
@pytest.mark.sampled
@pytest.mark.parametrize("name", FACADES)
def test_help_describes_each_public_function_of_a_facade(name):
    facade = importlib.import_module(name)

    page = pydoc.plain(pydoc.render_doc(facade))

    assert [each for each in facade.__all__ if re.search(rf"\b{each}\b", page) is None] == []


@pytest.mark.slow
def test_each_facade_is_imported_first_without_a_warning():
    strict = "import warnings; warnings.simplefilter('error')"
    programs = [f"{strict}; from {name} import *; print('ok')" for name in FACADES]

    assert run_each(programs) == ["ok"] * len(FACADES)


def test_a_facade_can_be_reloaded():
    program = (
        "import importlib, asyncgrad as ag; ag.tensor; importlib.reload(ag); print(callable(ag.tensor), ag.nn.relu)"
    )

    assert run_python(program).startswith("True <function relu")
