"""What stays as it is when modules move: names in logs and pickles, public modules, and files that are named."""

from __future__ import annotations

import ast
import fnmatch
import importlib
import inspect
import linecache
import logging
import pickle
import pickletools
import re
import sys
import tomllib
import traceback
import types
import weakref
from importlib.metadata import EntryPoint
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad.core.settings import source
from asyncgrad.core.settings.callers import is_own_file
from tests.support.house import ROOT, Source, dotted, own_house
from tests.support.leaves import leaf
from tools.reference import public_names

HOUSE = own_house()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())

#: The modules of SciPy's names are there with the extra, and those of a facade that is no name of `ag` by import alone.
PUBLIC_MODULES = [
    "asyncgrad",
    "asyncgrad.data",
    "asyncgrad.devices",
    "asyncgrad.devices.cpu",
    "asyncgrad.devices.cuda",
    "asyncgrad.devices.null",
    "asyncgrad.devices.thread",
    "asyncgrad.distributed",
    "asyncgrad.distributed.host",
    "asyncgrad.engine",
    "asyncgrad.errors",
    "asyncgrad.extend",
    "asyncgrad.func",
    "asyncgrad.functional",
    "asyncgrad.graph",
    "asyncgrad.learn",
    "asyncgrad.learn.http",
    "asyncgrad.nn",
    "asyncgrad.nn.init",
    "asyncgrad.nn.utils.rnn",
    "asyncgrad.numpy",
    "asyncgrad.numpy.fft",
    "asyncgrad.numpy.linalg",
    "asyncgrad.numpy.random",
    "asyncgrad.optim",
    "asyncgrad.optim.schedule",
    "asyncgrad.random",
    "asyncgrad.scipy.fft",
    "asyncgrad.scipy.integrate",
    "asyncgrad.scipy.interpolate",
    "asyncgrad.scipy.linalg",
    "asyncgrad.scipy.ndimage",
    "asyncgrad.scipy.optimize",
    "asyncgrad.scipy.signal",
    "asyncgrad.scipy.sparse",
    "asyncgrad.scipy.sparse.linalg",
    "asyncgrad.scipy.spatial",
    "asyncgrad.scipy.special",
    "asyncgrad.scipy.stats",
    "asyncgrad.sync",
    "asyncgrad.sync.func",
    "asyncgrad.testing",
    "asyncgrad.tree",
]


# --- modules and files ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", PUBLIC_MODULES)
def test_each_public_module_is_imported_by_its_name(name):
    assert importlib.import_module(name).__name__ == name


def test_each_module_that_the_documentation_names_is_there():
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    found = {
        name
        for page in pages
        for name in re.findall(r"(?:^|[^\w.])(?:import|from) (asyncgrad(?:\.\w+)+)", page.read_text())
    }

    assert found
    assert [name for name in sorted(found) if importlib.util.find_spec(name) is None and not _is_public(name)] == []


def _is_public(name: str) -> bool:
    module, _, last = name.rpartition(".")
    return hasattr(importlib.import_module(module), last)


def entry_points(project: dict[str, Any]) -> list[EntryPoint]:
    """Return all that a project declares: scripts, and what other packages look for."""
    groups = {"console_scripts": project.get("scripts", {}), "gui_scripts": project.get("gui-scripts", {})}
    groups |= project.get("entry-points", {})
    return [EntryPoint(name, value, group) for group, made in groups.items() for name, value in made.items()]


def test_an_entry_point_is_found_in_each_place_where_it_may_be_declared():
    project = {"scripts": {"a": "b:c"}, "gui-scripts": {"d": "e:f"}, "entry-points": {"pytest11": {"g": "h"}}}

    assert [each.name for each in entry_points(project)] == ["a", "d", "g"]


def test_each_entry_point_loads():
    for each in entry_points(PROJECT["project"]):
        assert each.load() is not None


def paths_of_project() -> list[str]:
    """Return the patterns of files that pyproject.toml has settings for."""
    ruff = PROJECT["tool"]["ruff"]
    data = PROJECT["tool"]["setuptools"]["package-data"]["asyncgrad"]
    patterns = [*ruff["lint"]["per-file-ignores"], *(f"asyncgrad/{each}" for each in data), *ruff["extend-exclude"]]
    return [made for each in patterns for made in _alternatives(each)]


def _alternatives(pattern: str) -> list[str]:
    """Write `a/{b,c}` as `a/b` and `a/c`."""
    found = re.match(r"(.*)\{([^}]*)\}(.*)", pattern)
    return [pattern] if found is None else [f"{found[1]}{each}{found[3]}" for each in found[2].split(",")]


@pytest.mark.slow
@pytest.mark.parametrize("pattern", paths_of_project())
def test_each_path_in_the_settings_of_the_project_has_a_file(pattern):
    folder = pattern.partition("*")[0].rpartition("/")[0]
    files = (path.relative_to(ROOT).as_posix() for path in (ROOT / folder).rglob("*"))

    assert any(fnmatch.fnmatch(path, pattern) for path in files)


