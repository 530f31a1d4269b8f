"""Workflows call what a person calls: each command is a target of the Makefile, on the versions that it names."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.house import ROOT
from tools import dist

WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
MAKEFILE = (ROOT / "Makefile").read_text()
TARGETS = set(re.findall(r"^\.PHONY: (.*)$", MAKEFILE, re.MULTILINE)[0].split())
VERSIONS = re.findall(r"^VERSIONS \?= (.*)$", MAKEFILE, re.MULTILINE)[0].split()
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def jobs_of(path: Path) -> dict[str, Any]:
    return yaml.safe_load(path.read_text())["jobs"]


def commands_of(job: dict[str, Any]) -> list[str]:
    """The commands of a job, one for each target of its matrix."""
    targets = job.get("strategy", {}).get("matrix", {}).get("target", [""])
    return [
        step["run"].replace("${{ matrix.target }}", target)
        for step in job["steps"]
        if "run" in step
        for target in targets
    ]


def test_there_are_workflows_for_tests_documentation_and_releases() -> None:
    assert [path.stem for path in WORKFLOWS] == ["docs", "release", "test"]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_runs_targets_of_the_makefile_alone(path: Path) -> None:
    commands = [command for job in jobs_of(path).values() for command in commands_of(job)]

    assert commands
    for command in commands:
        program, target, *settings = command.split()
        assert (program, target in TARGETS) == ("make", True), command
        assert all(re.match(r"[A-Z_]+=", setting) for setting in settings), command


def test_the_pythons_of_the_workflow_of_the_makefile_and_of_the_classifiers_are_the_same() -> None:
    classified = [
        name.rpartition(" ")[2]
        for name in PYPROJECT["project"]["classifiers"]
        if re.fullmatch(r"Programming Language :: Python :: 3\.\d+", name)
    ]

    assert jobs_of(ROOT / ".github/workflows/test.yml")["test"]["strategy"]["matrix"]["python"] == VERSIONS
    assert classified == VERSIONS
    assert PYPROJECT["project"]["requires-python"] == f">={VERSIONS[0]}"


def test_only_the_jobs_that_deploy_have_an_identity_and_none_has_a_token() -> None:
    jobs = {f"{path.stem} {name}": job for path in WORKFLOWS for name, job in jobs_of(path).items()}

    assert {name for name, job in jobs.items() if "id-token" in job.get("permissions", {})} == {
        "docs deploy",
        "release publish",
    }
    assert not [path for path in WORKFLOWS if "secrets." in path.read_text()]


def test_the_tests_of_the_lowest_versions_have_every_extra_but_other_autodiff_libraries_and_gpus() -> None:
    named = set(re.findall(r"^TESTED_EXTRAS := (.*)$", MAKEFILE, re.MULTILINE)[0].split(","))

    assert set(PYPROJECT["project"]["optional-dependencies"]) - named == {
        "all",
        "bench",
        "cuda12",
        "cuda13",
        "jax",
        "oracle",
        "torch",
    }


def test_a_package_has_the_same_lowest_version_wherever_it_is_named() -> None:
    groups = [*PYPROJECT["project"]["optional-dependencies"].values(), *PYPROJECT["dependency-groups"].values()]
    bounds: dict[str, set[str]] = {}
    for requirement in (one for group in groups for one in group if isinstance(one, str)):
        name, bound = re.match(r"([\w-]+)(?:\[.*?\])?(.*)", requirement).groups()
        bounds.setdefault(name, set()).add(bound)

    assert {name: found for name, found in bounds.items() if len(found) > 1} == {}


def test_a_tag_that_is_not_that_of_the_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dist.asyncgrad, "__version__", "1.2.3")

    dist.check_tag("v1.2.3")
    dist.check_tag(None)
    with pytest.raises(SystemExit, match=r"the tag v1\.2\.4 is not that of the version 1\.2\.3: tag v1\.2\.3"):
        dist.check_tag("v1.2.4")


def test_links_of_a_release_lead_to_the_repository_and_links_elsewhere_stay() -> None:
    readme = "[a](docs/a.md#b) [c](https://c.example) [d](#d) ![e (f)](e.svg)\n[![g](g.svg)](h.md)"

    project, links = dist.with_home_page("[build-system]\n", readme, "https://x.example/y", "v1")

    at = "https://x.example/y/blob/v1/"
    raw = "https://x.example/y/raw/v1/"
    assert links == (
        f"[a]({at}docs/a.md#b) [c](https://c.example) [d](#d) ![e (f)]({raw}e.svg)\n[![g]({raw}g.svg)]({at}h.md)"
    )
    assert set(tomllib.loads(project)["project"]["urls"]) == {"Source", "Documentation", "Changelog", "Issues"}
