"""The rules of the house, as functions from source to violations; the tables come first."""

from __future__ import annotations

import ast
import builtins
import inspect
from collections.abc import Iterable, Iterator

from tests.support.house import PACKAGE, House, Import, Source, bases_of, dotted

# --- the import table ----------------------------------------------------------------------------

#: Where each module lives: the longest name that it equals or lies under.
LAYER_OF = {
    "asyncgrad.errors": "errors",
    "asyncgrad.core.settings": "settings",
    "asyncgrad.core.arrays": "arrays",
    "asyncgrad.core.tree": "tree",
    "asyncgrad.core.graph": "graph",
    "asyncgrad.core.recording": "recording",
    "asyncgrad.core.views": "views",
    "asyncgrad.core.ops": "ops",
    "asyncgrad.core.function": "function",
    "asyncgrad.core.engine": "engine",
    "asyncgrad.core.requests": "requests",
    "asyncgrad.core": "tensor",
    "asyncgrad.extend": "tensor",
    "asyncgrad.random": "tensor",
    "asyncgrad.tree": "tensor",
    "asyncgrad.func": "transforms",
    "asyncgrad.functional": "transforms",
    "asyncgrad.sync": "transforms",
    "asyncgrad.transforms": "transforms",
    "asyncgrad.numpy": "numpy",
    "asyncgrad.observing": "observing",
    "asyncgrad.data": "data",
    "asyncgrad.values": "values",
    "asyncgrad.memory": "memory",
    "asyncgrad.nn": "nn",
    "asyncgrad.optim": "optim",
    "asyncgrad.scipy": "scipy",
    "asyncgrad.distributed": "distributed",
    "asyncgrad.learn": "learn",
    "asyncgrad.interop": "interop",
    # It looks for a name in all facades.
    "asyncgrad.interop.other_names": "facade",
    "asyncgrad.hips": "hips",
    "asyncgrad.remote": "remote",
    "asyncgrad.testing": "testing",
    "asyncgrad.tracing": "tracing",
    "asyncgrad.engine": "facade",
    "asyncgrad.graph": "facade",
    "asyncgrad.devices": "devices",
}

#: From the bottom to the top; layers of one row stand side by side.
ROWS = (
    ("errors",),
    ("settings",),
    ("arrays",),
    ("tree",),
    ("graph",),
    ("recording",),
    ("views",),
    ("ops",),
    ("function",),
    ("engine",),
    ("requests",),
    ("tensor",),
    ("transforms", "numpy", "observing"),
    ("memory", "scipy", "nn", "optim", "data", "values"),
    ("learn", "distributed", "testing", "tracing"),
    ("remote", "interop", "hips"),
    ("facade",),
)
LAYERS = tuple(layer for row in ROWS for layer in row)

#: What a layer may import besides itself: the rows below it.
MAY_IMPORT = {
    layer: {below for row in ROWS[:height] for below in row} for height, row in enumerate(ROWS) for layer in row
}
#: Forward and backward are columns side by side.
MAY_IMPORT["engine"] -= {"recording", "views", "ops", "function"}
MAY_IMPORT["devices"] = set()

#: The modules that a device may import, beyond devices/ itself.
DEVICES_MAY_IMPORT = {
    "asyncgrad.core.engine.body",
    "asyncgrad.core.engine.device",
    "asyncgrad.core.engine.loops",
    "asyncgrad.core.engine.remote",
    "asyncgrad.core.engine.streams",
    "asyncgrad.errors",
    "asyncgrad.core.arrays.current_devices",
    "asyncgrad.core.arrays.current_streams",
    "asyncgrad.core.arrays.device_functions",
    "asyncgrad.core.arrays.device_work",
    "asyncgrad.core.arrays.values",
    "asyncgrad.core.recording.formula",
    "asyncgrad.core.recording.kernels",
    "asyncgrad.core.settings.extras",
    "asyncgrad.core.settings.process",
    "asyncgrad.core.settings.source",
}

#: What is found by its name, and so may be named by what stands below it.
FOUND_BY_NAME = {
    ("asyncgrad.core.engine.device", "asyncgrad.devices"),
    # What compiles functions uses the transforms, and one of these uses it.
    ("asyncgrad.transforms.vmap", "asyncgrad.tracing.rows"),
}

