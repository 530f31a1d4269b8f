"""The shape of the house, held as laws: who may import whom, how long a thing may be, what a facade may hold.

The rules and their tables are in `house_rules.py`; `test_house_rules.py` shows that each of them can fail.
"""

from __future__ import annotations

import functools
import importlib
import re
from collections.abc import Callable, Iterable

import pytest

from tests.support import house_rules as rules
from tests.support.house import PACKAGE, ROOT, Source, own_house

pytestmark = pytest.mark.usefixtures("parsed_house")

HOUSE = own_house()


def each_file_holds(rule: Callable[[Source], list[str]], sources: Iterable[Source]) -> bool:
    """True, or a failure that lists every violation in any of the files."""
    return law_holds([violation for source in sources for violation in rule(source)])


def public_names() -> list[str]:
    return rules.exported_names(HOUSE[PACKAGE]) if PACKAGE in HOUSE.modules else []


def law_holds(violations: list[str]) -> bool:
    """True, or a failure that lists every violation on a line of its own."""
    if violations:
        pytest.fail("\n".join(violations), pytrace=False)
    return True


def test_the_package_has_a_facade():
    assert PACKAGE in HOUSE.modules


def test_imports_go_down_the_layers_and_never_across_the_columns():
    assert each_file_holds(functools.partial(rules.import_order, HOUSE), HOUSE.package)


def test_the_engine_knows_no_numpy():
    engine = [source for source in HOUSE.package if source.module.startswith(f"{PACKAGE}.core.engine.")]

    assert each_file_holds(functools.partial(rules.numpy_in_engine, HOUSE), engine)


def test_a_facade_imports_lazily_what_it_shows_to_type_checkers():
    assert each_file_holds(rules.lazy_names, HOUSE.facades)


def test_no_modules_import_one_another_not_even_for_type_hints():
    assert law_holds(rules.import_cycles(HOUSE))


def test_imports_stand_at_the_top():
    assert each_file_holds(functools.partial(rules.deferred_imports, HOUSE), HOUSE.sources)


def test_what_is_imported_at_run_time_is_not_imported_again_for_type_hints():
    assert each_file_holds(rules.imported_again, HOUSE.sources)


def test_what_happens_to_the_process_happens_in_one_module():
    assert each_file_holds(rules.process_effects, HOUSE.package)


def test_functions_stay_short():
    assert each_file_holds(rules.sizes, HOUSE.sources)


def test_what_is_done_in_one_way_is_done_in_one_place():
    assert each_file_holds(rules.one_place, HOUSE.package)


def test_only_the_engine_makes_asyncio_tasks():
    assert each_file_holds(rules.task_creation, HOUSE.package)


@pytest.mark.parametrize("module", rules.PURE)
def test_the_state_machines_never_suspend(module: str):
    assert law_holds(rules.suspension(HOUSE, HOUSE[module]))


def test_facades_hold_names_only():
    assert each_file_holds(rules.facade, HOUSE.facades)


def test_classes_are_abstract_or_final():
    assert each_file_holds(functools.partial(rules.unsealed_classes, HOUSE), HOUSE.package)


@pytest.mark.parametrize("name", public_names())
def test_public_names_are_documented_by_example(name: str):
    thing = getattr(importlib.import_module(PACKAGE), name)

    assert law_holds(rules.undocumented(name, thing))


@pytest.mark.parametrize("room", sorted(path.parent.name for path in (ROOT / "asyncgrad/core").glob("*/__init__.py")))
def test_each_room_of_the_core_says_what_the_import_table_lets_it_import_and_which_file_to_read_first(room):
    text = (ROOT / f"asyncgrad/core/{room}/README.md").read_text()
    allowed = re.search(r"\*\*May import\.\*\* (.*)", text)
    first = re.search(r"\*\*Read first\.\*\* `(.*)`", text)

    assert allowed
    assert first
    assert re.findall("`(.*?)`", allowed[1]) == [one for one in rules.LAYERS if one in rules.MAY_IMPORT[room]]
    assert (ROOT / f"asyncgrad/core/{room}" / first[1]).is_file()


def test_the_page_on_the_layout_names_each_folder_and_file_at_the_top_of_the_package():
    rows = re.findall(r"^\| (`.*?) \|", (ROOT / "docs/layout.md").read_text(), re.MULTILINE)
    named = {name.split("/")[0] for row in rows for name in re.findall("`(.*?)`", row)} - {"asyncgrad"}
    there = {path.name for path in (ROOT / "asyncgrad").iterdir() if not path.name.startswith("__pycache__")}

    assert named == there - {"py.typed"}
    assert len(there) <= 29
