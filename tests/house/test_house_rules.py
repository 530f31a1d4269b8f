"""The rules of the house can fail: each is shown a small package that breaks it, and names the line."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import Any

import pytest

from tests.support import house_rules as rules
from tests.support.house import House


@pytest.fixture
def build(tmp_path: Path):
    """Write files, given as `{path: text}`, and read them as a house."""

    def write(files: dict[str, str]) -> House:
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return House.read(tmp_path)

    return write


#: The modules that the imports below name, so that a submodule is told from a name.
MODULES = {
    f"asyncgrad/{path}": ""
    for path in (
        "__init__.py",
        "core/__init__.py",
        "core/arrays/tensor_base.py",
        "core/arrays/values.py",
        "core/engine/device.py",
        "core/engine/engine.py",
        "core/function/function.py",
        "core/graph/node.py",
        "core/ops/sums.py",
        "core/settings/context.py",
        "core/tensor.py",
        "core/views/nodes.py",
        "errors.py",
        "extend.py",
        "graph.py",
        "nn/__init__.py",
        "sync.py",
    )
} | {"devices/__init__.py": "", "devices/cpu.py": ""}


def module_name(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".").replace("devices", "asyncgrad.devices")


@pytest.mark.parametrize(
    ("path", "line", "message"),
    [
        (
            "errors.py",
            "from .core.settings.context import x",
            "asyncgrad.errors (errors) may not import asyncgrad.core.settings.context (settings)",
        ),
        ("core/settings/context.py", "from ..graph import node", "may not import asyncgrad.core.graph.node (graph)"),
        ("core/arrays/values.py", "from ..graph.node import Node", "may not import asyncgrad.core.graph.node (graph)"),
        ("core/graph/node.py", "from ..ops.sums import sum", "may not import asyncgrad.core.ops.sums (ops)"),
        ("core/graph/node.py", "from ..engine import engine", "may not import asyncgrad.core.engine.engine (engine)"),
        ("core/graph/node.py", "from ...graph import Node", "may not import asyncgrad.graph (facade)"),
        ("core/ops/sums.py", "from ..engine.engine import E", "may not import asyncgrad.core.engine.engine (engine)"),
        ("core/views/nodes.py", "import asyncgrad.core.engine.engine", "may not import asyncgrad.core.engine.engine"),
        ("core/views/nodes.py", "from ..ops.sums import sum", "may not import asyncgrad.core.ops.sums (ops)"),
        ("core/function/function.py", "from asyncgrad.core.tensor import T", "may not import asyncgrad.core.tensor"),
        (
            "core/engine/engine.py",
            "from ..views.nodes import Copy",
            "may not import asyncgrad.core.views.nodes (views)",
        ),
        ("core/engine/engine.py", "from ..ops import sums", "may not import asyncgrad.core.ops.sums (ops)"),
        ("core/tensor.py", "from ..sync import backward", "may not import asyncgrad.sync (transforms)"),
        ("core/tensor.py", "from .. import Tensor", "may not import asyncgrad (facade)"),
        ("sync.py", "import asyncgrad as ag", "may not import asyncgrad (facade)"),
        ("sync.py", "from . import devices", "imports asyncgrad.devices: devices are found by name"),
        ("sync.py", "from .testing import gradcheck", "may not import asyncgrad.testing (testing)"),
        ("numpy.py", "from .scipy import special", "may not import asyncgrad.scipy (scipy)"),
        ("nn/__init__.py", "from ..optim import SGD", "may not import asyncgrad.optim (optim)"),
        ("optim.py", "from .nn import Module", "may not import asyncgrad.nn (nn)"),
        ("scipy.py", "from .nn import relu", "may not import asyncgrad.nn (nn)"),
        ("learn.py", "from .distributed import stage", "may not import asyncgrad.distributed (distributed)"),
        ("distributed.py", "from .learn import Learner", "may not import asyncgrad.learn (learn)"),
        ("observing/trace.py", "from ..memory import checkpoint", "may not import asyncgrad.memory (memory)"),
        ("__init__.py", "from .devices.cpu import Cpu as Cpu", "imports asyncgrad.devices.cpu: devices are found"),
    ],
)
def test_an_import_against_the_order_is_named(build: Any, path: str, line: str, message: str):
    house = build(MODULES | {f"asyncgrad/{path}": f"import os\n{line}\n"})

    (violation,) = rules.import_order(house, house[module_name(f"asyncgrad/{path}")])

    assert violation.startswith(f"asyncgrad/{path}:2: ")
    assert message in violation


@pytest.mark.parametrize(
    "line", ["from ..core.tensor import T", "from asyncgrad.core.graph.node import T", "from ..engine import T"]
)
def test_a_device_imports_only_what_devices_may(build: Any, line: str):
    allowed = (
        "from ..core.engine.device import Device\nfrom ..core.arrays import values\nfrom .. import errors\n"
        "from . import cpu\n"
    )
    house = build(MODULES | {"devices/thread.py": allowed + line})

    (violation,) = rules.import_order(house, house["asyncgrad.devices.thread"])

    assert violation.startswith("devices/thread.py:5: a device may not import")


def test_imports_down_the_layers_are_no_violation(build: Any):
    house = build(
        MODULES
        | {
            "asyncgrad/__init__.py": "from .sync import backward as backward\nfrom .graph import Node as Node",
            "asyncgrad/graph.py": "from .core.views.nodes import CopySlices as CopySlices",
            "asyncgrad/core/ops/sums.py": "import numpy\nfrom ..graph.node import Node\nfrom ..views.nodes import X",
            "asyncgrad/core/tensor.py": "from .engine.engine import Engine\nfrom .ops.sums import sum",
            "asyncgrad/sync.py": "from .core.engine.engine import Engine",
            "asyncgrad/nn/__init__.py": "from ..sync import backward",
        }
    )

    assert [line for source in house.package for line in rules.import_order(house, source)] == []


@pytest.mark.parametrize("path", ["settings/context", "views/nodes"])
def test_a_type_hint_names_nothing_that_lies_above_or_across(build: Any, path: str):
    hints = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from ..engine.engine import X\n"
    house = build(MODULES | {f"asyncgrad/core/{path}.py": hints})

    assert len(rules.import_order(house, house[module_name(f"asyncgrad/core/{path}.py")])) == 1


@pytest.mark.parametrize(
    "line",
    [
        "import_module('asyncgrad.extend')",
        "importlib.import_module(f'asyncgrad.nn.{name}')",
        "import_module(f'{__package__}.extend')",
        "import_module('.extend', __package__)",
        "__import__('asyncgrad.extend')",
        "importlib.util.find_spec('asyncgrad.extend')",
        "found = sys.modules['asyncgrad.extend']",
        "found = sys.modules.get('asyncgrad.extend')",
        "TABLE = {'scipy': 'asyncgrad.extend'}",
        "__getattr__, __dir__ = attach(__name__, {'.extend': ['Tensor']})",
        "__getattr__, __dir__ = attach(__name__, {}, first='.extend')",
        "__getattr__, __dir__ = attach(__name__, {}, deferred={'a': '.extend'})",
        "is_tensors = frame.f_globals['__name__'] == 'asyncgrad.extend'",
    ],
)
def test_a_string_that_names_a_module_is_an_import_of_it(build: Any, line: str):
    house = build(MODULES | {"asyncgrad/errors.py": f"import importlib\n{line}\n"})

    (violation,) = rules.import_order(house, house["asyncgrad.errors"])

    assert violation.startswith("asyncgrad/errors.py:2: asyncgrad.errors (errors) may not import asyncgrad.")


@pytest.mark.parametrize(
    "line",
    [
        "'asyncgrad.extend'",
        "def f():\n    'asyncgrad.extend'",
        "logging.getLogger('asyncgrad.engine')",
        "raise TypeError(f'asyncgrad.extend.{name} is for tensors')",
        "ValueError('asyncgrad.extend has it')",
        "name.split('.extend')",
    ],
)
def test_a_string_of_documentation_or_of_a_message_or_the_name_of_a_logger_is_no_import(build: Any, line: str):
    house = build(MODULES | {"asyncgrad/errors.py": line})

    assert house.imports(house["asyncgrad.errors"]) == []


def test_a_string_closes_a_cycle(build: Any):
    house = build(
        MODULES
        | {
            "asyncgrad/core/graph/node.py": "from ..settings.context import mode",
            "asyncgrad/core/settings/context.py": "TABLE = ['asyncgrad.core.graph.node']",
        }
    )

    (cycle,) = rules.import_cycles(house)

    assert cycle == "asyncgrad.core.graph.node -> asyncgrad.core.settings.context -> asyncgrad.core.graph.node"


def test_devices_are_found_by_name_where_devices_are_opened_alone(build: Any):
    house = build(
        MODULES
        | {
            "asyncgrad/core/engine/device.py": "import_module(f'asyncgrad.devices.{kind}')",
            "asyncgrad/core/engine/engine.py": "import_module(f'asyncgrad.devices.{kind}')",
        }
    )

    assert rules.import_order(house, house["asyncgrad.core.engine.device"]) == []
    assert len(rules.import_order(house, house["asyncgrad.core.engine.engine"])) == 1


def test_a_module_without_a_layer_is_named(build: Any):
    house = build({"asyncgrad/helpers.py": ""})

    (violation,) = rules.import_order(house, house["asyncgrad.helpers"])

    assert violation.startswith("asyncgrad/helpers.py:1: asyncgrad.helpers has no place")


@pytest.mark.parametrize("line", ["import numpy as np", "from numpy.linalg import norm", "import numpy.random"])
def test_numpy_in_the_engine_is_named(build: Any, line: str):
    house = build({"asyncgrad/core/engine/engine.py": line})

    (violation,) = rules.numpy_in_engine(house, house["asyncgrad.core.engine.engine"])

    assert violation.startswith("asyncgrad/core/engine/engine.py:1: the engine imports numpy")


def test_a_cycle_is_named_from_end_to_end(build: Any):
    house = build(
        MODULES
        | {
            "asyncgrad/errors.py": "from .core.settings import context",
            "asyncgrad/core/settings/context.py": "from ..graph.node import Node",
            "asyncgrad/core/graph/node.py": "from ...errors import Error",
        }
    )

    (cycle,) = rules.import_cycles(house)

    modules = ["asyncgrad.core.graph.node", "asyncgrad.errors", "asyncgrad.core.settings.context"]
    assert cycle == " -> ".join([*modules, modules[0]])


def test_a_type_hint_closes_a_cycle(build: Any):
    house = build(
        MODULES
        | {
            "asyncgrad/core/graph/node.py": "if TYPE_CHECKING:\n    from ..arrays.values import Value",
            "asyncgrad/core/arrays/values.py": "from ..graph.node import Node",
        }
    )

    (cycle,) = rules.import_cycles(house)

    assert cycle == "asyncgrad.core.arrays.values -> asyncgrad.core.graph.node -> asyncgrad.core.arrays.values"


def test_a_lazy_facade_that_imports_a_name_from_elsewhere_than_it_shows_is_named(build: Any):
    house = build(
        {
            "asyncgrad/__init__.py": "if TYPE_CHECKING:\n    from .sync import run as run\n"
            "__getattr__, __dir__ = attach(__name__, {'.loops': ['run']})"
        }
    )

    assert sorted(rules.lazy_names(house["asyncgrad"])) == [
        "asyncgrad/__init__.py:1: run is imported from .loops here, and not there",
        "asyncgrad/__init__.py:1: run is imported from .sync here, and not there",
    ]


def test_an_import_inside_a_function_is_named_unless_it_may_be_missing(build: Any):
    house = build({"examples/draw.py": "def f():\n    import torch\n    import matplotlib.pyplot\n    import json\n"})

    assert rules.deferred_imports(house, house["examples.draw"]) == [
        "examples/draw.py:4: imports json inside a function: import it at the top"
    ]


def test_an_import_for_type_hints_of_what_is_imported_at_run_time_is_named(build: Any):
    runs = "import ast\nfrom typing import TYPE_CHECKING\n"
    hints = "if TYPE_CHECKING:\n    import ast\n    from collections import Counter\n"
    house = build({"asyncgrad/sync.py": runs + hints})

    assert rules.imported_again(house["asyncgrad.sync"]) == [
        "asyncgrad/sync.py:4: ast is imported at run time anyway: do not import it for type hints again"
    ]


@pytest.mark.parametrize(
    "code",
    [
        "import warnings\nwarnings._showwarnmsg = show",
        "import sys\nsys.meta_path.insert(0, finder)",
        "import sys\nsys.meta_path[:] = []",
        "import sys\nsys.excepthook = show",
        "import sys\nsys.excepthook, x = show, 1",
        "import sys\ndel sys.modules['a']",
        "import gc\ngc.callbacks.append(f)",
        "import gc\ngc.set_threshold(1)",
        "from gc import set_threshold\nset_threshold(1)",
        "import atexit\natexit.register(f)",
        "import os\nos.register_at_fork(after_in_child=f)",
        "import os\nos.environ['A'] = 'b'",
        "from os import environ\nenviron['A'] = 'b'",
        "import os\nos.environ.update(a='b')",
        "from os import environ\nenviron.update(a='b')",
        "import signal as s\ns.signal(1, f)",
        "import faulthandler\nfaulthandler.enable()",
        "import numpy as np\nnp.sum.__doc__ = ''",
        "import numpy as np\nnp.seterr(all='ignore')",
        "import numpy as np\nsetattr(np, 'sum', f)",
        "import linecache\nvars(linecache)['cache'] = {}",
        "import linecache\nlinecache.cache.pop('a')",
        "import logging\nlogging.getLogger('a').addHandler(h)",
        "import warnings\nwarnings.simplefilter('ignore')",
    ],
)
def test_an_effect_on_the_process_is_named_but_in_the_module_of_effects(build: Any, code: str):
    house = build({"asyncgrad/core/tensor.py": code, "asyncgrad/core/settings/process.py": code})

    (violation,) = rules.process_effects(house["asyncgrad.core.tensor"])

    assert violation.startswith("asyncgrad/core/tensor.py:2: ")
    assert rules.process_effects(house["asyncgrad.core.settings.process"]) == []


def test_what_reads_the_process_or_changes_what_is_ones_own_is_no_effect(build: Any):
    code = (
        "import os, sys, numpy as np\nfrom .a import table\n"
        "x = os.environ.get('A'); y = sys.modules.get('a'); own = {}; own['a'] = 1; own.update(b=2)\n"
        "table['a'] = np.add; self.x = np.insert(a, 0, 1); heapq.heappush(own, 1)"
    )
    house = build({"asyncgrad/core/tensor.py": code})

    assert rules.process_effects(house["asyncgrad.core.tensor"]) == []


def test_a_long_function_is_named_and_a_long_file_is_not(build: Any):
    fits = "@cache\ndef fits():\n" + "    x = 1\n" * 59
    too_long = "async def too_long():\n" + "    x = 1\n" * 60
    house = build({"asyncgrad/sync.py": fits + too_long, "benchmarks/wide.py": "x = 1\n" * 401})

    assert rules.sizes(house["asyncgrad.sync"]) == [
        "asyncgrad/sync.py:62: too_long has 61 lines, of at most 60",
    ]
    assert rules.sizes(house["benchmarks.wide"]) == []


@pytest.mark.parametrize(
    "code",
    [
        "asyncio.create_task(f())",
        "self.loop.create_task(f())",
        "make = loop.create_task",
        "asyncio.gather(a, b)",
        "asyncio.Task(f())",
        "asyncio.TaskGroup()",
        "from asyncio import ensure_future",
        "asyncio.run(f())",
        "loop.run_until_complete(f())",
    ],
)
def test_an_asyncio_task_made_outside_the_engine_is_named(build: Any, code: str):
    house = build(
        {"asyncgrad/core/engine/node_task.py": f"x = 1\n{code}\n", "asyncgrad/core/engine/eager_task.py": code}
    )

    (violation,) = rules.task_creation(house["asyncgrad.core.engine.node_task"])

    assert violation.startswith("asyncgrad/core/engine/node_task.py:2: ")
    assert rules.task_creation(house["asyncgrad.core.engine.eager_task"]) == []


@pytest.mark.parametrize(
    ("code", "home"),
    [
        ("c.send(None)", "core/settings/without_suspending.py"),
        ("async def f(x): return await x if isawaitable(x) else x", "core/settings/awaiting.py"),
    ],
)
def test_what_is_done_in_one_way_is_named_where_it_is_done_again(build: Any, code: str, home: str):
    house = build({"asyncgrad/core/tensor.py": f"x = 1\n{code}\n", f"asyncgrad/{home}": code})

    (violation,) = rules.one_place(house["asyncgrad.core.tensor"])

    assert violation.startswith("asyncgrad/core/tensor.py:2: ")
    assert rules.one_place(house[f"asyncgrad.{home.removesuffix('.py').replace('/', '.')}"]) == []


def test_waiting_and_naming_a_task_is_no_task_creation(build: Any):
    code = "from asyncio import Task\ndef f(t: Task[None], u: asyncio.Task[None]): event.wait(); asyncio.timeout(1)"
    house = build({"devices/cpu.py": code})

    assert rules.task_creation(house["asyncgrad.devices.cpu"]) == []


@pytest.mark.parametrize("code", ["import asyncio", "from asyncio import Event", "async def f():\n    pass"])
def test_a_state_machine_that_could_suspend_is_named(build: Any, code: str):
    house = build({"asyncgrad/core/engine/queues.py": code})

    (violation,) = rules.suspension(house, house["asyncgrad.core.engine.queues"])

    assert violation.startswith("asyncgrad/core/engine/queues.py:1: ")


GOOD_FACADE = """\
'''A facade.'''
from . import nn as nn
from .a import b as b
__all__ = ["b", "nn"]
"""


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("b as b", "b", "3: write `from .a import b as b`"),
        ("b as b", "c as b", "3: write `from .a import c as c`"),
        ('["b", "nn"]', '["nn", "b"]', "4: __all__ is not sorted"),
        ('["b", "nn"]', '["b"]', "4: __all__ lacks ['nn']"),
        ('["b", "nn"]', '["b", "c", "nn"]', "4: __all__ names ['c'], which the facade does not import"),
        ('["b", "nn"]', '["b", "b", "nn"]', "4: __all__ repeats ['b']"),
        ('__all__ = ["b", "nn"]', "", "1: no __all__"),
        ('__all__ = ["b", "nn"]', '__all__ = ["b", "nn"]\nx = 1', "5: a facade holds only"),
        ("'''A facade.'''\n", "import os\n", "1: a facade holds only"),
    ],
)
def test_a_facade_that_holds_more_than_names_is_named(build: Any, old: str, new: str, message: str):
    good = build({"asyncgrad/__init__.py": GOOD_FACADE})
    bad = build({"asyncgrad/__init__.py": GOOD_FACADE.replace(old, new)})

    assert rules.facade(good["asyncgrad"]) == []
    assert [line for line in rules.facade(bad["asyncgrad"]) if f"asyncgrad/__init__.py:{message}" in line]


CLASSES = """\
class Loose: 'A class.'
class Seemingly(Loose): ...
@final
class Closed: ...
class Base: 'Abstract: a thing.'
class Wrong(Mine): ...
class Pair(NamedTuple): ...
class Able(Protocol[T]): ...
class Kind(enum.Enum): ...
"""


def test_a_class_neither_abstract_nor_final_is_named(build: Any):
    house = build(
        {
            "asyncgrad/errors.py": "class Mine(RuntimeError): ...\n",
            "asyncgrad/sync.py": CLASSES,
        }
    )

    assert [line.partition(" is neither")[0] for line in rules.unsealed_classes(house, house["asyncgrad.sync"])] == [
        "asyncgrad/sync.py:1: class Loose",
        "asyncgrad/sync.py:2: class Seemingly",
    ]


def test_public_names_without_words_or_examples_are_named():
    def mute(): ...

    def told():
        """Tell, without an example."""

    def shown():
        """Show.

        >>> 1 + 1
        2
        """

    assert rules.undocumented("mute", mute) == ["mute has no docstring"]
    assert rules.undocumented("told", told) == ["told has no example (>>>) in its docstring"]
    assert rules.undocumented("shown", shown) == []
    assert rules.undocumented("enum", enum) == []


def test_public_methods_without_words_are_named():
    class Thing:
        """A thing.

        >>> 1 + 1
        2
        """

        def said(self):
            """Say."""

        def unsaid(self): ...

        @property
        def bare(self): ...

        @classmethod
        def made(cls): ...

        def _private(self): ...

    Thing.__module__ = "asyncgrad.thing"

    assert rules.undocumented("Thing", Thing) == [
        "Thing.bare has no docstring",
        "Thing.made has no docstring",
        "Thing.unsaid has no docstring",
    ]
