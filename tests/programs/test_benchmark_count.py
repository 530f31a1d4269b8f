"""Counts of instructions are the same each time, and a commit is counted as it was."""

from __future__ import annotations

import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from benchmarks import count, counted
from benchmarks.count import CannotCountError
from tests.support.loops import one_loop

ROOT = Path(__file__).parents[2]
LENGTHS = {"chain of size 16": 100}
needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="checks a commit out")


@pytest.fixture(autouse=True)
def _folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two counts at the same time are refused, and tests may run at the same time."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with two commits of a package asyncgrad that costs 7, then 9; and 11 in the work tree."""
    root = tmp_path / "repository"
    (root / "asyncgrad").mkdir(parents=True)
    git = ["git", "-C", str(root), "-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    subprocess.run([*git, "init", "--quiet"], check=True)
    for cost in (7, 9, 11):
        (root / "asyncgrad" / "__init__.py").write_text(f"COST = {cost}\n")
        if cost < 11:
            subprocess.run([*git, "add", "."], check=True)
            subprocess.run([*git, "commit", "--quiet", "--message", f"Cost {cost}"], check=True)
    monkeypatch.setattr(count, "ROOT", root)
    return root


def priced(command: Sequence[str], folder: Path) -> int:
    """A counter: a thousand to begin with, then what the package says for each node, and twice that backward."""
    *_, phase, length = command
    cost = int((folder / "asyncgrad" / "__init__.py").read_text().split()[-1])
    return 1000 + cost * int(length) * (3 if phase == "backward" else 1)


def worktrees(root: Path) -> list[str]:
    done = subprocess.run(["git", "-C", str(root), "worktree", "list"], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("valgrind") is None, reason="counts with valgrind")
@pytest.mark.timeout(180)
def test_two_runs_count_the_same_and_only_what_is_asked_for():
    def run(phase: str) -> int:
        return count.callgrind([sys.executable, "-P", str(count.SCRIPT), "chain of size 16", phase, "100"], ROOT)

    with ThreadPoolExecutor() as pool:
        first, second = pool.map(run, ("backward", "backward"))

    # Where addresses cannot be told to be the same, some 1,500 may differ, of 3,800,000.
    assert abs(second / first - 1) < 5e-3
    # Not the start of the process, which takes some 3,000,000,000, where callgrind can be told.
    assert first < 20e6 or platform.machine() not in counted.CODE


def test_figures_are_the_difference_of_two_lengths_and_of_two_phases(repository: Path):
    figures = count.figures(priced, repository, LENGTHS)

    assert figures == {("chain of size 16", "forward"): 11.0, ("chain of size 16", "backward"): 22.0}


@needs_git
@pytest.mark.parametrize(("base", "cost"), [("HEAD", 9), ("HEAD~1", 7)])
def test_a_commit_is_counted_as_it_was_and_its_checkout_is_removed(repository: Path, base: str, cost: int):
    shown = count.compare(priced, base, LENGTHS, twice=True).splitlines()

    assert [cell.strip() for cell in shown[2].split("|")][1:5] == [
        "chain of size 16: forward, per node",
        f"{cost}",
        "11",
        f"{11 / cost:.4f}",
    ]
    assert shown[-1] == "Counted twice, this tree's figures differ by at most 0.0000%."
    assert len(worktrees(repository)) == 1
    assert list(Path(tempfile.gettempdir()).iterdir()) == []


@needs_git
def test_both_trees_are_run_at_the_same_path(repository: Path):
    folders = set()

    def noting(command: Sequence[str], folder: Path) -> int:
        folders.add(folder)
        return priced(command, folder)

    count.compare(noting, "HEAD", LENGTHS, twice=False)

    assert len(folders) == 1


@needs_git
def test_a_commit_that_cannot_run_a_workload_has_no_figure_and_says_why(repository: Path):
    def failing(command: Sequence[str], folder: Path) -> int:
        if "7" in (folder / "asyncgrad" / "__init__.py").read_text():
            raise CannotCountError("AttributeError: no tensor")
        return priced(command, folder)

    shown = count.compare(failing, "HEAD~1", LENGTHS, twice=False).splitlines()

    assert [cell.strip() for cell in shown[2].split("|")][2:5] == ["-", "11", "-"]
    assert shown[-1].endswith("cannot run the chain of size 16: AttributeError: no tensor")


@needs_git
def test_an_unknown_commit_is_named(repository: Path):
    with pytest.raises(CannotCountError, match="git has no commit 'HEAD~7'"):
        count.compare(priced, "HEAD~7", LENGTHS, twice=False)


@needs_git
def test_a_checkout_is_removed_when_counting_fails(repository: Path):
    def broken(command: Sequence[str], folder: Path) -> int:
        raise ValueError("counted wrong")

    with pytest.raises(ValueError, match="counted wrong"):
        count.compare(broken, "HEAD", LENGTHS, twice=False)

    assert len(worktrees(repository)) == 1
    assert list(Path(tempfile.gettempdir()).iterdir()) == []


def test_two_counts_at_once_are_refused(repository: Path):
    with count._isolated_copy(repository) as folder, pytest.raises(CannotCountError, match="another count is"):
        count.figures(priced, repository, LENGTHS)

    assert not folder.exists()


def test_an_asyncgrad_that_cannot_be_imported_is_found_out(repository: Path):
    (repository / "asyncgrad" / "__init__.py").write_text("import nothing_of_this_name\n")

    with pytest.raises(CannotCountError, match="cannot be imported: ModuleNotFoundError: No module named 'nothing_of"):
        count.figures(priced, repository, LENGTHS)


def perf_that_says(said: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a program called perf on the path, and nothing that counts besides."""
    programs = folder / "programs"
    programs.mkdir()
    script = f'while [ "$1" != --output ]; do shift; done\nprintf "# started\\n\\n{said}\\n" > "$2"\n'
    (programs / "perf").write_text(f"#!/bin/sh\n{script}")
    (programs / "perf").chmod(0o755)
    monkeypatch.setenv("PATH", str(programs))


def test_perf_counts_where_the_processor_lets_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    perf_that_says("12345,,instructions:u,900,100.00,,", tmp_path, monkeypatch)

    assert count.find_counter(None) is count.perf
    assert count.perf(["true"], tmp_path) == 12345


@pytest.mark.parametrize("tool", [None, "perf"])
def test_where_nothing_counts_the_error_says_what_to_install(
    tool: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    perf_that_says("<not supported>,,instructions:u,0,100.00,,", tmp_path, monkeypatch)

    with pytest.raises(SystemExit) as exit_:
        count.main([] if tool is None else ["--tool", tool])

    assert exit_.value.code == 1
    said = capsys.readouterr().err
    assert ("valgrind is not installed" in said) == (tool is None)
    assert "perf cannot count instructions here: <not supported>. Install valgrind" in said


@one_loop
@pytest.mark.parametrize("name", counted.WORKLOADS)
async def test_a_workload_has_so_many_nodes_as_its_name_says(name: str):
    roots = counted.WORKLOADS[name].record(6)

    nodes = set()
    todo = [root.grad_fn for root, _ in roots]
    while todo:
        node = todo.pop()
        if node not in nodes and not node.name.startswith("AccumulateGrad"):
            nodes.add(node)
            todo += [edge.node for edge in node.next_edges if edge.node is not None]
    assert len(nodes) == 6 * (8 if counted.WORKLOADS[name].unit == "model" else 1)
    await counted.differentiate(roots)


def test_outside_of_callgrind_the_mark_does_nothing():
    counted.start_counting()
