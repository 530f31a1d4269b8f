"""The gallery: a page for each example, with its code, what it prints, its pictures, and its graph as a page.

`make docs` runs the examples. What a run has given is kept beneath build/gallery until the example or the library
changes. What needs hardware or a service that is not here is not run, and its page says so.
"""

from __future__ import annotations

import ast
import contextlib
import datetime
import hashlib
import json
import marshal
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import CodeType
from typing import NamedTuple

__all__ = ["EXAMPLES", "TOPICS", "Run", "described", "frame", "pages", "run_all", "write"]

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples"
KEPT = ROOT / "build" / "gallery"
#: The seconds after which an example is ended, and its page shows no output.
PATIENCE = 600

#: The examples in the order of the gallery, each with the title of its page.
TOPICS = {
    "Waiting": {
        "async_rule": "A derivative that a service computes",
        "text_gradients": "Prompts that a language model improves",
        "many_models": "Two hundred models on one loop",
        "awaited_equation": "An equation whose right-hand side is awaited",
        "overlapped_reduction": "Gradients sent while others are computed",
    },
    "Training": {
        "train_digits": "A convolutional network beside a timer",
        "character_rnn": "An LSTM that writes while it learns",
        "character_transformer": "A transformer that stops early",
    },
    "Science": {
        "gaussian_process": "A Gaussian process, and how certain it is",
        "neural_ode": "A differential equation learned from its trajectories",
        "survival_fit": "Survival with censored data",
        "optimum_sensitivities": "How an optimum moves",
        "inplace_and_views": "Heat in a rod, backwards through writes",
    },
    "Memory": {
        "checkpoint_budget": "A gradient within a number of bytes",
        "reentrant_checkpoint": "Peak memory by depth",
        "train_deeper_than_memory": "Activations that do not fit into memory",
    },
    "Serving": {
        "serve_and_learn": "A service that learns while it serves",
        "serve_with_fastapi": "The same service with FastAPI",
    },
    "Several workers": {
        "pipeline": "A pipeline, in two orders",
        "data_parallel": "Replicas that fail together",
        "split_learning": "Two owners, one model",
        "lost_worker": "A worker that is killed",
        "two_gpus": "Several GPUs",
    },
}

#: What is written behind an example's name, so that it ends within a minute or two; "{picture}" is where it draws.
ARGUMENTS = {
    "awaited_equation": ("--out", "{picture}"),
    "character_rnn": ("--epochs", "10", "--out", "{picture}"),
    "character_transformer": ("--epochs", "8", "--quiet", "--out", "{picture}"),
    "gaussian_process": ("--out", "{picture}"),
    "inplace_and_views": ("--picture", "{picture}"),
    "many_models": ("--quiet",),
    "neural_ode": ("--iterations", "300", "--out", "{picture}"),
    "optimum_sensitivities": ("--out", "{picture}"),
    "pipeline": ("--out", "{picture}"),
    "reentrant_checkpoint": ("--picture", "{picture}"),
    "serve_and_learn": ("--demo",),
    "survival_fit": ("--out", "{picture}"),
    "text_gradients": ("--stand-in",),
    "train_digits": ("--epochs", "10", "--seed", "1", "--quiet", "--out", "{picture}"),
}

#: What is not run when the site is built, and why.
NOT_RUN = {
    "serve_with_fastapi": "It serves until it is stopped, so that there is no output to show here.",
    "two_gpus": "It needs several NVIDIA GPUs, so that it has not been run for this page.",
}
#: Examples whose backward is in processes of their own: there is no graph to draw in the one that is started.
ELSEWHERE = ("serve_and_learn", "train_deeper_than_memory")

#: What the alternative texts of the pictures say.
SHOWN = {
    "awaited_equation": "The way of the boat, learned and observed, and the loss by iteration.",
    "character_rnn": "The loss in bits per character, and the lines that were written after so many steps.",
    "character_transformer": "The loss by epoch, of the text that is learned and of the text kept aside.",
    "gaussian_process": "Data, mean and deviations before learning and after, and the slope of the mean.",
    "inplace_and_views": "The rod at its start, as measured and as found again; the gradient of its middle.",
    "neural_ode": "The trajectories, the learned velocities, and the loss by iteration.",
    "optimum_sensitivities": "The best weights, and a table of how each changes with each return.",
    "pipeline": "Time lines of three stages, for GPipe and for 1F1B.",
    "reentrant_checkpoint": "Peak memory in MB by the number of layers, without checkpoints and with them.",
    "survival_fit": "The fraction alive by time, fitted and true, for two covariates.",
    "train_digits": "The loss and the accuracy by epoch, and a histogram of how late a timer of 1 ms woke.",
}


