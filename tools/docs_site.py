"""Put the site together and build it: `python -m tools.docs_site` (`make docs`).

The pages of docs/ are plain Markdown whose links lead somewhere on a page of a repository as well. What they link to
outside of docs/ comes along: programs as pages, other files as they are. The navigation and the reference are added.
"""

from __future__ import annotations

import os
import posixpath
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

import asyncgrad as ag
from tools import gallery, pictures, reference

__all__ = ["DOCS", "NAVIGATION", "ROOT", "assemble", "places"]

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
SOURCE = ROOT / "build" / "docs-source"
SITE = ROOT / "build" / "docs"

#: The pages of docs/ in the order of the navigation; a pattern takes the pages that there are.
NAVIGATION = {
    "Start here": ("in-a-hurry", "tutorial", "coming-from", "when-not-to-use", "notebooks/*"),
    "Examples": ("gallery/index",),
    "How-to guides": (
        *(
            "guides",
            "sharp-bits",
            "cancellation",
            "training",
            "serving",
            "deployment",
            "sharing",
            "memory",
            "trees",
            "scipy",
            "interoperability",
        ),
        *(
            "devices",
            "remote-steps",
            "values",
            "text-gradients",
            "batching-and-limits",
            "distributed",
            "security",
            "gpu",
            "streams",
            "jit",
            "profiling",
            "visualizing",
            "observing",
            "process",
        ),
    ),
    "Reference": ("reference", "coverage", "pytorch-names", "hips-names"),
    "Explanation": ("engine", "layout", "views", "performance"),
    "Project": ("versions", "limits", "changelog", "contributing", "licence"),
}
#: Pages made of files at the top of the repository, by the file that a link names.
PROJECT = {
    "README.md": "gallery/index",
    "CHANGELOG.md": "changelog",
    "CONTRIBUTING.md": "contributing",
    "LICENSE": "licence",
}
#: What newcomers type into the search, by the heading beneath which it is told: the search finds that first.
SEARCHED: dict[str, dict[str, tuple[str, ...]]] = {
    "training": {
        "## Data": ("load data", "data loader", "batches", "dataset"),
        "## A training": (
            *("train a model", "train model", "training loop", "fit a model"),
            *("learning rate", "clip gradients", "clip gradient"),
        ),
        "### Progress, and the loss curve": ("no grad", "evaluate a model"),
        "### Early stopping, and averages of the weights": ("early stopping", "stop early", "average weights"),
        "## Saving, and going on": ("save model", "save a model", "load model", "load a model", "resume training"),
    },
    "serving": {"## A service in twenty lines": ("serve a model", "serve model", "online learning", "http server")},
    "deployment": {
        "## systemd": ("systemd", "systemd unit"),
        "## Containers": ("docker", "kubernetes", "container"),
        "## One learner, several predictors": ("several processes", "read replica", "scale out"),
        "## Backups": ("backup a model", "restore a model"),
    },
    "sharp-bits": {"## Ties, singular points and conventions": ("nan", "gradient is nan")},
    "engine": {
        "## What may happen at a node": ("hook", "hooks"),
        "## When it fails": ("detect anomaly", "traceback"),
    },
    "memory": {"## Checkpoints: computed again": ("out of memory", "gradient checkpointing", "save memory")},
    "observing": {"## What it waits for": ("backward hangs", "deadlock", "stuck"), "## Progress": ("progress bar",)},
    "profiling": {"## A table": ("profile", "profiler", "what is slow")},
    "visualizing": {"## As a picture": ("draw graph", "plot graph", "visualize graph", "picture of a graph")},
    "jit": {
        "## What happens in which call": ("jit", "compile", "compile a function", "make it faster"),
        "## Rows of a batch": ("per-example gradients",),
    },
    "batching-and-limits": {
        "## Calls that become one request": ("batch", "batch requests", "one request of many calls"),
        "## Limits": ("rate limit", "limit requests", "too many requests"),
        "## Timeouts and retries": ("retry", "try again after an error"),
    },
    "gpu": {"## A first program": ("use a gpu", "use gpu", "cuda")},
    "tutorial": {
        "## A first gradient": ("first gradient", "getting started", "compute a gradient"),
        "## A rule that waits": ("async backward", "await in backward", "custom gradient"),
        "## Cancel it": ("cancel a backward", "cancel backward", "timeout"),
    },
}

_LINK = re.compile(r"(\]\()((?!\w+:)[^)#\s]*)(#[^)\s]*)?(\))")
_FILE_LABEL = re.compile(r"\[(`?)[\w./-]+\.md\1\](?=\((?!\w+:)([^)#\s]+\.md)(?:#[^)\s]*)?\))")
_SVG_DARK = re.compile(r"<style>@media \(prefers-color-scheme: dark\).*?</style>", re.DOTALL)
_LANGUAGES = {".py": "python", ".json": "json", ".toml": "toml", ".sh": "sh"}


def places() -> dict[str, str]:
    """Return the section of the navigation that each page of docs/ stands in."""
    files = {
        str(path.relative_to(DOCS).with_suffix("")) for kind in ("md", "ipynb") for path in DOCS.rglob(f"*.{kind}")
    }
    return {
        page: section
        for section, patterns in NAVIGATION.items()
        for pattern in patterns
        for page in sorted(files)
        if re.fullmatch(pattern.replace("*", "[^/]*"), page)
    }


