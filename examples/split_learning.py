"""Two owners learn one model over HTTP, and neither sees the other's parameters, or runs the other's code.

    python examples/split_learning.py

A clinic has patients' measurements, a layer that makes features of them, and the diagnoses. A lab has the rest of the
model, in another process: it registers it by name, and serves it. What crosses between them is features, the lab's
outputs, and gradients of both. One backward commits at both owners, or at none.

Needs `pip install -e '.[serve]'`.
"""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from typing import Any

import numpy as np

import asyncgrad as ag
from asyncgrad import nn, optim

try:
    import uvicorn
except ModuleNotFoundError as missing:
    sys.exit(f"this example needs {missing.name}, which is not installed: pip install -e '.[serve]'")

STEPS = 40


def lab() -> None:
    """Serve the lab's part of the model on a free port, and print the port."""
    ag.random.seed(1)
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 2))
    definition = ag.distributed.Definition(model, optimizer=lambda model: optim.Adam(model, lr=0.03))
    app = ag.distributed.http_app({"classifier": definition})
    # uvicorn by itself waits for slow clients without end.
    http: Any = ag.learn.http.connections()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(listener.getsockname()[1], flush=True)
        server = uvicorn.Server(uvicorn.Config(app, http=http, log_level="warning"))
        ag.run(server.serve(sockets=[listener]))


async def clinic(address: str) -> None:
    """Train with the lab at that address."""
    ag.random.seed(2)
    rng = np.random.default_rng(0)
    measurements = rng.standard_normal((200, 5))
    diagnoses = (measurements[:, 0] * measurements[:, 1] > 0).astype(int)
    encoder = nn.Linear(5, 8)
    optimizer = optim.Adam(encoder, lr=0.03)

    async with ag.distributed.HttpTransport([address]) as transport, transport.stage("classifier") as classifier:
        for number in range(STEPS):
            optimizer.zero_grad()
            scores = await classifier(np.tanh(encoder(measurements)))
            loss = nn.cross_entropy(scores, diagnoses)
            await loss.backward()
            optimizer.step()
            await classifier.step()
            if number in (0, STEPS - 1):
                accuracy = 100 * (scores.numpy().argmax(axis=1) == diagnoses).mean()
                print(f"step {number + 1}: loss {loss.item():.3f}, accuracy {accuracy:.0f}%")
        try:
            await classifier.parameters()
        except PermissionError as error:
            print(f"the clinic asks for the lab's parameters: {str(error).partition(': ')[2]}")


async def main() -> None:
    """Start the lab in a process of its own, train, and stop it."""
    process = await asyncio.create_subprocess_exec(sys.executable, __file__, "lab", stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        port = int(await process.stdout.readline())
        await clinic(f"http://127.0.0.1:{port}")
    finally:
        process.terminate()
        await process.wait()


if __name__ == "__main__":
    if sys.argv[1:] == ["lab"]:
        lab()
    else:
        ag.run(main())
