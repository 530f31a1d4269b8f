"""The examples run as a newcomer runs them, and print what their heads promise."""

from __future__ import annotations

import importlib
import os
import re
import struct
import subprocess
import sys
import threading
import zlib
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import asyncgrad as ag
from tests.support.fake_cupy import open_gpus
from tests.support.fake_nccl import fake_nccl
from tests.support.loops import one_loop

ROOT = Path(__file__).parents[2]

needs_demo = pytest.mark.skipif(
    any(find_spec(name) is None for name in ("sklearn", "matplotlib", "tqdm")),
    reason="needs scikit-learn, matplotlib and tqdm: pip install 'asyncgrad[demo]'",
)

needs_matplotlib = pytest.mark.skipif(
    find_spec("matplotlib") is None, reason="needs matplotlib: pip install 'asyncgrad[demo]'"
)


def run_example(name: str, *arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run examples/<name>.py in a process of its own."""
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return subprocess.run(
        [sys.executable, str(ROOT / "examples" / f"{name}.py"), *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), **environment},
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )


def run_here(capsys: pytest.CaptureFixture[str], name: str, *arguments: object) -> tuple[Any, str, str]:
    """Run examples/<name>.py in this process; return its status, and what it prints and says of errors."""
    try:
        status = importlib.import_module(f"examples.{name}").main([str(argument) for argument in arguments])
    except SystemExit as ended:
        status = ended.code
    return status, *capsys.readouterr()


def refusal(capsys: pytest.CaptureFixture[str], name: str, *arguments: object) -> str:
    """Run examples/<name>.py with options that it refuses, in this process; return what it says."""
    status, _, said = run_here(capsys, name, *arguments)

    assert status == 2
    return said


def figure(pattern: str, text: str) -> float:
    """The one number that the pattern finds."""
    found = re.findall(pattern, text)
    assert len(found) == 1, text
    return float(found[0])


def png_size(path: Path) -> tuple[int, int]:
    """Width and height of a PNG whose every chunk has the right checksum."""
    data = path.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    position, kinds = 8, []
    while position < len(data):
        (length,) = struct.unpack(">I", data[position : position + 4])
        chunk = data[position + 4 : position + 8 + length]
        (checksum,) = struct.unpack(">I", data[position + 8 + length : position + 12 + length])
        assert zlib.crc32(chunk) == checksum
        kinds.append(chunk[:4])
        position += 12 + length
    assert (kinds[0], kinds[-1]) == (b"IHDR", b"IEND")
    return struct.unpack(">II", data[16:24])


def test_every_example_has_a_test_here():
    examples = {path.stem for path in (ROOT / "examples").glob("*.py")} - {"__init__"}

    here = {
        "async_rule",
        "awaited_equation",
        "character_rnn",
        "character_transformer",
        "checkpoint_budget",
        "data_parallel",
        "gaussian_process",
        "inplace_and_views",
        "lost_worker",
        "many_models",
        "neural_ode",
        "optimum_sensitivities",
        "overlapped_reduction",
        "pipeline",
        "reentrant_checkpoint",
        "split_learning",
        "survival_fit",
        "train_deeper_than_memory",
        "train_digits",
        "two_gpus",
    }
    # The tests of two more are in tests/programs/serving, and of the other one in test_text_gradients.py, too.
    assert examples == here | {"serve_and_learn", "serve_with_fastapi", "text_gradients"}


def test_two_gpus_train_one_model_in_threads_on_a_stand_in_for_gpus(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Process(threading.Thread):
        exitcode = 0

    context = SimpleNamespace(Process=Process)
    monkeypatch.setattr("multiprocessing.get_context", lambda kind: context)
    example = importlib.import_module("examples.two_gpus")
    with open_gpus(2), fake_nccl():
        example.main(2)

    lines = sorted(capsys.readouterr().out.splitlines())
    losses = [re.fullmatch(r"rank \d: loss (\d\.\d+) -> (0\.\d+), weight (.*)", line) for line in lines]
    assert len(losses) == 2
    assert all(found and float(found[1]) > 3 * float(found[2]) for found in losses), lines
    assert len({found and found[3] for found in losses}) == 1


def test_async_rule_awaits_all_its_answers_at_once():
    finished = run_example("async_rule")

    assert finished.returncode == 0, finished.stderr
    assert "8 gradients, at most 8 asked for at the same time" in finished.stdout
    assert figure(r"awaited together (\d+) ms", finished.stdout) < figure(r"after another (\d+) ms", finished.stdout)


def test_overlapped_reduction_has_all_its_exchanges_under_way_at_once():
    finished = run_example("overlapped_reduction")

    assert finished.returncode == 0, finished.stderr
    assert "12 gradients exchanged, at most 12 on their way at the same time" in finished.stdout


@pytest.mark.slow
@needs_matplotlib
def test_pipeline_keeps_fewer_graphs_in_1f1b_with_the_same_bits_and_draws_both(tmp_path: Path):
    picture = tmp_path / "new" / "timeline.png"

    finished = run_example("pipeline", "--out", picture)

    assert finished.returncode == 0, finished.stderr
    assert figure(r"GPipe: .* at most (\d+) graphs", finished.stdout) == 8
    assert figure(r"1F1B: .* at most (\d+) graphs", finished.stdout) == 3
    assert "gradients have the same bits: True" in finished.stdout
    assert min(png_size(picture)) >= 400


@pytest.mark.slow
def test_data_parallel_learns_the_same_weights_at_both_replicas_which_fail_together():
    finished = run_example("data_parallel")

    assert finished.returncode == 0, finished.stderr
    assert figure(r"([\d.]+) at last", finished.stdout) < figure(r"([\d.]+) at first", finished.stdout)
    assert "weights have the same bits: True" in finished.stdout
    assert "replica 1 failed with ValueError, and replica 0 with ReplicaError" in finished.stdout
    assert "gradients left behind: 0" in finished.stdout


@pytest.mark.slow
@pytest.mark.skipif(
    any(find_spec(name) is None for name in ("starlette", "uvicorn", "httpx")),
    reason="needs Starlette, uvicorn and httpx: pip install 'asyncgrad[serve]'",
)
def test_split_learning_learns_from_a_lab_that_keeps_its_parameters():
    finished = run_example("split_learning")

    assert finished.returncode == 0, finished.stderr
    assert figure(r"step 40: .* accuracy (\d+)%", finished.stdout) > 90
    assert "the parameters are its owner's" in finished.stdout


@pytest.mark.slow
@pytest.mark.skipif(
    any(find_spec(name) is None for name in ("starlette", "uvicorn", "httpx", "tenacity")),
    reason="needs Starlette, uvicorn, httpx and tenacity: pip install 'asyncgrad[serve]' tenacity",
)
def test_text_gradients_goes_on_where_its_tokens_were_spent_and_replays_the_run(tmp_path: Path):
    answers = tmp_path / "run.jsonl"
    arguments = "--stand-in", "--answers", answers
    cut = run_example("text_gradients", *arguments, "--budget", 2500)
    whole = run_example("text_gradients", *arguments, "--budget", 2500, "--top-up", 2500)
    replayed = run_example("text_gradients", *arguments, "--replay")

    assert cut.returncode == 3, cut.stderr
    assert "tokens are spent, of 2500; gradients 0" in cut.stderr
    assert whole.returncode == replayed.returncode == 0, whole.stderr + replayed.stderr
    assert figure(r"before +([\d.]+)", whole.stdout) == 0.25
    assert figure(r"after +([\d.]+)", whole.stdout) == 1.0
    assert replayed.stdout == whole.stdout
    assert "requests 0, tokens 0" in replayed.stderr


@one_loop
@pytest.mark.skipif(find_spec("distributed") is None, reason="needs Dask: pip install 'asyncgrad[dask]'")
async def test_lost_worker_learns_the_same_bits_on_the_workers_that_are_left(capsys):
    lost_worker = importlib.import_module("examples.lost_worker")
    transport = ag.distributed.SimulatedTransport(["a", "b", "c"])

    there = await lost_worker.train_there(transport, ["a", "b", "c"], 20, transport.kill)

    assert (there == await lost_worker.train_here(20), await transport.workers()) == (True, ["a", "c"])
    assert "step  10: worker b is killed in the midst" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the limit on memory is one that Linux enforces")
def test_train_deeper_than_memory_fails_in_memory_and_trains_on_disk_under_the_same_limit():
    finished = run_example("train_deeper_than_memory", "--steps", 3)

    assert finished.returncode == 0, finished.stderr + finished.stdout
    assert "in memory: numpy._core._exceptions._ArrayMemoryError" in finished.stdout
    assert "on disk: trained" in finished.stdout
    losses = [float(loss) for loss in re.findall(r"loss ([\d.]+)", finished.stdout)]
    assert len(losses) == 3
    assert losses[-1] < losses[0] / 2
    assert figure(r"accuracy ([\d.]+)%", finished.stdout) > 50


@pytest.mark.slow
@needs_demo
def test_reentrant_checkpoint_shows_the_peak_against_the_depth_and_draws_it(tmp_path: Path):
    picture = tmp_path / "depth.png"

    finished = run_example("reentrant_checkpoint", "--depths", 8, 32, "--picture", picture)

    assert finished.returncode == 0, finished.stderr + finished.stdout
    peaks = {int(line.split()[0]): re.findall(r"([\d.]+) MB", line) for line in finished.stdout.splitlines()[1:3]}
    (plain, each, chain), (plain4, each4, chain4) = (map(float, peaks[depth]) for depth in (8, 32))
    assert plain > each > chain
    # Four times as deep: the slope without checkpoints, a third of it, and hardly any.
    assert plain4 / plain > 3.5
    assert (each4 - each) < (plain4 - plain) * 0.4
    assert chain4 / chain < 1.5
    assert "the same, bit by bit" in finished.stdout
    assert min(png_size(picture)) >= 400


@pytest.mark.slow
def test_checkpoint_budget_keeps_to_its_budgets_and_names_the_least():
    finished = run_example("checkpoint_budget")

    assert finished.returncode == 0, finished.stderr + finished.stdout
    assert "memory_budget=1 is too small for this chain" in finished.stdout
    assert finished.stdout.count("the same gradient") == 4
    runs = [int(count) for count in re.findall(r"budget .* (\d+) runs", finished.stdout)]
    peaks = [float(peak) for peak in re.findall(r"budget .* ([\d.]+) MB at most", finished.stdout)]
    assert runs == sorted(runs)
    assert runs[0] < runs[-1]
    assert peaks == sorted(peaks, reverse=True)


@pytest.mark.slow
@needs_demo
def test_inplace_and_views_finds_the_start_and_draws_it(tmp_path: Path):
    picture = tmp_path / "rod.png"

    finished = run_example("inplace_and_views", "--picture", picture)

    assert finished.returncode == 0, finished.stderr
    # Each step lets a point hear from one more neighbour on either side.
    assert figure(r"depends on (\d+) points", finished.stdout) == 2 * 20 + 1
    assert figure(r"-> ([\d.e-]+);", finished.stdout) < 1e-4
    assert figure(r"to within ([\d.]+)", finished.stdout) < 0.15
    assert min(png_size(picture)) > 400


@pytest.mark.slow
@needs_demo
def test_many_models_learn_together_and_none_runs_ahead():
    finished = run_example("many_models", "--steps", 40)

    assert finished.returncode == 0, finished.stderr + finished.stdout
    assert "200 models, 8000 steps, " in finished.stdout
    assert figure(r"median ([\d.]+)", finished.stdout) < 0.1
    assert figure(r"one after another ([\d.]+) s", finished.stdout) == 160
    assert figure(r"at once ([\d.]+) s", finished.stdout) < 160
    assert figure(r"the last one had (\d+)", finished.stdout) > 5
    assert "200 models: 100%" in finished.stderr
    assert "model 0" not in finished.stderr


@pytest.mark.slow
@needs_demo
def test_many_models_shows_a_bar_for_each_where_asked():
    finished = run_example("many_models", "--models", 3, "--steps", 4, "--each")

    assert all(f"model {number}: 100%" in finished.stderr for number in range(3))
    assert "3 models: 100%" in finished.stderr


@pytest.mark.slow
@needs_demo
def test_many_models_fails_where_it_misses_its_target():
    finished = run_example("many_models", "--models", 5, "--steps", 1, "--quiet")

    assert finished.returncode == 1
    assert finished.stderr == "above the target of 0.1: more steps help\n"


@pytest.mark.slow
@needs_demo
@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [(("--models", "0"), "--models must be at least 1, and is 0"), (("--steps", "x"), "invalid int value: 'x'")],
    ids=["models", "steps"],
)
def test_many_models_names_the_option_it_cannot_use(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], complaint: str
):
    assert complaint in refusal(capsys, "many_models", *arguments)


def test_many_models_says_what_to_install(tmp_path: Path):
    (tmp_path / "tqdm.py").write_text("raise ModuleNotFoundError('no tqdm here', name='tqdm')\n")

    finished = run_example("many_models", PYTHONPATH=os.pathsep.join([str(tmp_path), str(ROOT)]))

    assert finished.returncode == 1
    assert "needs tqdm, which is not installed: pip install -e '.[demo]'" in finished.stderr


@needs_demo
def test_train_digits_reaches_its_target_and_draws_its_curves(tmp_path: Path):
    picture = tmp_path / "new" / "curves.png"

    finished = run_example("train_digits", "--epochs", 10, "--seed", 1, "--out", picture)

    assert finished.returncode == 0, finished.stderr + finished.stdout
    assert figure(r"test accuracy +([\d.]+)%", finished.stdout) >= 97
    assert figure(r"(\d+) steps per second", finished.stdout) > 0
    lateness = [figure(rf"{name} ([\d.]+) ms", finished.stdout) for name in ("p50", "p99", "max")]
    assert lateness == sorted(lateness)
    assert str(picture) in finished.stdout
    assert "loss=" in finished.stderr
    assert "accuracy=" in finished.stderr
    assert min(png_size(picture)) > 400


@pytest.mark.slow
@needs_demo
def test_train_digits_fails_where_it_misses_its_target_twice_in_one_way_from_one_seed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    arguments = ("--epochs", 1, "--batch-size", 512, "--seed", 3, "--quiet", "--out", tmp_path / "x.png")
    (status, first, said), (again, second, _) = (run_here(capsys, "train_digits", *arguments) for _ in range(2))

    assert status == again == 1
    assert "below the target of 97%" in said
    assert "loss=" not in said
    assert figure(r"accuracy +([\d.]+)%", first) == figure(r"accuracy +([\d.]+)%", second)


@pytest.mark.slow
@pytest.mark.sampled
@needs_demo
@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--epochs", "0"), "--epochs must be at least 1, and is 0"),
        (("--out", f"{__file__}/curves.png"), "--out: "),
    ],
    ids=["epochs", "out-in-a-file"],
)
def test_train_digits_names_the_option_it_cannot_use(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], complaint: str
):
    assert complaint in refusal(capsys, "train_digits", *arguments)


@pytest.mark.slow
def test_train_digits_says_what_to_install(tmp_path: Path):
    (tmp_path / "sklearn.py").write_text("raise ModuleNotFoundError('no sklearn here', name='sklearn')\n")

    finished = run_example("train_digits", PYTHONPATH=os.pathsep.join([str(tmp_path), str(ROOT)]))

    assert finished.returncode == 1
    assert "needs sklearn, which is not installed: pip install -e '.[demo]'" in finished.stderr


@pytest.mark.slow
@pytest.mark.skipif(
    any(find_spec(name) is None for name in ("scipy", "matplotlib")),
    reason="needs SciPy and matplotlib: pip install 'asyncgrad[demo]'",
)
def test_gaussian_process_finds_the_noise_within_its_standard_errors_and_draws_its_curves(tmp_path: Path):
    picture = tmp_path / "new" / "process.png"

    finished = run_example("gaussian_process", "--out", picture)

    assert finished.returncode == 0, finished.stderr + finished.stdout
    before, after = (figure(rf"(-?[\d.]+) {word}", finished.stdout) for word in ("before", "after"))
    assert after < before
    noise, error = (figure(pattern, finished.stdout) for pattern in (r"noise +([\d.]+)", r"noise .* over ([\d.]+)"))
    assert noise / error**2 < 0.15 < noise * error**2
    assert min(png_size(picture)) >= 400


@pytest.mark.slow
@needs_matplotlib
def test_neural_ode_learns_while_the_loop_turns_and_draws_its_trajectories(tmp_path: Path):
    picture = tmp_path / "new" / "trajectories.png"

    finished = run_example("neural_ode", "--iterations", 60, "--hidden", 16, "--steps", 5, "--out", picture)

    assert finished.returncode == 0, finished.stderr + finished.stdout
    first, last = (figure(rf"([\d.]+) at {word}", finished.stdout) for word in ("first", "last"))
    assert last < first / 3
    assert figure(r"turns of the loop ([\d.]+)", finished.stdout) > 1
    assert min(png_size(picture)) >= 400


@pytest.mark.slow
@needs_matplotlib
def test_character_rnn_learns_and_writes_meanwhile(tmp_path: Path):
    picture, text = tmp_path / "new" / "lines.png", tmp_path / "text.txt"
    text.write_text("the cat sat on the mat\n" * 40)

    arguments = ("--text", text, "--epochs", 30, "--steps", 10, "--hidden", 24, "--out", picture)
    finished = run_example("character_rnn", *arguments)

    assert finished.returncode == 0, finished.stderr + finished.stdout
    first, last = (
        figure(rf"([\d.]+)(?: bits per character)? at {word}", finished.stdout) for word in ("first", "last")
    )
    assert last < first / 3
    assert len(re.findall(r"^ +\d+  ", finished.stdout, re.MULTILINE)) > 5
    assert "the cat sat on the mat" in finished.stdout
    assert min(png_size(picture)) >= 400


@pytest.mark.slow
@needs_matplotlib
def test_character_rnn_refuses_a_text_that_is_too_short(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    text = tmp_path / "text.txt"
    text.write_text("the cat\n")

    said = refusal(capsys, "character_rnn", "--text", text, "--out", tmp_path / "x.png")

    assert "--text needs 401 characters and a line break" in said


@pytest.mark.slow
@needs_demo
def test_character_transformer_stops_early_and_writes(tmp_path: Path):
    picture, text = tmp_path / "new" / "losses.png", tmp_path / "text.txt"
    text.write_text("the cat sat on the mat\n" * 60)

    arguments = ("--text", text, "--epochs", 60, "--context", 24, "--width", 32, "--patience", 2, "--out", picture)
    finished = run_example("character_transformer", *arguments)

    assert finished.returncode == 0, finished.stderr + finished.stdout
    first, best = (
        figure(rf"aside .*?([\d.]+)(?: bits per character)? at {word}", finished.stdout) for word in ("first", "best")
    )
    assert best < first / 3
    assert finished.stdout.count("the cat sat on the mat") > 5
    assert "validation=" in finished.stderr
    assert "60/60" not in finished.stderr
    assert min(png_size(picture)) >= 400


@pytest.mark.slow
@needs_demo
@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [(("--width", "10"), "--width must be a multiple of 4, and is 10"), (("--text",), "--text needs 490 characters")],
    ids=["width", "text"],
)
def test_character_transformer_names_what_it_cannot_use(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], complaint: str, tmp_path: Path
):
    text = tmp_path / "text.txt"
    text.write_text("the cat\n")
    if arguments == ("--text",):
        arguments = ("--text", str(text))

    assert complaint in refusal(capsys, "character_transformer", *arguments, "--out", tmp_path / "x.png")


@pytest.mark.slow
@needs_matplotlib
def test_survival_fit_finds_the_coefficients_within_their_standard_errors(tmp_path: Path):
    picture = tmp_path / "new" / "survival.png"

    finished = run_example("survival_fit", "--out", picture)

    assert finished.returncode == 0, finished.stderr + finished.stdout
    rows = re.findall(r"(-?[\d.]+) \+- ([\d.]+), true (-?[\d.]+)", finished.stdout)
    assert len(rows) == 3
    for found, error, true in [map(float, row) for row in rows]:
        assert abs(found - true) < 3 * error < 0.5
    assert min(png_size(picture)) >= 400


@pytest.mark.slow
@needs_matplotlib
def test_awaited_equation_learns_while_the_loop_turns(tmp_path: Path):
    picture = tmp_path / "new" / "boat.png"

    finished = run_example("awaited_equation", "--out", picture)

    assert finished.returncode == 0, finished.stderr + finished.stdout
    assert figure(r"([\d.]+) at last", finished.stdout) < 0.2 * figure(r"([\d.]+) at first", finished.stdout)
    assert figure(r"turns of the loop (\d+)", finished.stdout) > 1000
    assert min(png_size(picture)) >= 400


@pytest.mark.slow
@needs_matplotlib
def test_optimum_sensitivities_agree_with_solving_again(tmp_path: Path):
    picture = tmp_path / "new" / "weights.png"

    finished = run_example("optimum_sensitivities", "--out", picture)

    assert finished.returncode == 0, finished.stderr + finished.stdout
    assert figure(r"agree to ([\d.]+)", finished.stdout) < 0.01
    assert min(png_size(picture)) >= 400