class Run(NamedTuple):
    """What a run of an example has given."""

    printed: str
    day: str
    #: The files that stand in `folder` beside it: "picture.svg" and "graph.html", where there are such.
    files: tuple[str, ...]
    folder: Path


def described(name: str) -> str:
    """Return the docstring of an example."""
    return ast.get_docstring(ast.parse((EXAMPLES / f"{name}.py").read_text())) or ""


def run_all(names: Sequence[str] | None = None, kept: Path = KEPT) -> dict[str, Run]:
    """Run examples, two at a time, or take what is kept of a run of the same source; return what there is to show.

    Raises:
        RuntimeError: an example has failed.
    """
    chosen = [name for topic in TOPICS.values() for name in topic if name not in NOT_RUN]
    chosen = [name for name in chosen if names is None or name in names]
    library = _source_of_the_library()
    with ThreadPoolExecutor(2) as workers:
        runs = list(workers.map(lambda name: _run(name, kept, library), chosen))
    return dict(zip(chosen, runs, strict=True))


def _run(name: str, kept: Path, library: str) -> Run:
    folder = kept / f"{name}-{_key(name, library)}"
    record = folder / "run.json"
    if not record.exists():
        sys.stdout.write(f"examples/{name}.py runs for the gallery\n")
        sys.stdout.flush()
        folder.mkdir(parents=True, exist_ok=True)
        printed = _printed(name, folder)
        _draw_graph(name, folder)
        day = datetime.datetime.now(datetime.UTC).date().isoformat()
        record.write_text(json.dumps({"printed": printed, "day": day}))
    found = json.loads(record.read_text())
    files = tuple(file for file in ("picture.svg", "graph.html") if (folder / file).exists())
    return Run(found["printed"], found["day"], files, folder)


def _source_of_the_library() -> str:
    """Return the hash of the library's code, in which comments and docstrings do not count."""
    files = sorted((ROOT / "asyncgrad").rglob("*.py"))
    codes = [compile(path.read_bytes(), "", "exec", optimize=2, dont_inherit=True) for path in files]
    return hashlib.sha256(b"".join(marshal.dumps(_without_lines(code), 2) for code in codes)).hexdigest()


def _without_lines(code: CodeType) -> CodeType:
    # A set has another order in each process.
    constants = [tuple(sorted(map(repr, one))) if isinstance(one, frozenset) else one for one in code.co_consts]
    inner = tuple(_without_lines(one) if isinstance(one, CodeType) else one for one in constants)
    return code.replace(co_consts=inner, co_firstlineno=1, co_linetable=b"")


def _key(name: str, library: str) -> str:
    tool = Path(__file__).with_name("graph_of_example.py")
    own = [EXAMPLES / f"{name}.py", EXAMPLES / "pictures.mplstyle", *sorted(EXAMPLES.glob("*/*.py")), tool]
    told = f"{library} {ARGUMENTS.get(name)} {sys.version}"
    return hashlib.sha256(told.encode() + b"".join(path.read_bytes() for path in own)).hexdigest()[:16]


