"""A device in a package of its own, installed for these tests alone; and devices that are left as they were found."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest

import asyncgrad as ag

PIP = [sys.executable, "-m", "pip", "--no-input", "--disable-pip-version-check", "install"]
OFFLINE = ["--no-build-isolation", "--no-deps", "--no-index", "--quiet"]

PROJECT = """
    [build-system]
    requires = ["setuptools"]
    build-backend = "setuptools.build_meta"

    [project]
    name = "asyncgrad-abacus"
    version = "1.0"

    [project.entry-points."asyncgrad.devices"]
    abacus = "abacus_device:open_device"
    missing = "abacus_device:no_such_name"
    constant = "abacus_device:NUMBER"
    broken = "abacus_broken:open_device"
    liar = "abacus_device:open_another"
    failing = "abacus_device:fail"
    nameless = "abacus_device:open_nameless"
    typed = "abacus_device:open_class"
    two-hand = "abacus_device:open_two_hand"

    [tool.setuptools]
    py-modules = ["abacus_device", "abacus_broken"]
"""

MODULE = '''
    """A device that counts what it is asked to do."""

    from asyncgrad.devices import Device

    NUMBER = 3


    class Abacus(Device):
        def __init__(self, index):
            self._index = index
            self.arrived = self.left = self.bodies = 0

        @property
        def name(self):
            return f"abacus:{self._index}"

        def from_host(self, array):
            self.arrived += 1
            return array.copy(order="K")

        def to_host(self, array):
            self.left += 1
            return array.copy(order="K")

        def run_body(self, body):
            self.bodies += 1
            return body()


    def open_device(index):
        return Abacus(index)


    def open_another(index):
        return Abacus(17)


    def fail(index):
        raise OSError("no such card")


    class Nameless(Device):
        pass


    def open_nameless(index):
        return Nameless()


    def open_class(index):
        return Abacus


    class TwoHand(Device):
        def __init__(self, index):
            self._index = index

        @property
        def name(self):
            return "two-hand" if self._index is None else f"two-hand:{self._index}"


    def open_two_hand(index):
        return TwoHand(index)
'''


@pytest.fixture(scope="session")
def abacus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The name of a device that a package, built and installed by pip, offers by its entry point."""
    source, target = tmp_path_factory.mktemp("abacus"), tmp_path_factory.mktemp("site")
    (source / "pyproject.toml").write_text(dedent(PROJECT))
    (source / "abacus_device.py").write_text(dedent(MODULE))
    (source / "abacus_broken.py").write_text("import no_such_module_anywhere\n")
    done = subprocess.run([*PIP, *OFFLINE, "--target", target, source], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    sys.path.insert(0, str(target))
    try:
        assert list(Path(target).glob("asyncgrad_abacus-*.dist-info/entry_points.txt"))
        yield "abacus:0"
    finally:
        sys.path.remove(str(target))


@pytest.fixture(autouse=True)
def worker_threads_end() -> Iterator[None]:
    """Whatever a test does to a device, the next one finds it open, with nothing running."""
    yield
    for name in ("thread:0", "thread:1"):
        ag.device(name).close()
        ag.device(name)
