"""Where the functions and the modules of a topic stand."""

from __future__ import annotations

import inspect
import re
from types import FunctionType
from typing import Any

from asyncgrad import nn

FUNCTIONS = {name.replace("_", ""): entry for name, entry in vars(nn).items() if isinstance(entry, FunctionType)}


def twin(module: type[nn.Module]) -> Any:
    """Return the function that a module is named after, or None: relu is that of ReLU, batch_norm of BatchNorm1d."""
    name = module.__name__.lower()
    names = [name, re.sub(r"\d+d$", "", name), name.removesuffix("loss")]
    return next((FUNCTIONS[each] for each in names if each in FUNCTIONS), None)


MODULES = [getattr(nn, name) for name in nn.__all__]
TWINS = [each for each in MODULES if inspect.isclass(each) and issubclass(each, nn.Module) and twin(each) is not None]


def topic(entry: Any) -> str:
    return str(inspect.unwrap(entry).__module__).rpartition(".")[2]


def test_a_module_and_its_function_are_in_files_of_one_name():
    assert [module.__name__ for module in TWINS if topic(module) != topic(twin(module))] == []


def test_the_functions_of_most_modules_are_found_by_their_names():
    assert len(TWINS) > 60
