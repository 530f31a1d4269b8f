"""What type hints leave unsaid: public signatures with Any, the share of hints with it, and silenced type checkers.

Both limits are what was counted last. Whoever says more by hints lowers them. `Callable[..., Any]` is allowed in public
signatures: a function of the user's, of which nothing is known.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase

import pytest

from tests.support.house import House, Source, own_house
from tests.support.public_hints import Hint, public_hints, says_any

#: Of 1000 type hints of the package and the devices, how many name Any.
MOST_ANY = 431
#: How many comments silence the type checker there.
MOST_SILENCED = 55


@pytest.fixture(scope="module")
def house(parsed_house: None) -> House:
    return own_house()


def _hints(source: Source) -> Iterator[ast.expr]:
    """Yield the type hints of parameters, results, attributes and variables."""
    for node in source.nodes:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            given = node.args
            every = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
            yield from (one.annotation for one in every if one is not None and one.annotation is not None)
            if node.returns is not None:
                yield node.returns
        elif isinstance(node, ast.AnnAssign):
            yield node.annotation


def _names_any(hint: ast.expr) -> bool:
    return any(isinstance(part, ast.Name) and part.id == "Any" for part in ast.walk(hint))


def _any_of_1000(sources: Iterable[Source]) -> float:
    hints = [hint for source in sources for hint in _hints(source)]
    return 1000 * sum(map(_names_any, hints)) / len(hints)


def _silenced(sources: Iterable[Source]) -> list[str]:
    return [
        source.at(number, line.strip())
        for source in sources
        for number, line in enumerate(source.text.splitlines(), 1)
        if "# type: ignore[" in line
    ]


@pytest.mark.slow
def test_the_share_of_hints_that_name_any_does_not_rise(house: House) -> None:
    assert _any_of_1000(house.package) <= MOST_ANY


def test_the_comments_that_silence_the_type_checker_become_no_more(house: House) -> None:
    assert len(_silenced(house.package)) <= MOST_SILENCED


def test_each_kind_of_hint_is_counted() -> None:
    text = (
        "def f(a: Any, /, b: int, *c: list[Any], d: str = '', **e: Any) -> Any: ...\nx: dict[str, Any] = {}\ny: int\n"
    )

    assert _any_of_1000([Source("f.py", "asyncgrad.f", text)]) == 1000 * 5 / 8


def test_a_comment_that_silences_is_found_with_its_line() -> None:
    found = _silenced([Source("f.py", "asyncgrad.f", "x = 1\ny = x  # type: ignore[misc]\n")])

    assert found == ["f.py:2: y = x  # type: ignore[misc]"]


#: The modules whose names users see. The types of asyncgrad.numpy and asyncgrad.scipy.special are written by tools.
FACADES = [
    "asyncgrad",
    "asyncgrad.data",
    "asyncgrad.devices",
    "asyncgrad.distributed",
    "asyncgrad.engine",
    "asyncgrad.errors",
    "asyncgrad.extend",
    "asyncgrad.func",
    "asyncgrad.functional",
    "asyncgrad.graph",
    "asyncgrad.interop.jax",
    "asyncgrad.interop.torch",
    "asyncgrad.learn",
    "asyncgrad.learn.http",
    "asyncgrad.memory.checkpoint",
    "asyncgrad.memory.offload",
    "asyncgrad.nn",
    "asyncgrad.nn.init",
    "asyncgrad.nn.utils",
    "asyncgrad.numpy.random",
    "asyncgrad.optim",
    "asyncgrad.optim.schedule",
    "asyncgrad.random",
    "asyncgrad.remote.tesseract",
    "asyncgrad.remote.umbridge",
    "asyncgrad.sync",
    "asyncgrad.sync.func",
    "asyncgrad.testing",
    "asyncgrad.tree",
    "asyncgrad.values",
]

#: Why a public signature says Any, and which may: the function, the class or its method, and the parameter or `return`.
ALLOWED = {
    "what a function of the user's takes and returns, which is called with it": [
        "AveragedModel.forward, *",
        "DataParallel.__call__, *",
        "Follower.predict, return",
        "Function.apply, *",
        "Function.backward, *",
        "Function.backward_batch, *",
        "Function.forward, *",
        "Function.setup_context, *",
        "Function.vjp, *",
        "JaxFunction.__call__, *",
        "Learner.predict, return",
        "Module.forward, *",
        "Module.get_extra_state, return",
        "Module.set_extra_state, state",
        "ModuleDict.forward, return",
        "ModuleList.forward, return",
        "Optimizer.step, return",
        "Optimizer.step_async, return",
        "Primitive.__call__, *",
        "ScheduleLoop.create_task, **kwargs",
        "Sequential.forward, return",
        "Stage.__call__, return",
        "TorchFunction.__call__, *",
        "TorchModule.forward, *",
        "checkpoint, *",
        "checkpoint_chain, return",
        "checkpoint_sequential, return",
        "pipeline, return",
    ],
    "a tree whose containers are those of arguments, of results, or of both in one another": [
        "ExponentialMovingAverage.averages, return",
        "GradientAccumulator.mean, return",
        "GradientAccumulator.sum, return",
        "Tesseract.__call__, return",
        "clip_grad_norm, return",
        "clip_grad_value, return",
        "elementwise_grad, return",
        "fixed_point, return",
        "flatten, return",
        "grad, return",
        "hessian, return",
        "hvp, return",
        "jacfwd, return",
        "jacobian, return",
        "jacrev, return",
        "jvp, return",
        "leaves, return",
        "linearize, return",
        "map, return",
        "ravel, return",
        "summary, return",
        "to_tensors, return",
        "unflatten, return",
        "value_and_grad, return",
        "vhp, return",
        "vjp, return",
        "vmap, return",
    ],
    "a gradient, or what a node has saved: of arrays, of Tensors, or of whatever can be added": [
        "AccumulateGrad.*",
        "CopyBackwards.*",
        "CopySlices.*",
        "Engine.execute, *",
        "GraphTask, *",
        "GraphTask.*",
        "HandwrittenNode.*",
        "InputMetadata, *",
        "Leaf.*",
        "Node, *",
        "Node.*",
        "Variable.register_hook, hook",
    ],
    "an object of the user's own class, or what flows back to it": [
        "SparseRows.*",
        "Text.*",
        "Tree.*",
        "Value.*",
        "ValueType.*",
    ],
    "a class of a module above, which the module must not import": ["TensorBase.to, target", "current_node, return"],
    "arrays of the library that a device is for": [
        "Device, switch",
        "Device.*",
        "DeviceArray*",
        "SimulatedAccelerator.*",
    ],
    "a number whose type hangs on the dtype, or nested lists of them": ["Tensor.item, return", "Tensor.tolist, return"],
    "a capsule of Python's C interface, which has a type from Python 3.13 on": ["Tensor.__dlpack__, return"],
    "the elements of what the user gives, which may be no numbers": [
        "Batches.__aiter__, return",
        "Batches.__iter__, return",
        "Generator.choice, return",
        "Generator.permutation, return",
        "Generator.permuted, return",
        "RandomState.choice, return",
        "RandomState.permutation, return",
    ],
    "what NumPy hands on of a call of its own function, or takes as options of one": [
        "Tensor.__array_function__, args",
        "Tensor.__array_function__, kwargs",
        "Tensor.clip, **kwargs",
    ],
    "what is taken in one form and kept in another": [
        "ArraySpec, dtype",
        "ParameterDict.__setitem__, value",
        "ParameterDict.fromkeys, default",
        "Sequential.__init__, *modules",
    ],
    "options and state by name, each of a type of its own": [
        "*Schedule*.options, return",
        "*.add_param_group, param_group",
        "*.load_state_dict, state_dict",
        "*.state_dict, return",
        "CosineAnnealingWarmRestarts.options, return",
        "CyclicLR.options, return",
        "OneCycleLR.options, return",
        "ElementwiseOptimizer.__init__, defaults",
        "Optimizer.__init__, defaults",
        "SWALR.options, return",
        "SequentialLR.options, return",
    ],
    "JSON, or what was sent as bytes": [
        "*Transport.load_error, return",
        "Reply, fields",
        "Request, fields",
        "read_json, return",
    ],
    "an object of a package that may be missing, or has no type hints": ["DaskTransport.*, client", "http_app, return"],
    "one array or a pair of them, as an option says": [
        "AdaptiveMaxPool.forward, return",
        "_FractionalMaxPool.forward, return",
        "_MaxPool.forward, return",
        "adaptive_max_pool*, return",
        "fractional_max_pool*, return",
        "max_pool*, return",
    ],
}


def _patterns() -> list[str]:
    return [pattern for patterns in ALLOWED.values() for pattern in patterns]


def _found(hints: Iterable[Hint]) -> set[str]:
    return {f"{hint.owner}, {hint.what}" for hint in hints}


@pytest.fixture(scope="module")
def unsaid(house: House) -> list[Hint]:
    """Return the hints of public signatures that say Any."""
    return [hint for hint in public_hints(house, FACADES) if says_any(house, hint)]


def test_no_public_signature_says_any_but_for_the_reasons_that_are_listed(unsaid: list[Hint]) -> None:
    patterns = _patterns()

    assert [
        str(hint) for hint in unsaid if not any(fnmatchcase(one, each) for one in _found([hint]) for each in patterns)
    ] == []


def test_each_reason_for_a_public_any_has_one(unsaid: list[Hint]) -> None:
    found = _found(unsaid)

    assert [each for each in _patterns() if not any(fnmatchcase(one, each) for one in found)] == []


def test_a_public_signature_is_found_through_facades_aliases_overloads_and_bases() -> None:
    facade = "from .b import C as C\nfrom .b import f as f\n\n__all__ = ['C', 'f']\n"
    module = (
        "Job = Callable[[], Any]\n"
        "class _Base:\n"
        "    def ask(self, x: Any) -> int: ...\n"
        "class C(_Base):\n"
        "    key: dict[str, Any]\n"
        "    def run(self, job: Job, *others: Callable[..., Any]) -> 'list[Any]': ...\n"
        "    def _hidden(self, x: Any) -> Any: ...\n"
        "@overload\n"
        "def f(x: int) -> int: ...\n"
        "@overload\n"
        "def f(x: str) -> Any: ...\n"
        "def f(x: Any) -> Any: ...\n"
        "def g(x: Any) -> Any: ...\n"
    )
    house = House(
        [Source("a/__init__.py", "asyncgrad.a", facade), Source("a/b.py", "asyncgrad.a.b", module)],
    )

    found = [hint for hint in public_hints(house, ["asyncgrad.a"]) if says_any(house, hint)]

    assert sorted(_found(found)) == ["C, key", "C.run, job", "C.run, return", "_Base.ask, x", "f, return"]
