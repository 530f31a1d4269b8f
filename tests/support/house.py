"""What the source of the project says of itself, read without importing it.

`House.read(root)` parses every shipped file, and `own_house()` those of the project; the functions of
`tests.support.house_rules` turn a house, or one file of it, into a list of violations, each a line `file:line: what is
wrong`. `test_architecture.py` asks that the lists be empty, `test_house_rules.py` that they are not where a rule is
broken.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import NamedTuple, final

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = "asyncgrad"

FunctionDef = ast.FunctionDef | ast.AsyncFunctionDef


@final
class Import(NamedTuple):
    """One module brought in: by an import statement, or by its name in a string."""

    #: The module imported, in full: `from ..graph import values` in an op is `asyncgrad.core.arrays.values`.
    target: str
    line: int
    #: Under `if TYPE_CHECKING:`, and so never run.
    typing_only: bool
    #: In a function, and so run late.
    deferred: bool
    #: Named by a string: an argument of `import_module`, a key of `sys.modules`, an entry of a table of such names.
    by_string: bool = False


@final
@dataclass(frozen=True)
class Source:
    """One parsed file; `module` is the name it is imported by."""

    name: str
    module: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, self.name)

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """All nodes of the tree, which many rules go through."""
        return list(ast.walk(self.tree))

    @property
    def is_facade(self) -> bool:
        return self.name.endswith("__init__.py")

    @property
    def in_package(self) -> bool:
        return self.module == PACKAGE or self.module.startswith(f"{PACKAGE}.")

    def at(self, where: ast.AST | Import | int, message: str) -> str:
        """One violation, in the form that editors and terminals link to."""
        if isinstance(where, Import):
            line = where.line
        elif isinstance(where, int):
            line = where
        else:
            line = where.lineno  # type: ignore[attr-defined]
        return f"{self.name}:{line}: {message}"

    def functions(self) -> Iterator[FunctionDef]:
        return (node for node in self.nodes if isinstance(node, FunctionDef))

    def classes(self) -> Iterator[ast.ClassDef]:
        return (node for node in self.nodes if isinstance(node, ast.ClassDef))


def dotted(node: ast.expr) -> str:
    """Return a name with its attributes, `asyncio.gather`; before those of anything else stands a dot: `.gather`."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    names.append(node.id if isinstance(node, ast.Name) else "")
    return ".".join(reversed(names))


def bases_of(cls: ast.ClassDef) -> list[str]:
    """Names of the bases: `Error` of `errors.Error`, `Protocol` of `Protocol[T]`."""
    plain = (base.value if isinstance(base, ast.Subscript) else base for base in cls.bases)
    return [ast.unparse(base).rpartition(".")[2] for base in plain]


@final
class House:
    """All shipped files: the package, devices/, examples/ and benchmarks/."""

    def __init__(self, sources: list[Source]) -> None:
        self.sources = sources
        self.modules = frozenset(source.module for source in sources)
        #: By module, what it imports.
        self._imports: dict[str, list[Import]] = {}

    @classmethod
    def read(cls, root: Path) -> House:
        devices = f"{PACKAGE}.devices"  # stands at the top, is imported from inside the package
        sources: list[Source] = []
        for folder, module in (
            (PACKAGE, PACKAGE),
            ("devices", devices),
            ("examples", "examples"),
            ("benchmarks", "benchmarks"),
        ):
            for path in sorted((root / folder).rglob("*.py")):
                relative = path.relative_to(root / folder)
                if folder == PACKAGE and relative.parts[0] == "devices":
                    continue  # the same files, seen through the symlink
                parts = [part for part in relative.with_suffix("").parts if part != "__init__"]
                sources.append(Source(path.relative_to(root).as_posix(), ".".join([module, *parts]), path.read_text()))
        return cls(sources)

    @property
    def package(self) -> list[Source]:
        """The files that a wheel installs: asyncgrad, with asyncgrad.devices."""
        return [source for source in self.sources if source.in_package]

    @property
    def facades(self) -> list[Source]:
        return [source for source in self.package if source.is_facade]

    def forget_trees(self) -> None:
        """Let go of what was parsed; it is parsed again when it is asked for."""
        for source in self.sources:
            vars(source).pop("tree", None)
            vars(source).pop("nodes", None)

    @cached_property
    def bases(self) -> dict[str, list[str]]:
        """What each class of the package names as its bases."""
        return {cls.name: bases_of(cls) for source in self.package for cls in source.classes()}

    @cached_property
    def _by_module(self) -> dict[str, Source]:
        return {source.module: source for source in self.sources}

    def __getitem__(self, module: str) -> Source:
        return self._by_module[module]

    def imports(self, source: Source) -> list[Import]:
        found = self._imports.get(source.module)
        if found is None:
            found = [*_imports(source, self.modules), *_imports_by_string(source, self.modules)]
            self._imports[source.module] = found
        return found


