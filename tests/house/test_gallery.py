"""The gallery has a page for each example: what it is, what a run has given, its code; nothing that was not run."""

from __future__ import annotations

import json
import re
from importlib.util import find_spec
from pathlib import Path

import pytest

from tools import gallery, graph_of_example

NAMES = [name for names in gallery.TOPICS.values() for name in names]
ALONE = gallery.pages({})

needs_matplotlib = pytest.mark.skipif(
    find_spec("matplotlib") is None, reason="needs matplotlib: pip install 'asyncgrad[demo]'"
)


def a_run(folder: Path, *files: str) -> gallery.Run:
    for file in files:
        (folder / file).write_text(file)
    return gallery.Run("gradients 3\n", "2030-01-31", files, folder)


def test_each_example_is_in_the_gallery_once() -> None:
    assert sorted(NAMES) == sorted(path.stem for path in gallery.EXAMPLES.glob("[a-z]*.py"))


def test_each_example_that_can_draw_is_told_where_to() -> None:
    draws = {path.stem for path in gallery.EXAMPLES.glob("*.py") if "savefig" in path.read_text()}

    assert draws == set(gallery.SHOWN)
    assert draws == {name for name, words in gallery.ARGUMENTS.items() if "{picture}" in words}


def test_pictures_of_examples_have_one_style_and_name_their_axes() -> None:
    for name in gallery.SHOWN:
        source = (gallery.EXAMPLES / f"{name}.py").read_text()

        assert "pictures.mplstyle" in source, name
        assert "xlabel" in source or "set_xlabel" in source, name
        assert not re.findall(r"color=\"(#\w+)\"", source), name


@pytest.mark.parametrize("name", NAMES)
def test_a_page_without_a_run_has_the_code_and_shows_no_output(name: str) -> None:
    page = ALONE[name]

    assert (gallery.EXAMPLES / f"{name}.py").read_text() in page
    assert "## What it prints" not in page
    assert "![" not in page.partition("## The program")[0]
    assert (f"**{gallery.NOT_RUN[name]}**" in page) if name in gallery.NOT_RUN else True


def test_a_page_shows_what_a_run_has_given(tmp_path: Path) -> None:
    run = a_run(tmp_path, "picture.svg", "graph.html")
    page = gallery.pages({"gaussian_process": run})["gaussian_process"]
    gallery.write(tmp_path / "site", {"gaussian_process": run})

    assert "```text\ngradients 3\n```" in page
    assert "on 2030-01-31" in page
    assert f"![{gallery.SHOWN['gaussian_process']}](gaussian_process.svg)" in page
    assert 'src="gaussian_process-graph.html"' in page
    assert (tmp_path / "site" / "gallery" / "gaussian_process.svg").read_text() == "picture.svg"
    assert (tmp_path / "site" / "extra" / "gallery" / "gaussian_process-graph.html").read_text() == "graph.html"


def test_a_command_of_a_docstring_is_a_block_of_code() -> None:
    assert "```sh\npython examples/async_rule.py\n```" in ALONE["async_rule"]


def test_a_run_is_kept_until_the_source_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> str:
        raise AssertionError("it has been run")

    folder = tmp_path / f"async_rule-{gallery._key('async_rule', 'library')}"
    folder.mkdir()
    (folder / "run.json").write_text(json.dumps({"printed": "kept\n", "day": "2030-01-31"}))
    monkeypatch.setattr(gallery, "_source_of_the_library", lambda: "library")
    monkeypatch.setattr(gallery, "_printed", fail)

    assert gallery.run_all(["async_rule"], tmp_path)["async_rule"].printed == "kept\n"
    monkeypatch.setattr(gallery, "_source_of_the_library", lambda: "another library")
    with pytest.raises(AssertionError, match="it has been run"):
        gallery.run_all(["async_rule"], tmp_path)


def test_docstrings_and_comments_of_the_library_change_nothing() -> None:
    one, same, other = (
        gallery._without_lines(compile(text, "", "exec", optimize=2))
        for text in (
            "def f():\n    'Law.'\n    return 1",
            "# why\n\ndef f():\n    'Rule.'\n    return 1",
            "def f():\n    return 2",
        )
    )

    assert one.co_consts[0] == same.co_consts[0] != other.co_consts[0]


@pytest.mark.slow
def test_an_example_that_fails_is_named_with_what_it_wrote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(gallery.ARGUMENTS, "many_models", ("--models", "0"))

    with pytest.raises(RuntimeError, match=r"many_models.py has ended with 2:(.|\n)*--models must be at least 1"):
        gallery.run_all(["many_models"], tmp_path)


@pytest.mark.slow
def test_an_example_is_run_and_its_graph_drawn(tmp_path: Path) -> None:
    run = gallery.run_all(["async_rule"], tmp_path)["async_rule"]

    assert "8 gradients" in run.printed
    assert run.files == ("graph.html",)
    assert "RemoteSineBackward" in (run.folder / "graph.html").read_text()


def test_a_program_without_a_backward_has_no_graph(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("print('nothing')\n")

    done = gallery._call(["-m", "tools.graph_of_example", str(program), str(tmp_path / "page.html")])

    assert done.returncode == 3
    assert not (tmp_path / "page.html").exists()
    assert graph_of_example.__doc__ is not None
