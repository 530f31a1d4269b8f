"""An HTTP service that learns while it serves: Starlette on uvicorn and uvloop, with a backward that is awaited.

    python -m examples.serve_and_learn --demo                    # watch it for some seconds
    python -m examples.serve_and_learn --port 8000 --directory model
    curl -d '{"inputs": [[0.1, 0.2], [0.3, 0.4]], "targets": [[0.5], [0.6]]}' localhost:8000/learn
    curl -d '{"inputs": [[0.1, 0.2]]}' localhost:8000/predict

The model is a recurrent network that turns a sequence of inputs into a sequence of outputs. Learning from a sequence of
1,000 time steps takes a backward of 5,000 nodes. Predictions are answered meanwhile, always from the weights before or
after a whole step. A timeout, or a client that disconnects, cancels the backward and leaves the model unchanged.
Every acknowledged sequence is on the disk, in a journal that is replayed on start, so that even `kill -9` loses none.
The parts are in `examples/serving`; `service.py` there documents the routes and errors. Needs Linux or macOS, and
`pip install 'asyncgrad[serve]'`.
"""

from __future__ import annotations

import argparse
import dataclasses
import logging
import math
import os
import signal
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

# The matrices are small: a second BLAS thread would cost more than it saves, and waiting for it would stall the loop.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# When this file is run as a script, Python does not search the parent of `examples` for modules.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import asyncgrad as ag

try:
    import uvicorn

    from examples.serving.checking import Limits
    from examples.serving.connection import connections
    from examples.serving.demonstration import demonstrate
    from examples.serving.journal import Directory, DirectoryError
    from examples.serving.learner import Learner
    from examples.serving.network import Settings
    from examples.serving.service import application
except ModuleNotFoundError as missing:
    sys.exit(f"this example needs {missing.name}, which is not installed: pip install 'asyncgrad[serve]'")

DIRECTORY = Path(__file__).parent / "output" / "serve_and_learn"
#: The seconds beyond their timeout that running requests have to end when the service is stopped.
GRACE = 5


async def serve(options: argparse.Namespace, listener: socket.socket) -> None:
    """Serve until SIGTERM or SIGINT; then finish running requests, save a snapshot, and return."""
    settings = Settings(**{field.name: getattr(options, field.name) for field in dataclasses.fields(Settings)})
    directory = Directory(options.directory)
    try:
        learner = Learner(directory, settings, most_waiting=options.most_waiting, snapshot_every=options.snapshot_every)
        await learner.replay()
    except BaseException:
        directory.close()
        raise

    def on_start() -> None:
        host, port = listener.getsockname()[:2]
        url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
        torn = ", after a torn line was cut off" if directory.torn else ""
        print(f"serving on {url}: {learner.learned} learned, {learner.replayed} of them replayed{torn}", flush=True)

    limits = Limits(options.max_body, options.max_steps, options.timeout, options.max_connections)
    config = uvicorn.Config(
        application(learner, limits, on_start),
        http=connections(limits),
        lifespan="on",
        ws="none",
        access_log=False,
        log_level="warning",
        timeout_graceful_shutdown=math.ceil(options.timeout) + GRACE,
    )
    # uvicorn raises the signal that stopped it again at the end; it must not kill the process.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    await uvicorn.Server(config).serve(sockets=[listener])


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Predict and learn over HTTP.")
    settings, limits = Settings(), Limits()

    def option(name: str, kind: type, default: object, what: str) -> None:
        parser.add_argument(f"--{name}", type=kind, default=default, help=f"{what} (default: %(default)s)")

    option("host", str, "127.0.0.1", "address to listen on")
    option("port", int, 8000, "port to listen on; 0 takes a free one")
    option("directory", Path, DIRECTORY, "where the model, its journal and its lock are")
    option("timeout", float, limits.seconds, "seconds that headers, a body, and a learning may take, waiting included")
    option("max-body", int, limits.body, "bytes of a request's body")
    option("max-steps", int, limits.steps, "time steps of one sequence")
    option("max-connections", int, limits.connections, "clients that are served at once; fewer where descriptors are")
    option("most-waiting", int, 32, "sequences that are learned or wait for it; what comes then is turned away")
    option("snapshot-every", int, 100, "sequences after which a snapshot takes the journal's place")
    option("inputs", int, settings.inputs, "of a new model: numbers at each time step that go in")
    option("outputs", int, settings.outputs, "of a new model: numbers at each time step that come out")
    option("hidden", int, settings.hidden, "of a new model: size of its memory")
    option("learning-rate", float, settings.learning_rate, "of a new model")
    option("seed", int, settings.seed, "of a new model: its first weights")
    parser.add_argument("--demo", action="store_true", help="serve from a temporary directory, put it to work, and end")
    option("seconds", float, 2.0, "of each part of the demonstration")
    options = parser.parse_args(arguments)
    _check(parser, options)
    return options


def _check(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    sizes = (
        "max_body",
        "max_steps",
        "max_connections",
        "most_waiting",
        "snapshot_every",
        "inputs",
        "outputs",
        "hidden",
    )
    least = {**dict.fromkeys(sizes, 1), "seed": 0, "port": 0}
    for name, lowest in least.items():
        if getattr(options, name) < lowest:
            parser.error(f"--{name.replace('_', '-')} must be at least {lowest}, and is {getattr(options, name)}")
    for name in ("timeout", "learning_rate", "seconds"):
        if not 0 < getattr(options, name) < math.inf:
            parser.error(f"--{name.replace('_', '-')} must be above 0, and is {getattr(options, name)}")
    if options.port > 65535:
        parser.error(f"--port must be at most 65535, and is {options.port}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve, or run the demonstration; return the exit status."""
    options = parse(arguments)
    logging.basicConfig(format="%(levelname)s: %(message)s")
    if options.demo:
        return ag.run(demonstrate(Path(__file__).resolve(), options.seconds))
    family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
    try:
        listener = socket.create_server((options.host, options.port), family=family)
    except OSError as error:
        print(f"cannot listen on {options.host} port {options.port}: {error}", file=sys.stderr)
        return 1
    with listener:
        try:
            ag.run(serve(options, listener))
        except DirectoryError as error:
            print(f"--directory: {error}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
