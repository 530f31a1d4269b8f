"""A solver behind HTTP, in a process of its own: it waits as if it computed, and answers with values or with products.

`POST /solve` takes a vector x and returns the vector tanh(M x). `POST /pullback` takes x and rows of cotangents, and
returns a row of products with the Jacobian for each. Vectors are the bytes of float64.
"""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ..peers import Array

__all__ = ["PARAMETERS", "RESIDUALS", "matrix", "pulled_back", "running_server", "solved"]

RESIDUALS, PARAMETERS = 252, 6


def matrix() -> Array:
    """Return the matrix M, of shape `(RESIDUALS, PARAMETERS)`."""
    found: Array = np.random.default_rng(0).standard_normal((RESIDUALS, PARAMETERS)) / PARAMETERS**0.5
    return found


def solved(x: Array) -> Array:
    """Return what the solver answers for x."""
    result: Array = np.tanh(matrix() @ x)
    return result


def pulled_back(x: Array, cotangents: Array) -> Array:
    """Return the products of rows of cotangents with the Jacobian at x."""
    result: Array = (cotangents * (1.0 - solved(x) ** 2)) @ matrix()
    return result


def app(seconds: float) -> Starlette:
    """Return the solver, which waits for so long before each answer."""

    async def solve(request: Request) -> Response:
        x = np.frombuffer(await request.body())
        await asyncio.sleep(seconds)
        return Response(solved(x).tobytes())

    async def pull_back(request: Request) -> Response:
        sent = np.frombuffer(await request.body())
        await asyncio.sleep(seconds)
        x, cotangents = sent[:PARAMETERS], sent[PARAMETERS:].reshape(-1, RESIDUALS)
        return Response(pulled_back(x, cotangents).tobytes())

    return Starlette(routes=[Route("/solve", solve, methods=["POST"]), Route("/pullback", pull_back, methods=["POST"])])


def serve(seconds: float) -> None:
    """Serve on a free port, and print the port."""
    # With its protocol, without which asyncio does not set TCP_NODELAY: an answer would wait 40 ms to be sent.
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(1024)
        print(listener.getsockname()[1], flush=True)
        # Connections outlive the pauses between two rounds.
        config = uvicorn.Config(app(seconds), log_level="critical", lifespan="off", timeout_keep_alive=3600)
        asyncio.run(uvicorn.Server(config).serve(sockets=[listener]))


@contextmanager
def running_server(seconds: float) -> Iterator[str]:
    """Give the address of a solver in a process of its own, which is ended at the end."""
    command = [sys.executable, "-m", "benchmarks.waiting.server", str(seconds), str(RESIDUALS)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.kill()


if __name__ == "__main__":
    RESIDUALS = int(sys.argv[2])
    serve(float(sys.argv[1]))