# --- logs ----------------------------------------------------------------------------------------


def logger_names(source: Source) -> list[str]:
    """Return the name of each logger that a module asks for, as it is written."""
    return [
        ast.unparse(node.args[0]) if node.args else ""
        for node in source.nodes
        if isinstance(node, ast.Call) and dotted(node.func).rpartition(".")[2] == "getLogger"
    ]


def documented_loggers() -> set[str]:
    page = (ROOT / "docs" / "observing.md").read_text()
    return set(re.findall(r"^\| `(asyncgrad[.\w]*)` \|", page.partition("## Logs")[2], re.MULTILINE))


@pytest.mark.slow
@pytest.mark.usefixtures("parsed_house")
def test_each_logger_has_a_name_that_is_documented_whatever_its_module():
    known = {repr(name).replace("'", '"') for name in documented_loggers() | {"asyncgrad"}}
    asked = {(each.name, name.replace("'", '"')) for each in HOUSE.package for name in logger_names(each)}

    assert len(asked) > 8
    assert [each for each in sorted(asked) if each[1] not in known] == []


@pytest.mark.slow
@pytest.mark.usefixtures("parsed_house")
def test_each_documented_logger_is_asked_for():
    asked = {name.strip("'") for each in HOUSE.package for name in logger_names(each)}

    assert documented_loggers() <= asked
    assert "asyncgrad.engine" in logging.Logger.manager.loggerDict


# --- pickles -------------------------------------------------------------------------------------


def is_pickled_by_reference(thing: Any) -> bool:
    """Tell whether it is a class or a function; a method, such as `random.normal`, goes with its object."""
    return inspect.isclass(thing) or isinstance(thing, types.FunctionType)


def test_each_public_class_and_function_is_pickled_by_reference():
    things = {name: thing for name, thing in public_names().items() if is_pickled_by_reference(thing)}

    assert len(things) > 1000
    assert [name for name, thing in things.items() if pickle.loads(pickle.dumps(thing)) is not thing] == []


def test_errors_are_pickled_by_the_name_of_their_public_module():
    kinds = [getattr(ag.errors, name) for name in ag.errors.__all__]

    assert {kind.__module__ for kind in kinds} == {"asyncgrad.errors"}


def _error(kind: type[Any]) -> Any:
    return kind(400, "what is wrong") if issubclass(kind, ag.errors.RequestError) else kind("what is wrong")


@pytest.mark.parametrize("name", ag.errors.__all__)
def test_an_error_arrives_from_a_pickle_as_it_was(name):
    error = _error(getattr(ag.errors, name))

    arrived = pickle.loads(pickle.dumps(error))

    assert (type(arrived), arrived.args, str(arrived)) == (type(error), error.args, str(error))


def modules_in_pickle(thing: Any) -> set[str]:
    """Return the modules of asyncgrad that the pickle of a thing names."""
    strings = {argument for _, argument, _ in pickletools.genops(pickle.dumps(thing)) if isinstance(argument, str)}
    return {one for one in strings if one.partition(".")[0] == "asyncgrad"}


def _trained() -> Any:
    model = ag.nn.Sequential(ag.nn.Linear(2, 3), ag.nn.BatchNorm1d(3))
    optimizer = ag.optim.Adam(model.parameters())
    loss = model(ag.tensor(np.ones((4, 2)))).sum()
    ag.sync.backward(loss)
    optimizer.step()
    return model, optimizer


def checkpoints() -> dict[str, Any]:
    """Return what docs/training.md saves, and the tensors that a program may keep beside it."""
    model, optimizer = _trained()
    return {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "schedule": ag.optim.schedule.StepLR(optimizer, 3).state_dict(),
        "random": ag.random.get_state(),
        "tensor": ag.tensor([1.0, 2.0]),
        "leaf": leaf(1.0, 2.0),
        "device": ag.device("thread:1"),
        "elsewhere": ag.tensor([1.0], device="thread:1"),
    }


@pytest.mark.parametrize("name", checkpoints())
def test_what_a_checkpoint_holds_is_pickled_by_public_names(name):
    assert modules_in_pickle(checkpoints()[name]) <= {"asyncgrad", "asyncgrad.nn", "asyncgrad.optim"}


@pytest.mark.parametrize("requires_grad", [False, True])
def test_a_tensor_arrives_from_a_pickle_with_its_device_dtype_and_need_of_gradients(requires_grad):
    tensor = ag.tensor([1.0, 2.0], dtype=np.float32, device="thread:1", requires_grad=requires_grad)

    arrived = pickle.loads(pickle.dumps(tensor))

    assert arrived.tolist() == [1.0, 2.0]
    assert (arrived.dtype, arrived.device, arrived.requires_grad) == (np.float32, tensor.device, requires_grad)


# --- generated source ----------------------------------------------------------------------------

#: The module that may compile source.
COMPILES = {"asyncgrad.core.settings.source"}


