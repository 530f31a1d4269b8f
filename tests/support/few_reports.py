"""What a process of tests tells the one that started it of a test that passes: its result, once.

pytest-xdist would send it five messages of each test, which take as much time as the most tests themselves: that it
begins and ends, and a report of its set-up, of its body and of what cleans up. Of these only one says something.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import pytest

__all__ = ["is_worth_telling", "leave_reports_out"]

#: What took so many seconds is in the list of `--durations`.
LONG: Final = 0.005


def leave_reports_out(config: pytest.Config) -> None:
    """Have this process send the messages that say something, if it runs tests for another one.

    Not where that one writes a file of all reports. pytest runs the test as it always does, and a message that says
    something is sent at once: a test that fails is told of even if cleaning up ends the process.
    """
    if hasattr(config, "workerinput") and not config.getoption("xmlpath", None):
        # pytest-xdist executes the source of its plugin, which has no name and whose class cannot be imported.
        sender: Any = next(plugin for plugin in config.pluginmanager.get_plugins() if hasattr(plugin, "sendevent"))
        sender.sendevent = partial(_send, sender.sendevent)


def _send(send: Callable[..., None], name: str, **said: Any) -> None:
    if is_worth_telling(name, said.get("data", {})):
        send(name, **said)


def is_worth_telling(name: str, data: Mapping[str, Any]) -> bool:
    """Whether a message is more than that a test begins or ends, or that a part of it passed with nothing to say.

    A set-up or a clean-up that passed says something if it took time, or printed or noted anything.

    Args:
        name: the name that pytest-xdist gives the message.
        data: what it has of a report, serialized.
    """
    if name != "testreport":
        return name not in {"logstart", "logfinish"}
    return (
        data["when"] == "call"
        or data["outcome"] != "passed"
        or bool(data["user_properties"] or data["sections"])
        or data["duration"] >= LONG
    )
