"""What type hints leave unsaid: the share of those that name Any, and the comments that silence the type checker.

Both limits are what was counted last. Whoever says more by hints lowers them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

import pytest

from tests.support.house import ROOT, House, Source

#: Of 1000 type hints of the package and the devices, how many name Any.
MOST_ANY = 500
#: How many comments silence the type checker there.
MOST_SILENCED = 60


@pytest.fixture(scope="module")
def house() -> House:
    return House.read(ROOT)


def _hints(source: Source) -> Iterator[ast.expr]:
    """Yield the type hints of parameters, results, attributes and variables."""
    for node in ast.walk(source.tree):
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
