"""Count instructions in this tree and in another commit: unlike seconds, they show a slow-down on a busy machine too.

    python -m benchmarks.count                    compare this tree with the commit before
    python -m benchmarks.count --base v0.1.0      compare it with another commit, checked out in a temporary folder
    python -m benchmarks.count --twice            count this tree twice, and print by how much the counts differ

Valgrind's callgrind counts; if it is not installed, `perf stat`, if the processor allows it. Each figure is the
difference of two runs, one with twice as many operations as the other, divided by the number of operations, so that
the start of a process does not count. Hashes, addresses and threads are the same in every run, the garbage collector
and the time budget of the event loop are off, so two runs count nearly the same. The counts do not say what is fast:
an instruction that waits for memory counts as much as any other. The ratios in README.md say that.
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

#: The environment of a counted process, besides PATH and the like, so that nothing differs between runs.
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

#: Takes a command and the folder whose asyncgrad it imports; returns how many instructions it executed.
Counter = Callable[[Sequence[str], Path], int]


class CannotCountError(RuntimeError):
    """No tool on this machine can count instructions, or the counted program failed."""


#: The instructions per unit by workload and phase, or the error for which there is no figure.
Figures = dict[tuple[str, str], float | CannotCountError]


class Row(NamedTuple):
    """One line of the table: instructions per unit in the other commit and in this tree; None if it could not run."""

    name: str
    before: float | None
    now: float | None


def _run(command: Sequence[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command that imports asyncgrad from a folder; return the completed process.

    Raises:
        CannotCountError: the command failed.
    """
    kept = {name: os.environ[name] for name in KEPT if name in os.environ}
    environment = {**kept, **FIXED, "PYTHONPATH": str(folder)}
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines() or [f"exit status {done.returncode}"]
        # The last line of the traceback; valgrind writes lines of its own after it.
        own = [line for line in said if not line.startswith("==")] or said
        raise CannotCountError(own[-1])
    return done


def _same_addresses() -> tuple[str, ...]:
    """Return the prefix of a command that turns address randomization off, or () if the system has none."""
    prefix = ("setarch", platform.machine(), "-R")
    if shutil.which("setarch") is None:
        return ()
    # A container may forbid it.
    return prefix if subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode == 0 else ()


def callgrind(command: Sequence[str], folder: Path) -> int:
    """Count with valgrind; on processors in CODE, from the point that the script marks as the start."""
    options = ["--tool=callgrind", "--callgrind-out-file=/dev/null"]
    if platform.machine() in CODE:
        options.append("--instr-atstart=no")
    said = _run([*_same_addresses(), "valgrind", *options, *command], folder).stderr
    found = re.search(r"Collected : (\d+)", said)
    if found is None or not int(found[1]):
        raise CannotCountError(f"callgrind counted nothing; it said: {said.strip()[-200:]}")
    return int(found[1])


def perf(command: Sequence[str], folder: Path) -> int:
    """Count with the processor's counter of instructions in user space."""
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
    """Return the counter with a name, or the first one that works here.

    Raises:
        CannotCountError: none works; the message says what was tried.
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
    """Return the instructions per unit of each workload and phase, with the asyncgrad of a tree.

    Args:
        counter: counts instructions.
        tree: the root of a checkout.
        lengths: the shorter of the two lengths of each workload.
    """
    with _isolated_copy(tree) as folder:
        return _figures(counter, folder, lengths)


@contextlib.contextmanager
def _isolated_copy(tree: Path) -> Iterator[Path]:
    """Yield a folder with a copy of a tree's asyncgrad and nothing else, at the same path for each tree.

    Paths are stored in the process, also in compiled files, and their lengths shift the addresses of other objects.
    Addresses decide how often a dict of objects has collisions, which can be half a percent of a backward.
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
    # This import compiles all files, so that no counted run has to; and checks that asyncgrad comes from this folder.
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
            # A run with the backward includes the forward.
            found[name, phase] = (long - short) / length - passed
            passed = (long - short) / length
    return found


@contextlib.contextmanager
def checkout(commit: str) -> Iterator[tuple[str, Path]]:
    """Check out a commit in a temporary folder for the length of a block; yield its short name and the folder."""
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
    """Return the table of a commit and this tree, followed by notes on workloads that could not run."""
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
    """Count, and print the table; return the exit status."""
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
