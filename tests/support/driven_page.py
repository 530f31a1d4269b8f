"""A page in a real browser, driven by its DevTools: of any width, light or dark, with what it asks for and says.

The browser is spoken to by two pipes, so that this needs no package and no port.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Self, final

from tests.support.browser import browser

__all__ = ["Browser"]

#: The browser reads commands from descriptor 3, and writes answers to 4.
_START = (
    "import os, sys; os.dup2(int(sys.argv[1]), 3); os.dup2(int(sys.argv[2]), 4); os.execv(sys.argv[3], sys.argv[3:])"
)
_END = b"\0"


@final
class Browser:
    """One page of a browser, within a `with` block; its methods block, so that a test calls them in a thread.

    Args:
        folder: for the browser's own files.

    Attributes:
        requested: the addresses that the page has asked for.
        complaints: what its console has said, and the exceptions of its scripts.
    """

    def __init__(self, folder: Path) -> None:
        self.requested: list[str] = []
        self.complaints: list[str] = []
        self._number, self._session, self._read = 0, "", b""
        self._is_loaded = False
        ends = [*os.pipe(), *os.pipe()]
        # Above 4, which the browser's own ends take.
        commands, self._commands, self._answers, answers = (fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in ends)
        for end in ends:
            os.close(end)
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"]
        words = [browser(), *options, "--remote-debugging-pipe", f"--user-data-dir={folder}", "about:blank"]
        self._process = subprocess.Popen(
            [sys.executable, "-c", _START, str(commands), str(answers), *words],
            pass_fds=(commands, answers),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(commands)
        os.close(answers)

    def __enter__(self) -> Self:
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for part in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{part}.enable")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._commands)
        os.close(self._answers)

    def open(self, url: str, width: int, height: int = 900, theme: str = "light") -> None:
        """Show a page in a window of that size, for a reader who prefers light or dark."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.call("Emulation.setDeviceMetricsOverride", **size)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": theme}])
        self._is_loaded = False
        self.call("Page.navigate", url=url)
        while not self._is_loaded:
            self._note(self._next())

    def run(self, script: str) -> Any:
        """Return the value of an expression of JavaScript; that of a promise, once it has one."""
        found = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def until(self, condition: str) -> None:
        """Wait until an expression of JavaScript is true, as long as the timeout of the test lets it."""
        self.run(f"new Promise(done => {{ const look = () => {condition} ? done() : setTimeout(look, 20); look(); }})")

    def picture(self) -> bytes:
        """Return the window as a PNG."""
        return base64.b64decode(self.call("Page.captureScreenshot")["data"])

    def call(self, method: str, **params: Any) -> Any:
        """Send a command; return its answer, and note what happens until it comes."""
        self._number += 1
        command = {"id": self._number, "method": method, "params": params}
        if self._session:
            command["sessionId"] = self._session
        os.write(self._commands, json.dumps(command).encode() + _END)
        while True:
            message = self._next()
            if message.get("id") == self._number:
                assert "error" not in message, (method, message["error"])
                return message["result"]
            self._note(message)

    def _next(self) -> dict[str, Any]:
        while _END not in self._read:
            data = os.read(self._answers, 1 << 16)
            assert data, "the browser has ended"
            self._read += data
        text, _, self._read = self._read.partition(_END)
        found: dict[str, Any] = json.loads(text)
        return found

    def _note(self, message: dict[str, Any]) -> None:
        params = message.get("params", {})
        match message.get("method"):
            case "Page.loadEventFired":
                self._is_loaded = True
            case "Network.requestWillBeSent":
                self.requested.append(params["request"]["url"])
            case "Log.entryAdded":
                self.complaints.append(params["entry"]["text"])
            case "Runtime.consoleAPICalled":
                self.complaints.append(str(params["args"]))
            case "Runtime.exceptionThrown":
                self.complaints.append(str(params["exceptionDetails"]))
