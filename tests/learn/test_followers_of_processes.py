"""Learners and followers that are killed with signal 9, in all that they do: a sample of benchmarks.chaos_learner."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.support.house import ROOT
from tests.support.sampling import cases

for package in ("starlette", "uvicorn", "httpx"):
    pytest.importorskip(package, reason=f"needs {package}: pip install 'asyncgrad[serve]'")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="kills processes as on Linux"),
]


def run(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a program of Python."""
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


MAIN = "import sys; from benchmarks import chaos_learner; sys.exit(chaos_learner.main())"


def test_whatever_is_killed_what_was_acknowledged_is_there_once_and_followers_have_its_bits():
    count = cases(40)

    ended = run(MAIN, str(count))

    assert (ended.returncode, ended.stderr) == (0, "")
    assert int(ended.stdout.splitlines()[-1].split()[0]) >= count


#: Code that has something go wrong.
DEFECTS = {
    "an example is acknowledged and not written": """
from asyncgrad.learn.directory import ModelDirectory
append = ModelDirectory.append
ModelDirectory.append = lambda self, learned, *rest: learned % 5 == 4 or append(self, learned, *rest)
""",
    "an end in order leaves a journal": """
from asyncgrad.learn.recorded_model import RecordedModel
async def finish(self):
    self.close()
RecordedModel.finish = finish
""",
    "a follower takes a rollback for nothing": """
from asyncgrad.learn.following import Following
do = Following._do
async def skip(self, record):
    if record.rollback is None:
        await do(self, record)
Following._do = skip
""",
}
#: The seed of a run that finds it soon, where that is not 0.
SEEDS = {"an end in order leaves a journal": 1}


@pytest.mark.parametrize("defect", DEFECTS)
def test_the_program_complains_where_something_is_lost(defect):
    ended = run(DEFECTS[defect] + MAIN, "20", "--seed", str(SEEDS.get(defect, 0)))

    assert ended.returncode == 1
    assert "AssertionError" in ended.stderr