#: Third-party packages that may be missing, and so may be imported where they are used.
OPTIONAL = {
    "autograd",
    "cupy",
    "cupy_backends",
    "cupyx",
    "graphviz",
    "llvmlite",
    "matplotlib",
    "opentelemetry",
    "rich",
    "scipy",
    "sklearn",
    "threadpoolctl",
    "torch",
    "tqdm",
    "uvloop",
}

# --- who may touch asyncio -----------------------------------------------------------------------

MAKES_TASKS = {
    "asyncgrad.core.engine.task_group",
    "asyncgrad.core.engine.loops",
    "asyncgrad.core.engine.eager_task",
    "asyncgrad.testing.device_contract",
    "asyncgrad.testing.schedule_loop",
}
STARTS_LOOPS = MAKES_TASKS | {"asyncgrad.core.engine.loops", "asyncgrad.core.engine.shell", "asyncgrad.testing.explore"}

#: Of any object: `loop.create_task` as much as `asyncio.create_task`.
TASK_MAKERS = {
    "create_task",
    "create_eager_task_factory",
    "eager_task_factory",
    "ensure_future",
    "run_coroutine_threadsafe",
    "run_until_complete",
    "TaskGroup",
}
#: Of asyncio alone, for the names are common; `Task` where it is called, for it is also a type.
TASK_MAKERS_OF_ASYNCIO = {"as_completed", "gather", "shield", "wait", "wait_for"}
LOOP_STARTERS = {"asyncio.run", "asyncio.Runner", "asyncio.new_event_loop", "uvloop.run", "uvloop.new_event_loop"}

#: State machines: no await, no asyncio, so that their tests need no loop.
PURE = (
    "asyncgrad.core.engine.compiled.api",
    "asyncgrad.core.engine.compiled.cache",
    "asyncgrad.core.engine.compiled.calls",
    "asyncgrad.core.engine.compiled.codegen",
    "asyncgrad.core.engine.compiled.executor",
    "asyncgrad.core.engine.compiled.trace",
    "asyncgrad.core.engine.dependency_executor",
    "asyncgrad.core.engine.exec_info",
    "asyncgrad.core.engine.executor",
    "asyncgrad.core.engine.fast_path",
    "asyncgrad.core.engine.graph_task",
    "asyncgrad.core.engine.queues",
)

# --- what happens to the process ------------------------------------------------------------------

#: The one module that has effects on the process.
HAS_EFFECTS = "asyncgrad.core.settings.process"

#: Functions that change what the whole process sees.
EFFECTS_BY_CALL = {
    "asyncio.set_event_loop",
    "asyncio.set_event_loop_policy",
    "atexit.register",
    "copyreg.pickle",
    "gc.disable",
    "gc.enable",
    "gc.freeze",
    "gc.set_debug",
    "gc.set_threshold",
    "locale.setlocale",
    "logging.basicConfig",
    "logging.captureWarnings",
    "logging.disable",
    "numpy.random.seed",
    "numpy.random.set_state",
    "numpy.set_printoptions",
    "numpy.seterr",
    "numpy.seterrcall",
    "os.chdir",
    "os.putenv",
    "os.register_at_fork",
    "os.umask",
    "os.unsetenv",
    "random.seed",
    "resource.setrlimit",
    "signal.set_wakeup_fd",
    "signal.signal",
    "socket.setdefaulttimeout",
    "sys.addaudithook",
    "sys.set_asyncgen_hooks",
    "sys.set_coroutine_origin_tracking_depth",
    "sys.setprofile",
    "sys.setrecursionlimit",
    "sys.setswitchinterval",
    "sys.settrace",
    "threading.setprofile",
    "threading.settrace",
    "threading.stack_size",
    "tracemalloc.start",
    "uvloop.install",
    "warnings.catch_warnings",
    "warnings.filterwarnings",
    "warnings.resetwarnings",
    "warnings.simplefilter",
}
#: All functions of these.
EFFECTS_BY_MODULE = {"faulthandler"}
#: Methods that change what they are called on: a list or dict of a module that is not ours, or a logger.
CHANGES = {"add", "append", "clear", "extend", "insert", "pop", "popitem", "remove", "setdefault", "update"}
CHANGES_OF_LOGGERS = {"addFilter", "addHandler", "setLevel"}
# --- what is done in one way ---------------------------------------------------------------------

