"""A part of a law's cases is always the same part, and never none."""

from __future__ import annotations

import sys

import pytest

from tests.support import sampling
from tests.support.loops import LOOP_KINDS
from tests.support.sampling import cases, some

GRID = """
import pytest

from tests.support.loops import on_each_loop

@pytest.mark.sampled("function")
@pytest.mark.parametrize("number", range(10))
@pytest.mark.parametrize("function", ["sin", "cos"])
def test_grid(function, number): pass

@pytest.mark.sampled
@pytest.mark.parametrize("number", range(2))
def test_few(number): pass

@pytest.mark.parametrize("number", range(2))
def test_all(number): pass

@pytest.mark.slow
def test_program(): pass

@pytest.mark.slow
@pytest.mark.parametrize("number", range(20))
def test_slow(number): pass

@pytest.mark.slow
@pytest.mark.sampled
@pytest.mark.parametrize("number", range(20))
def test_both(number): pass

@on_each_loop
@pytest.mark.parametrize("number", range(3))
def test_begins_a_loop(run, number): pass

@on_each_loop
def test_on_loops(run): pass

@on_each_loop
@pytest.mark.parametrize("number", range(30))
def test_of_many(run, number): pass
"""


@pytest.fixture
def items(tmp_path, request) -> list[pytest.Item]:
    """The tests of GRID, all of them."""
    path = tmp_path / "grid.py"
    path.write_text(GRID)
    module = pytest.Module.from_parent(request.session, path=path)
    return [item for item in request.session.genitems(module) if isinstance(item, pytest.Item)]


def sampled(
    items: list[pytest.Item], share: float, most: int = sys.maxsize
) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """Split tests whatever the environment says of how many cases are run."""
    return sampling.sampled(items, share, most)


def names(items: list[pytest.Item]) -> list[str]:
    return [item.name for item in items]


def test_a_share_of_the_cases_is_run_and_one_at_least():
    assert [cases(1000, share) for share in (0.2, 1.0, 100.0, 1e-9)] == [200, 1000, 100_000, 1]
    assert [len(some(range(10), share)) for share in (0.2, 1.0, 100.0, 1e-9)] == [2, 10, 10, 1]


def test_some_of_many_stay_in_order_and_are_the_same_each_time():
    found = some(range(1000), 0.1)

    assert found == sorted(found) == some(range(1000), 0.1)
    assert len({number % 10 for number in found}) == 10


def test_some_of_many_are_others_for_another_law():
    assert {number for law in range(50) for (number,) in [some(range(10), 0.1, of=str(law))]} == set(range(10))


def test_a_sampled_test_runs_a_share_of_its_cases_with_each_value_that_is_named(items):
    run, left_out = sampled(items, 0.2)

    assert [name.partition("-")[0] for name in names(run)].count("test_grid[sin") == 2
    assert [name.partition("-")[0] for name in names(run)].count("test_grid[cos") == 2
    assert sum(name.startswith("test_few") for name in names(run)) == 1
    assert sum(name.startswith("test_all") for name in names(run)) == 2
    assert sorted(names(run + left_out)) == sorted(names(items))


def test_all_cases_are_run_in_their_order_where_all_are_asked_for(items):
    assert sampled(items, 1.0) == (items, [])


def test_the_same_cases_are_run_whatever_else_is(items):
    run, _ = sampled(items, 0.2)

    assert set(sampled(items[::-1], 0.2)[0]) == set(run)


def test_a_case_that_is_named_alone_is_run(items):
    assert [sampled([item], 0.2) for item in items] == [([item], []) for item in items]


def test_of_a_test_without_the_mark_at_most_so_many_cases_are_run_and_the_same_each_time(items):
    run, left_out = sampled(items, 1.0, most=1)

    assert sum(name.startswith("test_all") for name in names(run)) == 1
    assert sum(name.startswith("test_all") for name in names(left_out)) == 1
    assert run == sampled(items[::-1], 1.0, most=1)[0][::-1]


@pytest.mark.parametrize("share", [0.1, 0.4])
def test_where_the_share_is_small_slow_tests_are_left_out_but_for_a_tenth_of_many_cases(items, request, share):
    found = names(sampled([*items, request.node], share)[0])

    assert ("test_program" in found) is (share == 0.4)
    assert sum(name.startswith("test_slow") for name in found) == (20 if share == 0.4 else 2)
    assert sum(name.startswith("test_both") for name in found) == (8 if share == 0.4 else 1)


@pytest.mark.parametrize("share", [0.1, 0.4, 1.0])
def test_each_case_is_run_on_one_kind_of_loop_or_on_all_where_all_cases_are(items, request, share):
    found = [name for name in names(sampled([*items, request.node], share)[0]) if name.startswith("test_begins_a_loop")]

    assert {number for number in range(3) if any(f"{number}" in name for name in found)} == {0, 1, 2}
    if share == 1.0:
        assert len(found) == 3 * len(LOOP_KINDS)
    elif share == 0.1:
        assert len(found) == 3


@pytest.mark.parametrize("share", [0.1, 0.4])
def test_a_test_is_run_on_each_kind_of_loop_but_where_the_share_is_small(items, request, share):
    run, _ = sampled([*items, request.node], share)
    found = names(run)

    assert sum(name.startswith("test_on_loops") for name in found) == (len(LOOP_KINDS) if share == 0.4 else 1)
    if share == 0.4:
        # Of many cases most are run once.
        of_many = [name for name in found if name.startswith("test_of_many")]
        assert 30 <= len(of_many) < 30 + len(LOOP_KINDS)
        assert all(any(kind in name for name in of_many) for kind in LOOP_KINDS)


def test_all_tests_of_a_file_that_is_named_alone_are_run_whatever_the_share(items):
    found = names(sampled(items, 0.1)[0])

    assert "test_program" in found
    assert sum(name.startswith("test_begins_a_loop") for name in found) == 3 * len(LOOP_KINDS)
