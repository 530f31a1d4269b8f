"""Instructions in place of seconds, beside those of another commit: a slow-down shows on a machine that is busy, too.

    python -m benchmarks.count                    this tree, and the commit before
    python -m benchmarks.count --base v0.1.0      and any other commit, which git checks out elsewhere meanwhile
    python -m benchmarks.count --twice            count everything twice, and say by how much the two differ

Valgrind's callgrind counts, or where that is not installed `perf stat`, if the processor lets it. Each figure is the
difference of two runs, one with twice as many operations as the other, over the number of operations: what a process
does once is in both. Hashes, addresses and threads are the same in every run, the garbage collector is off, and nothing
is cut into slices of time, so that two runs count nearly the same (README's ratios say what is fast; instructions do
not, as one that waits for memory counts as much as one that does not).
"""

from __future__ import annotations

import argparse
import contextlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from .counted import CODE, WORKLOADS

__all__ = ["CannotCountError", "main"]

ROOT = Path(__file__).parent.parent
SCRIPT = Path(__file__).with_name("counted.py")
PHASES = ("forward", "backward")

#: All that a counted process finds in its environment, besides PATH and the like: nothing that differs between runs.
FIXED = {
    "PYTHONHASHSEED": "0",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "VECLIB_MAXIMUM_THREADS": "1",
    "ASYNCGRAD_WORKERS": "0",
    "ASYNCGRAD_LOOP_BUDGET_MS": "1e9",
    "ASYNCGRAD_OFFLOAD_THRESHOLD_MS": "1e9",
}
KEPT = ("PATH", "HOME", "LD_LIBRARY_PATH", "SYSTEMROOT")

#: Takes a command and the folder whose asyncgrad it is to import; returns how many instructions it took.
Counter = Callable[[Sequence[str], Path], int]


class CannotCountError(RuntimeError):
    """Nothing here can count instructions, or what was to be counted did not run."""


#: By workload and phase, instructions per unit, or why there is no figure.
Figures = dict[tuple[str, str], float | CannotCountError]


class Row(NamedTuple):
    """One line of the table: instructions per unit, of the other commit and of this tree; None if it could not run."""

    name: str
    before: float | None
    now: float | None