#: What is done in one place, so that there is one rule for it, and the packages or modules that may do it.
ONE_PLACE = {
    # A coroutine that must not suspend. The others step one that may: a task, and a backward that is compiled.
    ".send(None)": {
        "asyncgrad.core.settings.without_suspending",
        "asyncgrad.core.engine.compiled.executor",
        "asyncgrad.core.engine.eager_task",
    },
    # What a function of the user returns, which may be plain or async.
    "await x or x": {"asyncgrad.core.settings.awaiting"},
}

# --- sizes ---------------------------------------------------------------------------------------

FUNCTION_LINES = 60


def layer_of(module: str) -> str | None:
    """The layer that a module of the package belongs to, or None for one without a place."""
    if module == PACKAGE:
        return "facade"
    name = module
    while name not in LAYER_OF:
        name, dot, _ = name.rpartition(".")
        if not dot:
            return None
    return LAYER_OF[name]


def _is_ours(module: str) -> bool:
    return module == PACKAGE or module.startswith(f"{PACKAGE}.")


def import_order(house: House, source: Source) -> list[str]:
    """Imports go down the table, never up it or across, not for a type hint and not by a string either."""
    layer = layer_of(source.module)
    if layer is None:
        return [source.at(1, f"{source.module} has no place in LAYER_OF (tests/support/house_rules.py): give it one")]
    return [
        source.at(found, complaint)
        for found in _imports(house, source)
        if _is_ours(found.target) and (complaint := _import_complaint(source.module, layer, found))
    ]


def _import_complaint(module: str, layer: str, found: Import) -> str | None:
    target_layer = layer_of(found.target)
    if target_layer == "devices" and layer != "devices" and (layer, found.target) != ("facade", "asyncgrad.devices"):
        return f"imports {found.target}: devices are found by name"
    if layer == "facade" and target_layer == "devices":
        return None
    if layer == "devices" and target_layer != "devices":
        allowed = found.target in DEVICES_MAY_IMPORT
        return None if allowed else f"a device may not import {found.target}, only {sorted(DEVICES_MAY_IMPORT)}"
    if target_layer == layer or target_layer in MAY_IMPORT[layer]:
        return None
    return f"{module} ({layer}) may not import {found.target} ({target_layer or 'no layer'})"


def _imports(house: House, source: Source) -> list[Import]:
    """Return what a module imports, by statements and by strings, except what it finds by its name."""
    return [
        one for one in house.imports(source) if not (one.by_string and (source.module, one.target) in FOUND_BY_NAME)
    ]


def numpy_in_engine(house: House, source: Source) -> list[str]:
    """The engine knows no NumPy, not even in its type hints."""
    return [
        source.at(found, f"the engine imports {found.target}: ask core/arrays/values.py instead")
        for found in house.imports(source)
        if found.target.split(".")[0] == "numpy"
    ]


def import_cycles(house: House) -> list[str]:
    """Groups of modules that import one another, for type hints too, each as `a -> b -> a`."""
    edges = {
        source.module: sorted(
            {found.target for found in _imports(house, source) if found.target in house.modules} - {source.module}
        )
        for source in house.package
    }
    done: set[str] = set()
    cycles: list[str] = []

    def visit(module: str, path: list[str]) -> None:
        if module in path:
            cycles.append(" -> ".join([*path[path.index(module) :], module]))
        elif module not in done:
            for target in edges.get(module, ()):
                visit(target, [*path, module])
            done.add(module)

    for module in edges:
        visit(module, [])
    return cycles


def deferred_imports(house: House, source: Source) -> list[str]:
    """No import inside a function, save of a third-party package that may be missing."""
    return [
        source.at(found, f"imports {found.target} inside a function: import it at the top")
        for found in house.imports(source)
        if found.deferred and found.target.split(".")[0] not in OPTIONAL
    ]


def imported_again(source: Source) -> list[str]:
    """What is imported when the module runs is not imported again for type hints, as if it were not there."""
    runs = {alias.asname or alias.name for statement in source.tree.body for alias in _aliases_of(statement)}
    return [
        source.at(statement, f"{name} is imported at run time anyway: do not import it for type hints again")
        for block in source.tree.body
        if isinstance(block, ast.If) and _is_name(block.test, "TYPE_CHECKING")
        for statement in block.body
        for alias in _aliases_of(statement)
        if (name := alias.asname or alias.name) in runs
    ]


def _aliases_of(statement: ast.stmt) -> list[ast.alias]:
    return statement.names if isinstance(statement, (ast.Import, ast.ImportFrom)) else []


