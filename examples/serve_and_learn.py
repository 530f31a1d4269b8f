"""An HTTP service that learns while it serves: Starlette on uvicorn, with a backward that is awaited.

    python examples/serve_and_learn.py --demo                    # watch it for some seconds
    python examples/serve_and_learn.py --port 8000 --directory model
    curl --json '{"inputs": [[0.1, 0.2], [0.3, 0.4]], "targets": [[0.5], [0.6]]}' localhost:8000/learn
    curl --json '{"inputs": [[0.1, 0.2]]}' localhost:8000/predict
    curl localhost:8000/metrics
    open http://localhost:8000/live in a browser

The model is a recurrent network that turns a sequence of inputs into a sequence of outputs. Learning from a sequence of
1,000 time steps takes a backward of thousands of nodes. Predictions are answered meanwhile, always from the weights
before or after a whole step. A timeout, or a client that disconnects, cancels the backward and leaves the model
unchanged. Every acknowledged sequence is on the disk, in a journal that is replayed on start, so that even `kill -9`
loses none. docs/serving.md explains the parts. Needs Linux or macOS, and `pip install -e '.[serve]'`.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import dataclasses
import gc
import os
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, final

# The matrices are small: a second BLAS thread would cost more than it saves, and waiting for it would stall the loop.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# When this file is run as a script, Python does not search the parent of `examples` for modules.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np

import asyncgrad as ag
from asyncgrad import learn, nn, optim

try:
    import uvicorn
    from starlette.applications import Starlette
    from starlette.middleware.trustedhost import TrustedHostMiddleware
    from starlette.requests import Request
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    from examples.serving.demonstration import demonstrate
except ModuleNotFoundError as missing:
    sys.exit(f"this example needs {missing.name}, which is not installed: pip install -e '.[serve]'")

DIRECTORY = Path(__file__).parent / "output" / "serve_and_learn"
STEPS = 4096  # of the longest sequence
NAMES = ("localhost", "127.0.0.1")  # by which clients call the service
BREATH = 0.0005  # seconds of a forward after which the event loop goes on
INPUTS = {"inputs": learn.ArraySpec((None, 2), max_size=2 * STEPS)}
EXAMPLE = {**INPUTS, "targets": learn.ArraySpec((None, 1), max_size=STEPS)}


@final
class Network(nn.Module):
    """A recurrent network: inputs of shape (batch, steps, 2) to outputs of shape (batch, steps, 1)."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.enter = nn.Linear(2, hidden, dtype=np.float64)
        self.recur = nn.Linear(hidden, hidden, bias=False, dtype=np.float64)
        self.leave = nn.Linear(hidden, 1, dtype=np.float64)

    async def forward(self, batch: dict[str, Any]) -> Any:
        entered = self.enter(batch["inputs"])
        hidden, states = np.tanh(entered[:, 0]), []
        due = time.perf_counter() + BREATH
        for step in range(entered.shape[1]):
            hidden = np.tanh(entered[:, step] + self.recur(hidden))
            states.append(hidden)
            if time.perf_counter() > due:  # requests are answered in between
                await asyncio.sleep(0)
                due = time.perf_counter() + BREATH
        return self.leave(np.stack(states, axis=1))


async def loss(model: Network, batch: dict[str, Any]) -> Any:
    """Return the mean squared error."""
    if batch["inputs"].shape[1] != batch["targets"].shape[1]:
        sizes = f"{batch['inputs'].shape[1]} rows and targets {batch['targets'].shape[1]}"
        raise ag.errors.ExampleError(f"inputs has {sizes}: each time step needs both")
    return nn.mse_loss(await model(batch), batch["targets"])


def new_learner(directory: Path | None, hidden: int = 24, **options: Any) -> learn.Learner:
    """Return the learner of a network, which goes on from what is in the directory."""
    ag.random.seed(0)
    model = Network(hidden)
    optimizer = optim.Adam(model, lr=0.003)
    options = {"max_grad_norm": 1.0, "timeout": 10.0, "inputs": INPUTS, "example": EXAMPLE, **options}
    return learn.Learner(model, loss, optimizer, directory=directory, **options)