def _printed(name: str, folder: Path) -> str:
    """Run an example, and return what it prints, with the path of its picture as it is when nobody names one."""
    picture = folder / "picture.svg"
    done = _call([str(EXAMPLES / f"{name}.py"), *_arguments(name, picture)])
    if done.returncode != 0:
        raise RuntimeError(f"examples/{name}.py has ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout.replace(str(picture), f"examples/output/{name}.svg").rstrip() + "\n"


def _draw_graph(name: str, folder: Path) -> None:
    if name in ELSEWHERE:
        return
    page = folder / "graph.html"
    arguments = _arguments(name, folder / "unused.svg")
    done = _call(["-m", "tools.graph_of_example", str(EXAMPLES / f"{name}.py"), str(page), *arguments])
    if not page.exists():
        raise RuntimeError(f"no backward of examples/{name}.py has been drawn ({done.returncode}):\n{done.stderr}")


def _arguments(name: str, picture: Path) -> list[str]:
    return [word.format(picture=picture) for word in ARGUMENTS.get(name, ())]


def _call(words: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run Python; once it has ended, end what it has started and left behind: servers, workers."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, *words]
    # Into files: what is left behind would hold a pipe open.
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=out, stderr=err, start_new_session=True)
        try:
            process.wait(PATIENCE)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        out.seek(0)
        err.seek(0)
        return subprocess.CompletedProcess(command, process.returncode, out.read(), err.read())


def pages(runs: Mapping[str, Run]) -> dict[str, str]:
    """Return the pages of the gallery in Markdown by their names: "index", and one for each example.

    Args:
        runs: what the examples have given, as `run_all` returns it; a page of one that is not there has its code alone.
    """
    found = {"index": _index(runs)}
    for topic in TOPICS.values():
        found |= {name: _page(name, title, runs.get(name)) for name, title in topic.items()}
    return found


def write(target: Path, runs: Mapping[str, Run]) -> None:
    """Write the pages and the pictures into `target/gallery`, and the graphs into `target/extra/gallery`."""
    for name, text in pages(runs).items():
        path = target / "gallery" / f"{name}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    graphs = target / "extra" / "gallery"
    graphs.mkdir(parents=True, exist_ok=True)
    for name, run in runs.items():
        if "picture.svg" in run.files:
            (target / "gallery" / f"{name}.svg").write_bytes((run.folder / "picture.svg").read_bytes())
        if "graph.html" in run.files:
            (graphs / f"{name}-graph.html").write_bytes((run.folder / "graph.html").read_bytes())


def _index(runs: Mapping[str, Run]) -> str:
    parts = [
        "# Gallery",
        (
            "Each example is one file, and a page here: what it prints, its picture, its graph to zoom and search, and "
            "its code. The gallery is for readers who learn from whole programs."
        ),
    ]
    for topic, names in TOPICS.items():
        cards = [_card(name, title, runs.get(name)) for name, title in names.items()]
        parts += [f"## {topic}", '<div class="cards">', "\n".join(cards), "</div>"]
    hidden = [name for names in TOPICS.values() for name in names]
    parts.append("```{toctree}\n:hidden:\n\n" + "\n".join(hidden) + "\n```")
    return "\n\n".join(parts) + "\n"


def _card(name: str, title: str, run: Run | None) -> str:
    picture = f"![]({name}.svg)<br>" if run is not None and "picture.svg" in run.files else ""
    return f"- {picture}[**{title}**]({name}.md)<br>{_first_sentence(name)}"


def _first_sentence(name: str) -> str:
    return " ".join(described(name).split("\n\n")[0].split())


def _page(name: str, title: str, run: Run | None) -> str:
    text = re.sub(r"(?m)^((?: {4}.+\n?)+)", lambda found: f"```sh\n{_unindented(found[1])}\n```\n", described(name))
    parts = [f"# {title}", text]
    if name in NOT_RUN:
        parts.append(f"**{NOT_RUN[name]}**")
    if run is not None:
        parts += _results(name, run)
    source = (EXAMPLES / f"{name}.py").read_text()
    parts += ["## The program", f"`examples/{name}.py`", f"````python\n{source}````"]
    return "\n\n".join(parts) + "\n"


def _results(name: str, run: Run) -> list[str]:
    """Return what a run has given, as parts of a page."""
    command = " ".join(["python", f"examples/{name}.py", *_arguments(name, Path(f"examples/output/{name}.svg"))])
    parts = ["## What it prints", f"Printed by `{command}` on {run.day}.", f"```text\n{run.printed}```"]
    if "picture.svg" in run.files:
        parts += ["## Its picture", f"![{SHOWN[name]}]({name}.svg)"]
    if "graph.html" in run.files:
        page = f"{name}-graph.html"
        parts += [
            "## Its graph",
            (
                f'What the first backward walks, as `ag.visualize(loss, "{name}.html")` writes it: zoom with the '
                "wheel, move by dragging, search with `/`, click a node for what is known of it."
            ),
            frame(page, f"The graph of {name}.py"),
        ]
    return parts


def frame(page: str, title: str) -> str:
    """Return the HTML that shows the page of a graph within a page of the site, and leads to it."""
    return (
        f'<iframe class="graph" src="{page}" title="{title}" loading="lazy"></iframe>\n'
        f'<p><a class="graph-alone" href="{page}">The graph on a page of its own</a></p>'
    )


def _unindented(block: str) -> str:
    return "\n".join(line.removeprefix("    ") for line in block.rstrip().splitlines())