def process_effects(source: Source) -> list[str]:
    """Nothing of a module that is not ours is changed, and no hook of the process is set, but where all effects are."""
    if source.module == HAS_EFFECTS:
        return []
    names = _names_of_others(source.nodes)
    return [
        source.at(node, f"{effect} changes the process: do it in {HAS_EFFECTS}, which lists its effects")
        for node in source.nodes
        for effect in (*_assigned(node, names), *_called(node, names))
    ]


def _names_of_others(nodes: list[ast.AST]) -> dict[str, str]:
    """What the names stand for that a file has of modules which are not ours: `np` is numpy."""
    found: dict[str, str] = {}
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {alias.asname or alias.name.partition(".")[0]: alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    return {name: meant for name, meant in found.items() if not _is_ours(meant)}


def _assigned(node: ast.AST, names: dict[str, str]) -> Iterator[str]:
    """What a statement assigns to, or deletes, of modules that are not ours."""
    targets: list[ast.expr] = []
    if isinstance(node, (ast.Assign, ast.Delete)):
        targets = [one for each in node.targets for one in (each.elts if isinstance(each, ast.Tuple) else [each])]
    elif isinstance(node, (ast.AugAssign, ast.AnnAssign)):
        targets = [node.target]
    yield from (ast.unparse(one) for one in targets if not isinstance(one, ast.Name) and _meant(one, names))


def _called(node: ast.AST, names: dict[str, str]) -> Iterator[str]:
    """What a call changes of the process."""
    if not isinstance(node, ast.Call):
        return
    called = _meant(node.func, names) or ""
    if isinstance(node.func, ast.Name) and node.func.id in ("setattr", "delattr") and _meant(node.args[0], names):
        yield f"{node.func.id}({ast.unparse(node.args[0])})"
    elif called in EFFECTS_BY_CALL or called.partition(".")[0] in EFFECTS_BY_MODULE:
        yield called
    elif isinstance(node.func, ast.Attribute):
        owner = node.func.value
        # A module itself may have a function of that name, as `np.insert`.
        of_module = node.func.attr in CHANGES and _meant(owner, names) and not _is_module(owner, names)
        if of_module or (node.func.attr in CHANGES_OF_LOGGERS and "getLogger" in ast.unparse(owner)):
            yield ast.unparse(node.func)


def _is_module(node: ast.expr, names: dict[str, str]) -> bool:
    """Tell whether it is what an `import` has named, and no name that is taken from a module, and no attribute."""
    return isinstance(node, ast.Name) and "." not in names.get(node.id, ".")


def _meant(node: ast.expr, names: dict[str, str]) -> str | None:
    """The full name of what an attribute, an element or the dict of a module that is not ours stands for."""
    if isinstance(node, ast.Name):
        return names.get(node.id)
    if isinstance(node, ast.Call):
        return _meant(node.args[0], names) if _is_name(node.func, "vars") and node.args else None
    if isinstance(node, (ast.Attribute, ast.Subscript)):
        owner = _meant(node.value, names)
        return owner and (f"{owner}.{node.attr}" if isinstance(node, ast.Attribute) else owner)
    return None


def sizes(source: Source) -> list[str]:
    """A function fits in a reader's head; decorators do not count. A file ends where its idea ends."""
    found = []
    for function in source.functions():
        lines = (function.end_lineno or function.lineno) - function.lineno + 1
        if lines > FUNCTION_LINES:
            found.append(source.at(function, f"{function.name} has {lines} lines, of at most {FUNCTION_LINES}"))
    return found


def task_creation(source: Source) -> list[str]:
    """asyncio tasks are made in one place, and loops are started in few."""
    found: list[str] = []
    for node in source.nodes:
        for name in _names_used(node):
            if source.module not in MAKES_TASKS and _makes_tasks(name):
                found.append(source.at(node, f"{name} makes an asyncio task: only {sorted(MAKES_TASKS)} may"))
            if source.module not in STARTS_LOOPS and name in LOOP_STARTERS:
                found.append(source.at(node, f"{name} starts an event loop: only {sorted(STARTS_LOOPS)} may"))
    return found


def one_place(source: Source) -> list[str]:
    """What ONE_PLACE lists is done in the modules that it names, and nowhere else."""
    elsewhere = {done: homes for done, homes in ONE_PLACE.items() if not _lies_in(source.module, homes)}
    return [
        source.at(node, f"{done} stands in {sorted(elsewhere[done])} alone: call what is there")
        for node in source.nodes
        for done in (*_names_used(node), *_step_of(node))
        if done in elsewhere
    ]


def _lies_in(module: str, homes: Iterable[str]) -> bool:
    return any(module == home or module.startswith(f"{home}.") for home in homes)


def _step_of(node: ast.AST) -> Iterator[str]:
    """The call of a method with None alone, as `.method(None)`; what is awaited if it can be, as `await x or x`."""
    awaited = node.body.value if isinstance(node, ast.IfExp) and isinstance(node.body, ast.Await) else None
    if isinstance(node, ast.IfExp) and awaited is not None and ast.unparse(awaited) == ast.unparse(node.orelse):
        yield "await x or x"
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and len(node.args) == 1:
        argument = node.args[0]
        if isinstance(argument, ast.Constant) and argument.value is None:
            yield f".{node.func.attr}(None)"


def _makes_tasks(name: str) -> bool:
    owner, _, last = name.rpartition(".")
    return last in TASK_MAKERS or (owner == "asyncio" and last in TASK_MAKERS_OF_ASYNCIO) or name == "asyncio.Task()"


def _names_used(node: ast.AST) -> Iterator[str]:
    """`asyncio.gather` for that attribute and for `from asyncio import gather`; a call of Task as `asyncio.Task()`."""
    if isinstance(node, ast.ImportFrom) and not node.level:
        yield from (f"{node.module}.{alias.name}" for alias in node.names)
    elif isinstance(node, ast.Attribute):
        yield dotted(node)
    elif isinstance(node, ast.Call) and dotted(node.func) in {"asyncio.Task", "Task"}:
        yield "asyncio.Task()"


def suspension(house: House, source: Source) -> list[str]:
    """A pure module neither awaits nor imports asyncio."""
    awaits = (ast.AsyncFunctionDef, ast.Await, ast.AsyncFor, ast.AsyncWith)
    found = [source.at(node, "awaits") for node in source.nodes if isinstance(node, awaits)]
    imports = [found for found in house.imports(source) if found.target.split(".")[0] == "asyncio"]
    return found + [source.at(one, "imports asyncio") for one in imports]


def facade(source: Source) -> list[str]:
    """A facade holds a docstring, `from .x import y as y`, and a sorted and complete `__all__`.

    One that takes over the names of another module has none of its own.
    """
    if any(_makes_names(statement) for statement in source.tree.body):
        return []
    found: list[str] = []
    imported: list[str] = []
    exported: list[str] | None = None
    line = 1
    for statement in _statements_of_facade(source.tree):
        if isinstance(statement, ast.ImportFrom):
            if statement.module in ("__future__", "typing", "core.settings.lazy"):
                continue
            found.extend(_aliases(source, statement))
            imported.extend(alias.asname or alias.name for alias in statement.names)
        elif (names := _all_of(statement)) is not None:
            exported, line = names, statement.lineno
        elif not _is_docstring(statement):
            found.append(source.at(statement, "a facade holds only `from .x import y as y` and `__all__`"))
    found.extend(source.at(line, complaint) for complaint in _export_complaints(imported, exported))
    return found


def _statements_of_facade(tree: ast.Module) -> Iterator[ast.stmt]:
    """The statements of a facade, those included that only a type checker reads, and without those that only run."""
    for statement in tree.body:
        if isinstance(statement, ast.If):
            if _is_name(statement.test, "TYPE_CHECKING"):
                yield from statement.body
            elif not (isinstance(statement.test, ast.UnaryOp) and _is_name(statement.test.operand, "TYPE_CHECKING")):
                yield statement
        elif not _makes_names(statement) and not (
            isinstance(statement, ast.FunctionDef) and statement.name == "__dir__"
        ):
            yield statement


def _makes_names(statement: ast.stmt) -> bool:
    value = statement.value if isinstance(statement, ast.Assign) else None
    return isinstance(value, ast.Call) and _is_name(value.func, "attach_names")


def _is_name(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def lazy_names(source: Source) -> list[str]:
    """A lazy facade imports at run time what it shows to a type checker: each name from the same module."""
    shown = {
        (alias.asname or alias.name, "" if statement.module is None else "." * statement.level + statement.module)
        for block in source.tree.body
        if isinstance(block, ast.If) and _is_name(block.test, "TYPE_CHECKING")
        for statement in block.body
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
    }
    made = {
        (name, home)
        for call in source.nodes
        if isinstance(call, ast.Call) and _is_name(call.func, "attach")
        for home, names in ast.literal_eval(call.args[1]).items()
        for name in names
    }
    return [source.at(1, f"{name} is imported from {home or '.'} here, and not there") for name, home in shown ^ made]


def _aliases(source: Source, statement: ast.ImportFrom) -> Iterator[str]:
    dots = "." * statement.level + (statement.module or "")
    for alias in statement.names:
        if alias.asname != alias.name:
            yield source.at(statement, f"write `from {dots} import {alias.name} as {alias.name}`")


def _export_complaints(imported: list[str], exported: list[str] | None) -> Iterator[str]:
    public = {name for name in imported if not name.startswith("_")}
    if exported is None:
        if public:
            yield "no __all__"
        return
    if exported != sorted(exported):
        yield "__all__ is not sorted"
    if twice := sorted({name for name in exported if exported.count(name) > 1}):
        yield f"__all__ repeats {twice}"
    if missing := sorted(public - set(exported)):
        yield f"__all__ lacks {missing}"
    if unknown := sorted(set(exported) - set(imported)):
        yield f"__all__ names {unknown}, which the facade does not import"


def _all_of(statement: ast.stmt) -> list[str] | None:
    """The names in `__all__ = [...]`; None for any other statement."""
    if not (isinstance(statement, ast.Assign) and isinstance(statement.value, (ast.List, ast.Tuple))):
        return None
    if [ast.unparse(target) for target in statement.targets] != ["__all__"]:
        return None
    constants = (item for item in statement.value.elts if isinstance(item, ast.Constant))
    return [str(item.value) for item in constants]


def _is_docstring(statement: ast.stmt) -> bool:
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )


def exported_names(source: Source) -> list[str]:
    """What a facade lists in `__all__`."""
    return next((names for statement in source.tree.body if (names := _all_of(statement)) is not None), [])


#: Bases that make a class neither abstract nor final, by what they are.
OPEN_BASES = {"Enum", "Flag", "IntEnum", "IntFlag", "StrEnum", "NamedTuple", "Protocol", "TypedDict"}


def unsealed_classes(house: House, source: Source) -> list[str]:
    """Every class is abstract, and its docstring's first line says so, or `@final`.

    Exceptions, protocols, enums and named tuples are what they are.
    """

    def is_open(name: str, seen: frozenset[str] = frozenset()) -> bool:
        builtin = getattr(builtins, name, None)
        if name in OPEN_BASES or (inspect.isclass(builtin) and issubclass(builtin, BaseException)):
            return True
        return name not in seen and any(is_open(base, seen | {name}) for base in house.bases.get(name, ()))

    return [
        source.at(cls, f"class {cls.name} is neither @final nor called abstract in its docstring's first line")
        for cls in source.classes()
        if not (_is_final(cls) or _says_abstract(cls) or any(is_open(base) for base in bases_of(cls)))
    ]


def _is_final(cls: ast.ClassDef) -> bool:
    return any(ast.unparse(decorator) in {"final", "typing.final"} for decorator in cls.decorator_list)


def _says_abstract(cls: ast.ClassDef) -> bool:
    return "abstract" in (ast.get_docstring(cls) or "").partition("\n")[0].lower()


def undocumented(name: str, thing: object) -> list[str]:
    """What the docstrings of a public function or class lack; its public methods need one each.

    The function or class itself also shows a doctest, unless it is an exception.
    """
    if not callable(thing):
        return []  # a module or a constant
    is_exception = inspect.isclass(thing) and issubclass(thing, BaseException)
    found = []
    if not thing.__doc__:
        found.append(f"{name} has no docstring")
    elif ">>>" not in thing.__doc__ and not is_exception:
        found.append(f"{name} has no example (>>>) in its docstring")
    if inspect.isclass(thing):
        found.extend(f"{name}.{method} has no docstring" for method in _bare_methods(thing))
    return found


def _bare_methods(cls: type) -> Iterable[str]:
    """Public methods and properties without a docstring, inherited ones of the package's own among them."""
    names = {name for base in cls.__mro__ if _is_ours(base.__module__) for name in vars(base)}
    for name in sorted(names):
        member = inspect.getattr_static(cls, name)
        is_method = inspect.isroutine(member) or isinstance(member, (property, classmethod, staticmethod))
        if is_method and not name.startswith("_") and hasattr(cls, name) and not inspect.getdoc(getattr(cls, name)):
            yield name