def _run(command: Sequence[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command that imports asyncgrad from a folder, and return its outcome once it has succeeded."""
    kept = {name: os.environ[name] for name in KEPT if name in os.environ}
    environment = {**kept, **FIXED, "PYTHONPATH": str(folder)}
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines() or [f"exit status {done.returncode}"]
        # Of a traceback its last line; valgrind writes its own after that.
        own = [line for line in said if not line.startswith("==")] or said
        raise CannotCountError(own[-1])
    return done


def _same_addresses() -> tuple[str, ...]:
    """Return what runs a command with the same addresses each time, where the system has that."""
    prefix = ("setarch", platform.machine(), "-R")
    if shutil.which("setarch") is None:
        return ()
    # A container may forbid it.
    return prefix if subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode == 0 else ()


def callgrind(command: Sequence[str], folder: Path) -> int:
    """Count by valgrind; where it can be told so, only from what the script marks as the beginning."""
    options = ["--tool=callgrind", "--callgrind-out-file=/dev/null"]
    if platform.machine() in CODE:
        options.append("--instr-atstart=no")
    said = _run([*_same_addresses(), "valgrind", *options, *command], folder).stderr
    found = re.search(r"Collected : (\d+)", said)
    if found is None or not int(found[1]):
        raise CannotCountError(f"callgrind counted nothing; it said: {said.strip()[-200:]}")
    return int(found[1])


def perf(command: Sequence[str], folder: Path) -> int:
    """Count by the processor's own counter, of what is not the kernel."""
    with tempfile.NamedTemporaryFile("r", suffix=".csv") as written:
        options = ["stat", "--field-separator", ",", "--event", "instructions:u", "--output", written.name, "--"]
        _run([*_same_addresses(), "perf", *options, *command], folder)
        lines = [line for line in Path(written.name).read_text().splitlines() if "instructions" in line]
    count = lines[0].partition(",")[0] if lines else ""
    if not count.isdigit():
        raise CannotCountError(f"perf cannot count instructions here: {count or 'it wrote nothing'}")
    return int(count)


COUNTERS: Mapping[str, Counter] = {"callgrind": callgrind, "perf": perf}


def find_counter(name: str | None) -> Counter:
    """Return the counter of a name, or the first that works here.

    Raises:
        CannotCountError: there is none; the message says what was tried.
    """
    problems = []
    for one in COUNTERS if name is None else [name]:
        program = "valgrind" if one == "callgrind" else one
        if shutil.which(program) is None:
            problems.append(f"{program} is not installed")
            continue
        if one == "callgrind":
            return callgrind
        try:
            perf(["true"], ROOT)
        except CannotCountError as error:
            problems.append(str(error))
            continue
        return perf
    raise CannotCountError(f"nothing counts instructions: {'; '.join(problems)}. Install valgrind (with callgrind)")


def figures(counter: Counter, tree: Path, lengths: Mapping[str, int]) -> Figures:
    """Return the instructions per unit of each workload's phases, with a tree's asyncgrad.

    Args:
        counter: what counts.
        tree: the root of a checkout.
        lengths: for each workload the shorter of its two lengths.
    """
    with _alone(tree) as folder:
        return _figures(counter, folder, lengths)


@contextlib.contextmanager
def _alone(tree: Path) -> Iterator[Path]:
    """Give a folder with a copy of a tree's asyncgrad and nothing else, at the same path for each tree.

    Paths are part of a process, those in compiled files too, and their lengths move all that lies behind them in
    memory; what lies where decides how often a dict of objects has to look twice: half a percent of a backward.
    """
    folder = Path(tempfile.gettempdir()).resolve() / f"asyncgrad-counted-{os.getuid()}"
    try:
        folder.mkdir()
    except FileExistsError:
        raise CannotCountError(
            f"{folder} is there: another count is under way, or was killed; if none is, remove the folder"
        ) from None
    try:
        shutil.copytree(tree / "asyncgrad", folder / "asyncgrad", ignore=shutil.ignore_patterns("__pycache__"))
        yield folder
    finally:
        shutil.rmtree(folder)


def _figures(counter: Counter, folder: Path, lengths: Mapping[str, int]) -> Figures:
    # So that no counted run has to compile anything; and it must be this asyncgrad and no installed one.
    where = (
        "import asyncgrad, sys; sys.exit(None if asyncgrad.__file__.startswith(sys.argv[1]) else asyncgrad.__file__)"
    )
    try:
        _run([sys.executable, "-c", where, str(folder)], folder)
    except CannotCountError as error:
        raise CannotCountError(f"asyncgrad cannot be imported: {error}") from error

    def count(job: tuple[str, str, int]) -> int | CannotCountError:
        workload, phase, length = job
        try:
            return counter([sys.executable, "-P", str(SCRIPT), workload, phase, str(length)], folder)
        except CannotCountError as error:
            return error

    jobs = [(name, phase, length * k) for name, length in lengths.items() for phase in PHASES for k in (1, 2)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        counted = dict(zip(jobs, pool.map(count, jobs), strict=True))
    found: Figures = {}
    for name, length in lengths.items():
        passed = 0.0
        for phase in PHASES:
            short, long = counted[name, phase, length], counted[name, phase, 2 * length]
            if isinstance(short, CannotCountError) or isinstance(long, CannotCountError):
                found[name, phase] = short if isinstance(short, CannotCountError) else long
                continue
            # A run with the backward has the forward in it.
            found[name, phase] = (long - short) / length - passed
            passed = (long - short) / length
    return found


@contextlib.contextmanager
def checkout(commit: str) -> Iterator[tuple[str, Path]]:
    """Check a commit out into a temporary folder, for the length of a block; give its short name and the folder."""
    sha = _git("rev-parse", "--verify", "--short", f"{commit}^{{commit}}", or_else=f"git has no commit {commit!r}")
    with tempfile.TemporaryDirectory(prefix="asyncgrad-count-") as folder:
        tree = Path(folder).resolve() / "tree"
        _git("worktree", "add", "--detach", "--quiet", str(tree), sha, or_else=f"{commit} cannot be checked out")
        try:
            yield sha, tree
        finally:
            _git("worktree", "remove", "--force", str(tree), or_else=f"the worktree {tree} cannot be removed")


def _git(*arguments: str, or_else: str) -> str:
    try:
        done = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=False)
    except OSError as error:
        raise CannotCountError(f"{or_else}: git cannot be run ({error.strerror})") from error
    if done.returncode:
        raise CannotCountError(": ".join(filter(None, [or_else, done.stderr.strip()])))
    return done.stdout.strip()


def table(rows: Sequence[Row], base: str) -> str:
    """Return the rows as a table that reads well as text and as Markdown."""
    cells = [["instructions", base, "this tree", "ratio"]]
    for row in rows:
        ratio = "-" if row.before is None or row.now is None else f"{row.now / row.before:.4f}"
        cells.append([row.name, *("-" if one is None else f"{one:,.0f}" for one in (row.before, row.now)), ratio])
    widths = [max(len(row[column]) for row in cells) for column in range(4)]
    cells.insert(1, ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])])
    lines = [[row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])] for row in cells]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _number(found: float | CannotCountError) -> float | None:
    return None if isinstance(found, CannotCountError) else found


def compare(counter: Counter, base: str, lengths: Mapping[str, int], *, twice: bool) -> str:
    """Return the table of a commit and this tree, and below it what could not run."""
    with checkout(base) as (sha, tree):
        before = figures(counter, tree, lengths)
    now = figures(counter, ROOT, lengths)
    said = []
    for who, found in ((sha, before), ("this tree", now)):
        failed = {str(one): name for (name, _), one in found.items() if isinstance(one, CannotCountError)}
        said += [f"{who} cannot run the {name}: {why}" for why, name in failed.items()]
    rows = []
    for name, phase in now:
        unit = WORKLOADS[name].unit
        rows.append(Row(f"{name}: {phase}, per {unit}", _number(before[name, phase]), _number(now[name, phase])))
    if twice:
        again = figures(counter, ROOT, lengths)
        pairs = [(_number(now[key]), _number(again[key])) for key in now]
        apart = max((abs(two / one - 1) for one, two in pairs if one and two), default=float("nan"))
        said.append(f"Counted twice, this tree's figures differ by at most {apart:.4%}.")
    return "\n".join([table(rows, sha), *said])


def main(arguments: Sequence[str] | None = None) -> int:
    """Count, print; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.count", description="Count asyncgrad's instructions.")
    parser.add_argument("--base", default="HEAD~1", metavar="COMMIT", help="what to compare with (default: HEAD~1)")
    parser.add_argument("--tool", choices=sorted(COUNTERS), help="what counts (default: the first that works)")
    parser.add_argument("--twice", action="store_true", help="count this tree twice, to see how far two runs differ")
    options = parser.parse_args(arguments)
    lengths = {name: workload.length for name, workload in WORKLOADS.items()}
    try:
        print(compare(find_counter(options.tool), options.base, lengths, twice=options.twice))
    except CannotCountError as error:
        parser.exit(1, f"{parser.prog}: {error}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
