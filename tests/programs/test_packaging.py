"""What installing asyncgrad puts where: from a tree, through an sdist, and in place.

devices/ stands at the top of the repository and is imported as asyncgrad.devices; every way to install
the project has to see it so. Nothing here needs a network: setuptools comes with the test dependencies.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import asyncgrad
from tests.support.house import ROOT

pytestmark = pytest.mark.timeout(180)  # builds, on a machine that may be busy

#: What a checkout has gathered that a clone does not have.
CLUTTER = shutil.ignore_patterns(".*", "build", "dist", "*.egg-info", "__pycache__")

PIP = [sys.executable, "-m", "pip", "--no-input", "--disable-pip-version-check"]
OFFLINE = ["--no-build-isolation", "--no-deps", "--no-index", "--quiet"]
#: Nothing but a few modules is imported of what is installed.
INSTALL = ["install", *OFFLINE, "--no-compile"]


def run_command(*command: object, cwd: Path, path: Path | None = None) -> str:
    """Run a command as a user would who has nothing but `path` on PYTHONPATH; return what it printed."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PIP_"))}
    if path:
        env["PYTHONPATH"] = str(path)
    words = [str(part) for part in command]
    done = subprocess.run(words, cwd=cwd, env=env, capture_output=True, text=True, check=False)

    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout.strip()


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the repository as a clone has it, symlink and all."""
    return shutil.copytree(ROOT, tmp_path_factory.mktemp("clone") / "asyncgrad", symlinks=True, ignore=CLUTTER)


@pytest.fixture(scope="module", params=["tree", "sdist"])
def wheel(request: pytest.FixtureRequest, checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from the tree or from the sdist."""
    out = tmp_path_factory.mktemp(request.param)
    source = checkout
    if request.param == "sdist":
        build = "import sys; from setuptools import build_meta; build_meta.build_sdist(sys.argv[1])"
        run_command(sys.executable, "-c", build, out, cwd=checkout)
        (source,) = out.glob("asyncgrad-*.tar.gz")
    run_command(*PIP, "wheel", *OFFLINE, "--wheel-dir", out, source, cwd=out)
    (built,) = out.glob("asyncgrad-*.whl")
    return built


def test_devices_at_the_top_are_linked_into_the_package():
    assert (ROOT / "asyncgrad" / "devices").readlink() == Path("../devices")


@pytest.mark.slow
def test_a_wheel_holds_the_package_with_its_devices_and_nothing_else(wheel: Path):
    names = zipfile.ZipFile(wheel).namelist()

    shipped = {"asyncgrad/__init__.py", "asyncgrad/devices/__init__.py", "asyncgrad/py.typed"}
    assert shipped | {"asyncgrad/observing/visualize/page.html"} <= set(names)
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {"asyncgrad"}


@pytest.mark.slow
def test_the_version_is_that_of_the_wheel_and_of_the_citation(wheel: Path):
    citation = dict(re.findall(r"^([\w-]+): *(.*)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE))

    assert wheel.name.split("-")[1] == asyncgrad.__version__ == citation["version"]
    assert {"cff-version", "message", "title", "authors"} <= set(citation)


@pytest.mark.slow
def test_a_wheel_holds_every_module(wheel: Path):
    names = {name for name in zipfile.ZipFile(wheel).namelist() if name.endswith(".py")}
    devices = {f"asyncgrad/{path.relative_to(ROOT).as_posix()}" for path in (ROOT / "devices").rglob("*.py")}
    package = {path.relative_to(ROOT).as_posix() for path in (ROOT / "asyncgrad").rglob("*.py")}

    assert names == package | devices


def test_a_plain_install_is_imported_from_anywhere(checkout: Path, tmp_path: Path):
    target = tmp_path / "site"
    run_command(*PIP, *INSTALL, "--target", target, checkout, cwd=tmp_path)

    where = run_command(
        sys.executable, "-c", "import asyncgrad.devices as d; print(d.__file__)", cwd=tmp_path, path=target
    )

    assert Path(where) == target / "asyncgrad" / "devices" / "__init__.py"
    assert not (target / "devices").exists()


@pytest.mark.slow
def test_an_editable_install_is_imported_from_anywhere(checkout: Path, tmp_path: Path):
    target = tmp_path / "site"
    run_command(*PIP, *INSTALL, "--target", target, "--editable", checkout, cwd=tmp_path)
    # -S, so that this folder comes before the environment's own, which may hold asyncgrad in place too.
    program = f"import site; site.addsitedir({str(target)!r}); site.main(); import asyncgrad.devices as d"

    where = run_command(sys.executable, "-S", "-c", f"{program}; print(d.__file__)", cwd=tmp_path)

    assert Path(where).resolve() == checkout / "devices" / "__init__.py"
