"""Trainings take as many lines as in PyTorch or fewer, both run, and docs/training.md gives their numbers."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from tests.support.loops import one_loop

FOLDER = Path(__file__).parent
PAGE = FOLDER.parent.parent / "docs" / "training.md"
TEXT = "the quick brown fox jumps over the lazy dog while the loop goes on, and the dog dreams of a quicker fox. "

#: By the name in the table of the page: what each program consists of.
PROGRAMS = {
    "digits": ["digits"],
    "character transformer": ["Transformer", "fit"],
    "LSTM": ["Recurrent", "fit"],
}


def lines(module: str) -> dict[str, int]:
    """The lines of each class and function of a module that are not empty."""
    source = (FOLDER / f"{module}.py").read_text()
    segments = {
        node.name: ast.get_source_segment(source, node)
        for node in ast.parse(source).body
        if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
    }
    return {name: len([line for line in text.splitlines() if line.strip()]) for name, text in segments.items()}


def test_trainings_take_no_more_lines_than_in_pytorch_and_the_page_gives_their_numbers() -> None:
    here, there = lines("programs_here"), lines("programs_in_pytorch")
    rows = {name: tuple(sum(of[part] for part in parts) for of in (here, there)) for name, parts in PROGRAMS.items()}

    assert all(ours <= theirs for ours, theirs in rows.values())
    found = re.findall(r"^\| (.+?) \| (\d+) \| (\d+) \|$", PAGE.read_text(), re.MULTILINE)
    assert {name: (int(ours), int(theirs)) for name, ours, theirs in found} == rows


@one_loop
@pytest.mark.parametrize("module", ["programs_here", "programs_in_pytorch"])
async def test_the_trainings_that_are_counted_learn(module: str) -> None:
    if module == "programs_in_pytorch":
        pytest.importorskip("torch").manual_seed(0)
    ag.random.seed(0)
    programs: Any = importlib.import_module(f"tests.nn.{module}")
    rng = np.random.default_rng(0)
    labels = np.arange(64) % 10
    images = rng.standard_normal((10, 1, 8, 8))[labels]
    letters = sorted(set(TEXT))
    codes = np.array([letters.index(letter) for letter in TEXT])
    rows = np.stack([codes[start : start + 17] for start in range(64)])
    models = [programs.Transformer(len(letters), 16), programs.Recurrent(len(letters))]

    found = [programs.digits(images, labels, 4)]
    found += [programs.fit(model, rows[:, :-1], rows[:, 1:], 4) for model in models]

    for losses in [await given if inspect.iscoroutine(given) else given for given in found]:
        assert losses[-1] < 0.9 * losses[0]
