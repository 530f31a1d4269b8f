"""A browser that is told what to do: its size and colours are set, and what it complains of and asks for is heard.

Chromium is spoken to by its DevTools protocol over two pipes, which needs no package: JSON messages, each ended by a
zero byte.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, final

from tests.support.browser import browser

__all__ = ["Devtools", "devtools"]

#: What a page is said to have loaded.
LOADED = "Page.loadEventFired"


@final
class Devtools:
    """One page of a browser."""

    def __init__(self, read: int, write: int) -> None:
        self._read, self._write = os.fdopen(read, "rb", 0), os.fdopen(write, "wb", 0)
        self._rest, self._number, self._session, self._is_loaded = b"", 0, "", False
        #: The errors and warnings of the console, and exceptions that no script has caught.
        self.complaints: list[str] = []
        #: The addresses of all that has been asked for.
        self.requests: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        # Frames of other origins, as files are to each other, are targets of their own.
        self.call("Target.setAutoAttach", autoAttach=True, waitForDebuggerOnStart=False, flatten=True)

    def close(self) -> None:
        """End the browser."""
        self.call("Browser.close")
        self._read.close()
        self._write.close()

    def call(self, method: str, **arguments: Any) -> Any:
        """Send a command, and return its result."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": arguments}
        if self._session:
            message["sessionId"] = self._session
        self._write.write(json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == message["id"]:
                assert "error" not in answer, (method, answer["error"])
                return answer["result"]

    def open(self, address: str, width: int, is_dark: bool) -> None:
        """Show the page of an address, in a window that is 900 pixels high, on a system that is dark or light."""
        self.complaints.clear()
        self.requests.clear()
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
        self.call("Emulation.setDeviceMetricsOverride", **size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self._is_loaded = False
        self.call("Page.navigate", url=address)
        while not self._is_loaded:
            self._receive()

    def ask(self, expression: str) -> Any:
        """Return the value of an expression of the page; a promise is awaited."""
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def photograph(self, picture: Path) -> None:
        """Write a PNG of what the window shows."""
        picture.parent.mkdir(parents=True, exist_ok=True)
        picture.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    def _receive(self) -> dict[str, Any]:
        """Return the next message; note what an event says."""
        while b"\0" not in self._rest:
            part = self._read.read(1 << 20)
            assert part, "the browser has ended"
            self._rest += part
        text, _, self._rest = self._rest.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        self._note(message.get("method", ""), message.get("params", {}))
        return message

    def _note(self, event: str, about: dict[str, Any]) -> None:
        if event == LOADED:
            self._is_loaded = True
        elif event == "Network.requestWillBeSent":
            self.requests.append(about["request"]["url"])
        elif event == "Log.entryAdded" and about["entry"]["level"] in ("error", "warning"):
            self.complaints.append(about["entry"]["text"])
        elif event == "Runtime.consoleAPICalled" and about["type"] in ("error", "warning", "assert"):
            self.complaints.append(str([one.get("value") or one.get("description") for one in about["args"]]))
        elif event == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(about["exceptionDetails"]))


@contextlib.contextmanager
def devtools(folder: Path) -> Iterator[Devtools]:
    """Start a browser whose files are in a folder, and end it; skip the test where there is none."""
    ours, theirs = os.pipe(), os.pipe()
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]
    options += ["--disable-background-networking", f"--user-data-dir={folder}", "--remote-debugging-pipe"]
    # It reads from descriptor 3, and writes to 4.
    script = f'exec "$@" 3<&{theirs[0]} 4>&{ours[1]}'
    process = subprocess.Popen(
        ["bash", "-c", script, "bash", browser(), *options],
        pass_fds=(theirs[0], ours[1]),
        stderr=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    os.close(theirs[0])
    os.close(ours[1])
    try:
        page = Devtools(ours[0], theirs[1])
        yield page
        page.close()
    finally:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(10)
        if process.poll() is None:
            process.kill()
            process.wait()