def assemble(target: Path, runs: Mapping[str, gallery.Run] | None = None) -> None:
    """Write what Sphinx reads into a folder: docs/, the gallery, the reference, and what docs/ links to beside it.

    Args:
        target: the folder, which is made anew.
        runs: what the examples have given, by `gallery.run_all`; none shows their code alone.
    """
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(DOCS, target)
    gallery.write(target, runs or {})
    for name, text in reference.pages().items():
        _write(target / "reference" / f"{name}.rst", text)
    for file in ("CHANGELOG.md", "CONTRIBUTING.md"):
        _write(target / f"{PROJECT[file]}.md", _rewritten((ROOT / file).read_text(), "", "", target))
    _write(target / "licence.md", f"# Licence\n\n```text\n{(ROOT / 'LICENSE').read_text()}```\n")
    for page in DOCS.rglob("*.md"):
        folder = page.parent.relative_to(DOCS).as_posix()
        text = _with_index(page.relative_to(DOCS).with_suffix("").as_posix(), page.read_text())
        _write(target / page.relative_to(DOCS), _rewritten(text, f"docs/{folder}", folder, target))
    _embed_the_graph(target)
    _add_navigation(target)


def _embed_the_graph(target: Path) -> None:
    """Put the page of a graph in the place of its picture, which is for readers of the repository."""
    loss, model = pictures.graph_of_the_guide()
    ag.visualize(loss, target / "extra" / "visualizing-graph.html", params=model)
    page = target / "visualizing.md"
    frame = gallery.frame("visualizing-graph.html", "The graph of a residual network")
    page.write_text(re.sub(r"^!\[[^]]*\]\(graph-page\.png\)$", frame, page.read_text(), flags=re.MULTILINE))


def _with_index(page: str, text: str) -> str:
    """Return the text of a page with an entry of the index beneath each heading that newcomers look for."""
    for heading, phrases in SEARCHED.get(page, {}).items():
        entries = ", ".join(f"! {phrase}" for phrase in phrases)  # the main ones, which the search has first
        # Behind a comment, which has no place on the page that an entry could lead to.
        above = re.compile(rf"^{re.escape(heading)}\n(?:\n<!--[^>]*-->\n)?", re.MULTILINE)
        text = above.sub(rf"\g<0>\n```{{index}} {entries}\n```\n", text, count=1)
    return text


def title_of(page: Path) -> str:
    """Return the first heading of a page in Markdown."""
    return next(line[2:].strip() for line in page.read_text().splitlines() if line.startswith("# "))


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def _rewritten(text: str, home: str, folder: str, target: Path) -> str:
    """Return a page of the folder `home` of the repository as one of `folder` of the site, with other links."""

    def replace(match: re.Match[str]) -> str:
        before, path, anchor, after = match.groups(default="")
        if not path:
            return match[0]
        file = posixpath.normpath(posixpath.join(home, path))
        place = posixpath.relpath(_place(file, target), folder or ".")
        return f"{before}{place}{'' if file == 'README.md' else anchor}{after}"

    def label(match: re.Match[str]) -> str:
        page = ROOT / posixpath.normpath(posixpath.join(home, match[2]))
        return f"[{title_of(page)}]" if page.is_file() and page.name != "README.md" else match[0]

    return _LINK.sub(replace, _FILE_LABEL.sub(label, text))


def _place(file: str, target: Path) -> str:
    """Return where a file of the repository is on the site, and bring it there if it is no page of docs/."""
    if file.startswith("docs/"):
        return file.removeprefix("docs/")
    if file in PROJECT:
        return f"{PROJECT[file]}.md"
    path = ROOT / file
    if path.parent == gallery.EXAMPLES and path.suffix == ".py":
        return f"gallery/{path.stem}.md"
    if path.suffix in _LANGUAGES and path.is_file():
        page = target / "source" / f"{file}.md"
        if not page.exists():
            # The search is for pages: the record of a benchmark would come ahead of the guide that is made of it.
            head = "---\norphan: true\nnosearch: true\n---\n\n"
            _write(page, f"{head}# {file}\n\n````{_LANGUAGES[path.suffix]}\n{path.read_text()}````\n")
        return f"source/{file}.md"
    copy = target / "files" / file
    copy.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".svg" and path.is_file():
        # The site has a switch for its colours, which a picture does not see: docs/_static/site.css turns all pictures.
        copy.write_text(_SVG_DARK.sub("", path.read_text()))
    elif path.is_file():
        shutil.copyfile(path, copy)
    return f"files/{file}"


def _add_navigation(target: Path) -> None:
    trees, found = [], places()
    for section, patterns in NAVIGATION.items():
        pages = [page for page, where in found.items() if where == section and page != "index"]
        pages += [page for page in patterns if page in PROJECT.values()]
        trees.append(_toctree(pages, f":caption: {section}\n"))
    with (target / "index.md").open("a") as index:
        index.write("".join(trees))
    with (target / "reference.md").open("a") as index:
        names = sorted(reference.pages(), key=lambda name: (name != "asyncgrad", name.lower()))
        index.write(_toctree([f"reference/{name}" for name in names]))


def _toctree(pages: list[str], options: str = "") -> str:
    return f"\n```{{toctree}}\n:hidden:\n{options}\n" + "\n".join(pages) + "\n```\n"


def main() -> int:
    """Build the site into build/docs; return the exit code."""
    import_module("tools.stand_ins").import_modules()  # Sphinx's, which the tests do without
    assemble(SOURCE, gallery.run_all())
    strict = ["--fail-on-warning", "--keep-going", "--jobs", "auto", "--quiet"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "sphinx", *strict, "--builder", "html", str(SOURCE), str(SITE)]
    code = subprocess.run(command, env=environment, check=False).returncode
    if code == 0:
        sys.stdout.write(f"The site is in {SITE.relative_to(ROOT)}: open {SITE.relative_to(ROOT)}/index.html\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
