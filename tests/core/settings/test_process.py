"""What asyncgrad does to the process: it is listed, documented, and can be switched off, one by one."""

from __future__ import annotations

import os
import re
from textwrap import dedent

import pytest

from asyncgrad.core.settings.process import EFFECTS
from tests.support.house import ROOT
from tests.support.processes import run_each, run_python


def program_without(effects: str, program: str) -> str:
    """Return a program that imports asyncgrad with some effects switched off."""
    return f"import os; os.environ['ASYNCGRAD_WITHOUT'] = {effects!r}\nimport asyncgrad as ag\n{dedent(program)}"


#: By effect, what shows it: prints True where asyncgrad has had it, and False where not.
SHOWN = {
    "warnings": """
        import warnings
        before = warnings._showwarnmsg
        ag.tensor(1.0)
        print(warnings._showwarnmsg is not before)
    """,
    "filters": """
        import warnings
        from asyncgrad.core.settings.process import without_warnings
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            without_warnings(lambda: warnings.warn("one"))
        print(not caught)
    """,
    "source": """
        import linecache, numpy as np
        np.sin(ag.tensor(1.0))
        print("<asyncgrad: call of sin>" in linecache.cache)
    """,
    "log": """
        import logging
        ag.tensor(1.0)
        print(bool(logging.getLogger("asyncgrad").handlers))
    """,
    "exit": """
        import atexit
        calls = []
        atexit.register = lambda function, *args, **kwargs: calls.append(function.__module__)
        ag.tensor(1.0)
        print(any(module.startswith("asyncgrad") for module in calls))
    """,
    "fork": """
        import os
        calls = []
        os.register_at_fork = lambda **given: calls.append(getattr(given.get("after_in_child"), "__module__", ""))
        ag.tensor(1.0)
        print(any(module.startswith("asyncgrad") for module in calls))
    """,
    "random": """
        import numpy as np
        drawn = []
        def draw(x):
            drawn.append(np.random.uniform())
            return x * 2.0
        x = ag.tensor(1.0, requires_grad=True)
        ag.sync.backward(ag.checkpoint(draw, x))
        print(drawn[0] == drawn[1])
    """,
    "signal": """
        import contextlib, signal
        with contextlib.suppress(ValueError):
            ag.engine.dump_on_signal(signal.SIGTERM)
        print(signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL)
    """,
    "collector": """
        import gc
        before = gc.get_threshold()
        with ag.no_full_collections():
            print(gc.get_threshold() != before)
    """,
    "calls": """
        import io, sys
        seen = io.StringIO()
        def function(x):
            seen.write("" if sys.gettrace() is None else "observed")
            return x * 2
        jitted = ag.jit(function)
        for _ in range(3):
            jitted(ag.tensor(1.0))
        print(bool(seen.getvalue()) and sys.gettrace() is None)
    """,
    "torch": """
        from asyncgrad.core.settings.process import set_state_of_torch
        calls = []
        set_state_of_torch(lambda: calls.append("set"))
        print(bool(calls))
    """,
    "modules": """
        import contextlib, sys
        import asyncgrad.hips
        with contextlib.suppress(ValueError):
            asyncgrad.hips.install()
        print("autograd" in sys.modules)
    """,
}


def test_each_effect_is_shown():
    assert SHOWN.keys() == EFFECTS.keys()


@pytest.mark.slow
def test_an_effect_is_there_and_can_be_switched_off():
    with_all = run_each([program_without("", SHOWN[effect]) for effect in EFFECTS])
    without_one = run_each([program_without(effect, SHOWN[effect]) for effect in EFFECTS])

    assert dict(zip(EFFECTS, with_all, strict=True)) == dict.fromkeys(EFFECTS, "True")
    assert dict(zip(EFFECTS, without_one, strict=True)) == dict.fromkeys(EFFECTS, "False")


def test_an_effect_that_is_switched_off_is_one_that_there_is():
    program = "try: ag.tensor(1.0)\nexcept ValueError as error: print(type(error).__name__, error)"

    said = run_python(program_without("warnings, exits", program))

    assert said.startswith("ArgumentError the environment variable ASYNCGRAD_WITHOUT")


def test_a_program_runs_with_all_effects_switched_off():
    program = (
        "import numpy as np, asyncgrad as ag; x = ag.tensor([1.0, 2.0], requires_grad=True)\n"
        "async def main(): await (np.sin(x) * x).sum().backward()\n"
        "ag.run(main()); print(x.grad.shape)"
    )

    assert run_python(program_without(" ".join(EFFECTS), program)) == "(2,)"


STATE = """
import gc, os, signal, sys, threading, numpy as np, asyncgrad as ag

def state():
    imports = [*sys.meta_path, *sys.path_hooks, *sys.path]
    hooks = [sys.excepthook, sys.unraisablehook, sys.displayhook, threading.excepthook]
    traces = [sys.gettrace(), sys.getprofile(), threading.gettrace(), threading.getprofile()]
    limits = [gc.get_threshold(), list(gc.callbacks), sys.getswitchinterval(), sys.getrecursionlimit(), np.geterr()]
    signals = [signal.getsignal(one) for one in signal.valid_signals()]
    return imports, hooks, traces, limits, signals, dict(os.environ), sys.get_asyncgen_hooks(), threading.active_count()

before = state()
x = ag.tensor(2.0, requires_grad=True)
ag.run((x * x).backward())
print(state() == before)
"""


def test_a_first_backward_leaves_the_imports_the_hooks_and_the_environment_of_the_process_alone():
    assert run_python(STATE) == "True"


def test_the_documentation_has_each_effect_and_no_other():
    page = (ROOT / "docs" / "process.md").read_text()

    assert re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE) == list(EFFECTS)


def test_a_lock_of_a_module_is_held_by_the_thread_that_forks():
    made = re.compile(r"^\w+(: [^=]*)? = (threading\.)?R?Lock\(\)", re.MULTILINE)

    left = [path for path in (ROOT / "asyncgrad").rglob("*.py") if made.search(path.read_text())]

    assert left == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks")
def test_a_fork_waits_until_other_threads_hold_no_lock():
    program = """
        import os, signal, threading
        from asyncgrad.core.settings.process import hold_in_forks
        locks = [hold_in_forks(make()) for make in (threading.Lock, threading.RLock, threading.Lock)]
        held, forks = threading.Event(), threading.Event()
        def hold():
            with locks[2], locks[1]:
                held.set()
                forks.wait(0.1)
        thread = threading.Thread(target=hold)
        thread.start()
        held.wait()
        child = os.fork()
        if not child:
            signal.alarm(30)
            for lock in locks:
                with lock:
                    pass
            os._exit(0)
        forks.set()
        thread.join()
        print(os.waitpid(child, 0)[1], *(lock.acquire(False) for lock in locks))
    """

    assert run_python(program_without("", program)) == "0 True True True"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks")
def test_a_fork_goes_on_where_a_lock_is_never_let_go_of():
    program = """
        import os, threading
        from asyncgrad.core.settings import process
        process._LONGEST_WAIT = 0.05
        lock = process.hold_in_forks(threading.Lock())
        thread = threading.Thread(target=lock.acquire)
        thread.start()
        thread.join()
        child = os.fork()
        if not child:
            os._exit(3)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), lock.locked())
    """

    assert run_python(program_without("", program)) == "3 True"
