"""Every extra of pyproject.toml, where nothing that it brings can be imported: what needs it names it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from typing import Any

import pytest

from tests.support.house import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]

#: The modules of a distribution, where they are not called as it is.
MODULES = {
    "scikit-learn": ("sklearn",),
    "prometheus-client": ("prometheus_client",),
    "opentelemetry-api": ("opentelemetry",),
    "cupy-cuda12x": ("cupy",),
    "cupy-cuda13x": ("cupy",),
}

#: By extra, calls that need it: each raises the error that says so.
NEEDS = {
    "demo": ["runpy.run_path(ROOT + '/examples/train_digits.py')"],
    "serve": [
        "ag.distributed.http_app",
        "ag.distributed.HttpTransport",
        "ag.learn.http.exception_handlers()",
        "ag.learn.http.connections()",
        "ag.learn.http.health_app(learner)",
        "ag.learn.http.journal_app(learner, key=16 * 'k')",
        "ag.learn.follow('http://learner.example/journal', *parts(), key=16 * 'k')",
    ],
    "dask": ["ag.distributed.stage(abs, [], client=object())"],
    "metrics": ["ag.learn.prometheus_collector(WithStatistics())"],
    "scipy": ["importlib.import_module('asyncgrad.scipy.special')", "ag.values.SparseRows"],
    "safetensors": ["ag.nn.save_safetensors({}, 'weights')", "ag.nn.load_safetensors('weights')"],
    "progress": ["ag.progress(style='tqdm')", "ag.progress(style='rich')"],
    "opentelemetry": ["ag.engine.OpenTelemetryInstrumentor().instrument()"],
    "umbridge": ["importlib.import_module('asyncgrad.remote.umbridge')"],
    "tesseract": ["importlib.import_module('asyncgrad.remote.tesseract')"],
    "torch": ["ag.interop.torch"],
    "jax": ["ag.interop.jax"],
    "jit": ["ag.jit(abs, backend='runner')"],
    "visualize": ["ag.visualize(loss, 'loss.svg')"],
    "bench": ["importlib.import_module('benchmarks.command').parse(['--write'])"],
    "cuda12": ["ag.device('cuda:0')"],
    "cuda13": ["ag.device('cuda:0')"],
}
#: Those that nothing fails without: the checksums of zlib are slower, and tests are skipped.
WITHOUT_ERROR = {"offload", "oracle"}

PROGRAM = """
import contextlib, importlib, io, json, runpy, sys
ROOT, hidden, needs = json.loads(sys.stdin.read())
sys.path.insert(0, ROOT)
sys.modules.update(dict.fromkeys(hidden))
import asyncgrad as ag
import numpy as np

class WithStatistics:
    statistics = None

x = ag.tensor(3.0, requires_grad=True)
loss = x * x
ag.sync.backward(loss, retain_graph=True)

def parts():
    model = ag.nn.Linear(1, 1)
    return model, ag.nn.mse_loss, ag.optim.SGD(model, lr=0.1)

learner = ag.learn.Learner(*parts(), directory="model")

async def offloaded():
    with ag.graph.save_to_disk():
        y = np.exp(x * x)
    return (await ag.grad(y, [x]))[0].item() > 0

def told(call):
    stderr = io.StringIO()
    try:
        with contextlib.redirect_stderr(stderr):
            eval(call)
    except (Exception, SystemExit) as error:
        return [type(error).__name__, stderr.getvalue() + str(error)]
    return ["", "no error"]

print(json.dumps([x.grad.item(), ag.run(offloaded()), {call: told(call) for call in needs}]))
"""


def modules_of(requirement: str) -> tuple[str, ...]:
    name = re.findall(r"^[\w-]+", requirement)[0]
    return () if name == "asyncgrad" else MODULES.get(name, (name,))


@pytest.fixture(scope="module")
def told() -> list[Any]:
    """The gradient of a square, whether offloading works, and what each call says, with no package of any extra."""
    hidden = sorted({module for brought in EXTRAS.values() for one in brought for module in modules_of(one)})
    calls = sorted({call for some in NEEDS.values() for call in some})
    given = json.dumps([str(ROOT), hidden, calls])
    done = subprocess.run([sys.executable, "-c", PROGRAM], input=given, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    return json.loads(done.stdout)


def test_every_extra_has_a_call_here_that_needs_it_or_is_said_to_have_none() -> None:
    assert set(NEEDS) | WITHOUT_ERROR == set(EXTRAS) - {"all"}
    assert not set(NEEDS) & WITHOUT_ERROR


def test_without_any_extra_a_backward_works_and_so_does_a_disk(told: list[Any]) -> None:
    gradient, is_offloaded, _ = told

    assert (gradient, is_offloaded) == (6.0, True)


@pytest.mark.parametrize(("extra", "call"), [(extra, call) for extra, calls in NEEDS.items() for call in calls])
def test_what_needs_an_extra_names_it_and_the_line_that_works_in_a_clone(
    told: list[Any], extra: str, call: str
) -> None:
    kind, message = told[2][call]

    assert kind in ("ModuleNotFoundError", "DeviceError", "ArgumentError", "SystemExit")
    assert "pip install -e " in message
    assert f"'.[{extra}]'" in message
    # Programs of the repository are in a clone; what is in the package may be used without one.
    assert f"'asyncgrad[{extra}]'" in message or extra in ("demo", "bench")


def test_a_package_that_is_there_and_broken_is_not_said_to_be_missing() -> None:
    from asyncgrad.core.settings.extras import missing_extra

    error = missing_extra("x needs SciPy", "scipy", error=ImportError("libopenblas.so: cannot open", name="scipy"))

    assert type(error) is ImportError
    assert str(error).startswith("x needs SciPy, which cannot be imported (libopenblas.so: cannot open): pip install")


def test_the_extra_of_all_has_every_other_but_for_the_one_cuda_that_a_driver_supports() -> None:
    (brought,) = EXTRAS["all"]

    assert set(brought.removeprefix("asyncgrad[").rstrip("]").split(",")) == set(EXTRAS) - {"all", "cuda12", "cuda13"}


@pytest.mark.parametrize("extra", EXTRAS)
def test_every_extra_says_what_it_is_for(extra: str) -> None:
    table = (ROOT / "docs/index.md").read_text()

    assert any(f"`{extra}`" in line.split("|")[1] for line in table.splitlines() if line.startswith("| `"))
