"""The stand-in for a language model, in a process of its own: what it says depends on the texts of a request alone.

The request says, in its metadata, how long the answer takes and whether there is one.
"""

from __future__ import annotations

import asyncio
import hashlib
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

__all__ = ["running"]

ROOT = Path(__file__).parent.parent.parent


def said(messages: list[dict[str, str]]) -> str:
    """Return a word that differs from text to text."""
    text = "\n".join(message["content"] for message in messages)
    return f"answer-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


async def respond(request: Request) -> Response:
    """Answer a request for a completion."""
    asked = await request.json()
    await asyncio.sleep(float(asked["metadata"]["seconds"]))
    if asked["metadata"]["fails"] == "yes":
        return JSONResponse({"error": {"message": "the model is overloaded"}}, 500)
    return JSONResponse({"choices": [{"message": {"role": "assistant", "content": said(asked["messages"])}}]})


def main() -> None:
    """Serve on a free port, which is printed, until the process is ended."""
    app = Starlette(routes=[Route("/v1/chat/completions", respond, methods=["POST"])])
    listener = socket.create_server(("127.0.0.1", 0), backlog=200)
    print(listener.getsockname()[1], flush=True)
    uvicorn.Server(uvicorn.Config(app, lifespan="off", log_config=None)).run(sockets=[listener])


@contextmanager
def running() -> Iterator[str]:
    """Run the server in a process; the value is its base URL."""
    command = [sys.executable, "-m", "benchmarks.text.server"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            port = process.stdout.readline().strip()
            if not port:
                raise RuntimeError(f"the stand-in did not start, and ended with {process.wait()}")
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            process.terminate()


if __name__ == "__main__":
    main()
