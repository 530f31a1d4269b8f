"""Build, check and try what a release uploads: `python -m tools.dist` (`make dist`). It lands in dist/.

The sdist and the wheel are of what is committed: they are built in a clean clone, where nothing lies about. The wheel
is made from the sdist. Then it is installed alone on each Python that is here, with the lowest and with the newest
versions of what it needs, and has to compute a gradient.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import asyncgrad

__all__ = ["DIST", "ROOT", "check_tag", "interpreter", "main", "with_home_page"]

ROOT = Path(__file__).resolve().parent.parent
DIST = ROOT / "dist"

#: What a wheel has to do where nothing else is installed: compute, and have the names of its facade.
TRIAL = """
import asyncgrad as ag, numpy as np

async def main():
    x = ag.tensor([1.0, 2.0, 3.0], requires_grad=True)
    await (np.tanh(x) * x).sum().backward()
    return x.grad.numpy()

x = np.array([1.0, 2.0, 3.0])
np.testing.assert_allclose(ag.run(main()), np.tanh(x) + x / np.cosh(x) ** 2)
for name in dir(ag):
    try:
        getattr(ag, name)
    except ImportError as error:
        assert f"'asyncgrad[{name}]'" in str(error), error
ag.device("thread:0")
print("asyncgrad", ag.__version__, "with NumPy", np.__version__)
"""


def check_tag(tag: str | None) -> None:
    """End the program if a tag is not that of the version.

    Args:
        tag: `v1.2.3`; None or an empty one asks for nothing.
    """
    if tag and tag != f"v{asyncgrad.__version__}":
        sys.exit(
            f"the tag {tag} is not that of the version {asyncgrad.__version__}: tag v{asyncgrad.__version__}, or "
            "change asyncgrad/core/settings/version.py and CITATION.cff"
        )


def with_home_page(project: str, readme: str, home: str, tag: str) -> tuple[str, str]:
    """Return pyproject.toml and README.md as the files of a release have them, which are read far from the repository.

    Args:
        project: the text of pyproject.toml.
        readme: the text of README.md, whose links lead to files beside it.
        home: the address of the repository, without a slash at its end.
        tag: where the links lead, since files move later.
    """
    links = {
        "Source": home,
        "Documentation": f"{home}/blob/{tag}/docs/index.md",
        "Changelog": f"{home}/blob/{tag}/CHANGELOG.md",
        "Issues": f"{home}/issues",
    }
    urls = "".join(f'{name} = "{link}"\n' for name, link in links.items())

    def absolute(match: re.Match[str]) -> str:
        kind = "raw" if match[1].endswith((".svg", ".png")) else "blob"
        return f"]({home}/{kind}/{tag}/{match[1]})"

    links_moved = re.sub(r"\]\((?!https?:|#)([^)]+)\)", absolute, readme)
    return project.replace("[build-system]", f"[project.urls]\n{urls}\n[build-system]", 1), links_moved


def interpreter(version: str) -> str | None:
    """Return where the Python of a version is: on the path, or among those that pyenv has built; None without one."""
    built = (Path.home() / ".pyenv" / "versions").glob(f"{version}.*/bin/python")
    for path in (shutil.which(f"python{version}"), *map(str, sorted(built))):
        # pyenv puts a name on the path for each of its versions; one that is not chosen does not run.
        if path and subprocess.run([path, "-c", ""], capture_output=True, check=False).returncode == 0:
            return path
    return None


def _run(*command: str | Path, cwd: Path = ROOT) -> None:
    print("+", *command, flush=True)
    subprocess.run(command, cwd=cwd, check=True)


def _build(folder: Path, home: str | None) -> None:
    """Build the sdist in a clone within a folder, the wheel from the sdist, and check what an index shows of them."""
    clone = folder / "clone"
    _run("git", "clone", "--quiet", "--no-hardlinks", ROOT, clone)
    if home:
        project, readme = clone / "pyproject.toml", clone / "README.md"
        texts = with_home_page(project.read_text(), readme.read_text(), home.rstrip("/"), f"v{asyncgrad.__version__}")
        project.write_text(texts[0])
        readme.write_text(texts[1])
    shutil.rmtree(DIST, ignore_errors=True)
    _run(sys.executable, "-m", "build", "--outdir", DIST, clone)
    _run(sys.executable, "-m", "twine", "check", "--strict", *sorted(DIST.iterdir()))


def _try_alone(wheel: Path, folder: Path, versions: Sequence[str]) -> list[str]:
    """Install the wheel alone on each Python that is here, with the lowest and the newest of what it needs."""
    tried = []
    uv = Path(sys.executable).with_name("uv")
    for version in versions:
        path = interpreter(version)
        if path is None:
            print(f"Python {version} is not here: skipped")
            continue
        for resolution in ("lowest", "highest"):
            home = folder / f"{version}-{resolution}"
            _run(uv, "venv", "--quiet", "--python", path, home)
            python = home / "bin" / "python"
            # A sdist of NumPy would be compiled, for minutes, where a version has no wheel for this Python.
            _run(
                *(uv, "pip", "install", "--quiet", "--only-binary", ":all:"),
                *("--python", python, "--resolution", resolution, wheel),
                cwd=folder,
            )
            _run(python, "-W", "error", "-c", TRIAL, cwd=folder)
            tried.append(f"{version} ({resolution})")
    return tried


def main(arguments: Sequence[str] | None = None) -> None:
    """Do all of it."""
    parser = argparse.ArgumentParser(prog="python -m tools.dist", description=__doc__)
    parser.add_argument("versions", nargs="*", metavar="VERSION", help="of Python, on which the wheel is tried")
    parser.add_argument("--tag", help="of the release, which has to be that of the version")
    parser.add_argument("--home-page", metavar="URL", help="of the repository, for the links that an index shows")
    options = parser.parse_args(arguments)
    check_tag(options.tag)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _build(folder, options.home_page)
        (wheel,) = DIST.glob("*.whl")
        tried = _try_alone(wheel, folder, options.versions)
    if options.versions and not tried:
        sys.exit(f"none of Python {', '.join(options.versions)} is here: the wheel has not been tried")
    print("built", *sorted(path.name for path in DIST.iterdir()))
    print("installed alone on Python", ", ".join(tried) or "none, since none was named")


if __name__ == "__main__":
    main()