@cache
def own_house() -> House:
    """Return that of the project, parsed once for all the tests of a process that look at it."""
    return House.read(ROOT)


def _imports(source: Source, known: frozenset[str]) -> list[Import]:
    """Every import of a file, relative ones resolved and submodules told from names."""
    found: list[Import] = []

    def visit(node: ast.AST, typing_only: bool, deferred: bool) -> None:
        if isinstance(node, ast.Import):
            found.extend(Import(alias.name, node.lineno, typing_only, deferred) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = absolute(source, node)
            targets = dict.fromkeys(_member(base, alias.name, known) for alias in node.names)
            found.extend(Import(target, node.lineno, typing_only, deferred) for target in targets)
        elif isinstance(node, ast.If) and _is_type_checking(node.test):
            for statement in node.body:
                visit(statement, True, deferred)
            for statement in node.orelse:
                visit(statement, typing_only, deferred)
        elif not isinstance(node, ast.expr):
            inside = deferred or isinstance(node, FunctionDef)
            for child in ast.iter_child_nodes(node):
                visit(child, typing_only, inside)

    visit(source.tree, typing_only=False, deferred=False)
    return found


#: What takes the name of a module; such a name may be put together, or be relative to the package of the module.
_IMPORTERS = {"__import__", "find_spec", "import_module"}


def _imports_by_string(source: Source, known: frozenset[str]) -> Iterator[Import]:
    """Every string that is the name of a module of the package, and no documentation.

    A table of such names is for what imports them, or finds them among the modules that others have imported; both hang
    on the module as an import statement does. The names of loggers are only strings, and so are groups of entry points.
    """
    package = source.module if source.is_facade else source.module.rpartition(".")[0]
    for node, text in _strings(source.nodes):
        name = text.replace("{__package__}", package, 1)
        name = package + name if name.startswith(".") else name
        name = name.partition(".{")[0]
        # That of its own package, which is there, is a label.
        if name in known and name.startswith(f"{PACKAGE}.") and not f"{source.module}.".startswith(f"{name}."):
            yield Import(name, node.lineno, False, False, True)


def _strings(nodes: list[ast.AST]) -> Iterator[tuple[ast.expr, str]]:
    """Every string of a file that may name a module, and where it is; an f-string with its values in braces."""
    skipped: set[int] = set()
    for node in nodes:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            skipped.add(id(node.value))
        elif isinstance(node, ast.JoinedStr):
            skipped.update(map(id, node.values))
        elif isinstance(node, ast.Call):
            called = dotted(node.func).rpartition(".")[2]
            if called == "getLogger":
                skipped.update(map(id, node.args))
            elif called in _IMPORTERS or called == "attach":
                keywords = [word.value for word in node.keywords]
                yield from _named_by(node.args[:1] if called in _IMPORTERS else [*node.args, *keywords])
        elif isinstance(node, ast.Constant) and id(node) not in skipped and not str(node.value).startswith("."):
            yield node, str(node.value)


def _named_by(arguments: list[ast.expr]) -> Iterator[tuple[ast.expr, str]]:
    """The names of modules among arguments that are put together or relative, those in tables among them."""
    for argument in arguments:
        if isinstance(argument, ast.JoinedStr):
            yield (
                argument,
                "".join(
                    f"{{{ast.unparse(part.value)}}}" if isinstance(part, ast.FormattedValue) else ast.literal_eval(part)
                    for part in argument.values
                ),
            )
        elif isinstance(argument, ast.Dict):
            yield from _named_by([each for each in argument.keys if each is not None])
            yield from _named_by([each for each in argument.values if isinstance(each, ast.Constant)])
        elif isinstance(argument, ast.Constant) and str(argument.value).startswith("."):
            yield argument, str(argument.value)


def absolute(source: Source, node: ast.ImportFrom) -> str:
    """The module that an import takes names from, in full: `..graph` of a module of `asyncgrad.core.ops`."""
    if not node.level:
        return node.module or ""
    package = source.module.split(".")
    up = node.level - source.is_facade  # a facade's `.` is the facade itself
    package = package[: len(package) - up]
    return ".".join([*package, node.module] if node.module else package)


def _member(base: str, name: str, known: frozenset[str]) -> str:
    inner = f"{base}.{name}"
    return inner if inner in known else base


def _is_type_checking(test: ast.expr) -> bool:
    return (isinstance(test, ast.Name) and test.id == "TYPE_CHECKING") or (
        isinstance(test, ast.Attribute) and test.attr == "TYPE_CHECKING"
    )
