"""The shape of the house, held as laws: who may import whom, how long a thing may be, what a facade may hold.

The rules and their tables are in `house_rules.py`; `test_house_rules.py` shows that each of them can fail.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator

import pytest

from tests import house_rules as rules
from tests.house import PACKAGE, ROOT, House, Source

HOUSE = House.read(ROOT)


@pytest.fixture(scope="module", autouse=True)
def _no_tree_is_kept() -> Iterator[None]:
    """They are a million objects, which the garbage collector would look through for every test that comes after."""
    yield
    HOUSE.forget_trees()


def on_each_file(sources: list[Source]) -> pytest.MarkDecorator:
    """Run the test on each file, and name the run for it."""
    return pytest.mark.parametrize("source", sources, ids=[source.name for source in sources])


def public_names() -> list[str]:
    return rules.exported_names(HOUSE[PACKAGE]) if PACKAGE in HOUSE.modules else []


def law_holds(violations: list[str]) -> bool:
    """True, or a failure that lists every violation on a line of its own."""
    if violations:
        pytest.fail("\n".join(violations), pytrace=False)
    return True


def test_the_package_has_a_facade():
    assert PACKAGE in HOUSE.modules


@on_each_file(HOUSE.package)
def test_imports_go_down_the_layers_and_never_across_the_columns(source: Source):
    assert law_holds(rules.import_order(HOUSE, source))


@on_each_file([source for source in HOUSE.package if source.module.startswith(f"{PACKAGE}.engine")])
def test_the_engine_knows_no_numpy(source: Source):
    assert law_holds(rules.numpy_in_engine(HOUSE, source))


@on_each_file(HOUSE.facades)
def test_a_facade_imports_lazily_what_it_shows_to_type_checkers(source: Source):
    assert law_holds(rules.lazy_names(source))


def test_no_modules_import_one_another_not_even_for_type_hints():
    assert law_holds(rules.import_cycles(HOUSE))


@on_each_file(HOUSE.sources)
def test_imports_stand_at_the_top(source: Source):
    assert law_holds(rules.deferred_imports(HOUSE, source))


@on_each_file(HOUSE.sources)
def test_functions_stay_short(source: Source):
    assert law_holds(rules.sizes(source))


@on_each_file(HOUSE.package)
def test_only_the_engine_makes_asyncio_tasks(source: Source):
    assert law_holds(rules.task_creation(source))


@pytest.mark.parametrize("module", rules.PURE)
def test_the_state_machines_never_suspend(module: str):
    assert law_holds(rules.suspension(HOUSE, HOUSE[module]))


@on_each_file(HOUSE.facades)
def test_facades_hold_names_only(source: Source):
    assert law_holds(rules.facade(source))


@on_each_file(HOUSE.package)
def test_classes_are_abstract_or_final(source: Source):
    assert law_holds(rules.unsealed_classes(HOUSE, source))


@pytest.mark.parametrize("name", public_names())
def test_public_names_are_documented_by_example(name: str):
    thing = getattr(importlib.import_module(PACKAGE), name)

    assert law_holds(rules.undocumented(name, thing))