@contextlib.asynccontextmanager
async def collecting_seldom() -> AsyncIterator[None]:
    """Inside, full garbage collections come every ten seconds: one during a backward stops the loop for 20 ms."""

    async def collect() -> None:
        while True:
            await asyncio.sleep(10.0)
            gc.collect()

    gc.freeze()  # a collection looks through what was made since, not through all modules
    with ag.no_full_collections():
        task = asyncio.create_task(collect())
        try:
            yield
        finally:
            task.cancel()


def application(learner: learn.Learner, ready: str | None = None, names: Sequence[str] = NAMES) -> Starlette:
    """Return the service, which answers to these names alone; it prints `ready` once it serves."""

    async def predict(request: Request) -> JSONResponse:
        body = await learn.http.read_json(request)
        outputs = await learn.http.run_for_client(request, learner.predict(body))
        return JSONResponse({"outputs": outputs.tolist()})

    async def learn_example(request: Request) -> JSONResponse:
        body = await learn.http.read_json(request)
        timeout = body.pop("timeout", None) if isinstance(body, dict) else None
        if timeout is not None and (type(timeout) not in (int, float) or not 0 < timeout < 3600):
            raise ag.errors.RequestError(422, "timeout must be a number of seconds above 0")
        result = await learn.http.run_for_client(request, learner.learn(body, timeout=timeout))
        return JSONResponse(result._asdict())

    async def metrics(_: Request) -> JSONResponse:
        found = dataclasses.asdict(learner.statistics())
        return JSONResponse(found, 200 if found["journal_error"] is None else 503)

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with learn.http.lifespan(learner)(app), collecting_seldom():
            if ready is not None:
                found = learner.statistics()
                torn = ", after a torn line was cut off" if found.torn_bytes else ""
                print(f"{ready}: {found.learned} learned, {found.replayed} of them replayed{torn}", flush=True)
            yield

    routes = [
        Route("/predict", predict, methods=["POST"]),
        Route("/learn", learn_example, methods=["POST"]),
        Route("/metrics", metrics),
    ]
    app = Starlette(routes=routes, lifespan=lifespan, exception_handlers=learn.http.exception_handlers())
    app.mount("/live", learn.http.live(learner))
    # A web page whose own name leads here is not answered.
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=list(names))
    return app


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve, or run the demonstration; return the exit status."""
    parser = argparse.ArgumentParser(description="Predict and learn over HTTP.")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on")
    parser.add_argument("--port", type=int, default=8000, help="port to listen on; 0 takes a free one")
    parser.add_argument(
        "--name", action="append", default=list(NAMES), help="another name by which clients call it, or '*' for any"
    )
    parser.add_argument("--directory", type=Path, default=DIRECTORY, help="where the model and its journal are")
    parser.add_argument("--hidden", type=int, default=24, help="of a new model: size of its memory")
    parser.add_argument("--checkpoint-every", type=int, default=100, help="steps between two checkpoints")
    parser.add_argument("--max-connections", type=int, default=256, help="clients that are served at once")
    parser.add_argument("--demo", action="store_true", help="serve from a temporary directory, put it to work, and end")
    parser.add_argument("--seconds", type=float, default=2.0, help="of each part of the demonstration")
    options = parser.parse_args(arguments)
    if not 0 <= options.port <= 65535:
        parser.error(f"--port must be from 0 to 65535, and is {options.port}")
    if options.demo:
        return ag.run(demonstrate(Path(__file__).resolve(), options.seconds))
    try:
        learner = new_learner(options.directory, options.hidden, checkpoint_every=options.checkpoint_every)
        http: Any = learn.http.connections(options.max_connections)
        listener = socket.create_server((options.host, options.port))
    except (ag.errors.ArgumentError, OSError) as error:
        print(f"cannot serve on {options.host} port {options.port}: {error}", file=sys.stderr)
        return 1
    with listener:
        app = application(learner, "serving on http://{}:{}".format(*listener.getsockname()[:2]), options.name)
        server = uvicorn.Server(uvicorn.Config(app, http=http, lifespan="on", access_log=False, log_level="warning"))
        # uvicorn raises the signal that stopped it again at the end; it must not kill the process.
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: None)
        ag.run(server.serve(sockets=[listener]))
    return 0 if server.started else 1


if __name__ == "__main__":
    sys.exit(main())