def compilations(source: Source) -> list[str]:
    """Return where a module runs or compiles source."""
    return [
        source.at(
            node,
            f"{node.func.id}() of source: run it by asyncgrad.core.settings.source, so that tracebacks show its lines",
        )
        for node in source.nodes
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("exec", "compile", "eval")
    ]


def test_a_generated_function_that_is_dropped_leaves_nothing_to_the_garbage_collector():
    function = source.make_function("f(x)", ["return x"], "a test of dropping", {})
    dropped = weakref.ref(function)

    del function

    assert dropped() is None


@pytest.mark.parametrize("body", [["return x"], ["if x:", "    return x", "return None"]])
def test_the_body_of_a_generated_function_is_indented_by_its_writer(body: list[str]):
    function = source.make_function("f(x)", body, "a test of indentation", {})

    lines = linecache.getlines(function.__code__.co_filename)
    assert (function(1), lines[0]) == (1, "def f(x):\n")
    assert [line.removeprefix("    ").rstrip() for line in lines[1:]] == body


@pytest.mark.slow
@pytest.mark.usefixtures("parsed_house")
def test_generated_source_is_run_in_one_place():
    found = [line for each in HOUSE.package if each.module not in COMPILES for line in compilations(each)]

    assert found == []
    assert {each.module for each in HOUSE.package if compilations(each)} == COMPILES


def test_a_traceback_shows_the_line_of_generated_source_and_a_name_without_a_module():
    broken = source.make_function("broken(x)", ["return x / 0"], "a test of tracebacks", {})

    with pytest.raises(ZeroDivisionError) as caught:
        broken(1)

    shown = traceback.format_exception(caught.value)[-2]
    assert 'File "<asyncgrad: a test of tracebacks>", line 2, in broken\n    return x / 0\n' in shown


def test_another_source_of_the_same_name_has_a_file_name_of_its_own_and_the_same_source_has_not():
    texts = ["return 1", "return 2", "return 1"]

    functions = [source.make_function("f()", [text], "a test of names", {}) for text in texts]

    names = [function.__code__.co_filename for function in functions]
    assert names == ["<asyncgrad: a test of names>", "<asyncgrad: a test of names, 2>", "<asyncgrad: a test of names>"]
    assert [linecache.getline(name, 2).strip() for name in names] == texts


def test_functions_that_are_written_together_have_one_file_and_stand_in_no_namespace():
    namespace: dict[str, Any] = {"two": 2}

    f, g = source.make_functions({"f()": ["return two"], "g(x=two)": ["return x / 0"]}, "a test of pairs", namespace)

    assert (f(), g.__defaults__, g.__code__.co_firstlineno) == (2, (2,), 3)
    assert namespace.keys() - {"__builtins__"} == {"two"}
    assert f.__globals__ is g.__globals__ is namespace


def test_a_function_that_is_compiled_alone_has_its_lines_in_the_file():
    writer = source.SourceWriter({})
    for number in range(2):
        writer.begin(f"def f{number}()")
        writer.write(f"return {number} / 0")
    name = source.file_name("a test of one of two")

    function = writer.compile(2, 4, name, writer.namespace)
    writer.keep(name)

    with pytest.raises(ZeroDivisionError) as caught:
        function()
    assert f'File "{name}", line 4, in f1\n    return 1 / 0\n' in traceback.format_exception(caught.value)[-2]


@pytest.mark.parametrize(
    ("name", "written"),
    [("rate", "rate"), ("len", "len_2"), ("for", "for_2"), ("<lambda>", "_lambda_"), ("1st", "_1st"), ("x", "x_2")],
)
def test_a_constant_of_generated_source_has_a_name_that_means_nothing_else(name: str, written: str):
    writer = source.SourceWriter({"x": 1.0})
    value = object()

    made = writer.constant(name, value), writer.constant("another", value)

    assert made == (written, written)
    assert writer.namespace[written] is value


def test_the_code_of_an_operation_and_of_its_derivative_can_be_read():
    def names(action: Any) -> set[str]:
        found: set[str] = set()

        def trace(frame: Any, event: str, argument: Any) -> None:
            found.add(frame.f_code.co_filename)

        sys.setprofile(trace)
        try:
            action()
        finally:
            sys.setprofile(None)
        return {name for name in found if name.startswith(source.GENERATED)}

    y = []
    forward = names(lambda: y.append((np.sin(leaf(1.0, 2.0)) * 2.0).sum()))
    backward = names(lambda: ag.sync.backward(y[0]))

    assert "<asyncgrad: call of sin>" in forward
    assert any("derivative of sin" in name for name in backward)
    assert [name for name in forward | backward if not linecache.getlines(name)] == []


def test_files_of_the_package_and_generated_ones_are_told_from_those_of_users():
    ours = [
        sys.modules[name].__file__ for name in ("asyncgrad", "asyncgrad.core.tensor", "asyncgrad.core.engine.engine")
    ]

    assert all(map(is_own_file, [*ours, "<asyncgrad: call of sin>"]))
    assert not any(map(is_own_file, [__file__, np.__file__, "<stdin>", str(ROOT / "asyncgrad_user.py")]))
