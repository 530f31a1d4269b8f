"""Learners and followers that are killed with signal 9, in all that they do: a sample of benchmarks.chaos_learner."""

from __future__ import annotations

import os
import random
import subprocess
import sys

import pytest

import asyncgrad as ag
from asyncgrad.learn import Learner
from benchmarks import chaos_learner
from tests.learn.actions import act
from tests.support.house import ROOT
from tests.support.sampling import cases


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="kills processes as on Linux")
def test_whatever_is_killed_what_was_acknowledged_is_there_once_and_followers_have_its_bits():
    count = cases(60)
    command = [sys.executable, "-m", "benchmarks.chaos_learner", str(count)]

    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert (ended.returncode, ended.stderr) == (0, "")
    assert int(ended.stdout.splitlines()[-1].split()[0]) >= count
