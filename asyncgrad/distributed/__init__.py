"""Stages of a model on other machines: their forward and backward run there, and one backward at home commits them all.

How the parts fit, from home to worker:

- `making`: `stage` and `RemoteModule` make a `Stage` of a `Definition`.
- `stage`: knows the worker, and what another one needs to take over. `calls`: the Function whose node stands in the
  graph at home for a call. `transactions`: the two phases of a backward, driven by its final and failure callbacks.
- `transport`: `Request`, `Reply` and the `Transport` protocol between both sides. `payload`: what they carry.
  `failures`: errors on their way. A new transport implements that protocol, gives each worker a `StageHost`, and hands
  it the requests; `simulated` is the smallest one, `dask` the one for clusters, and `http` and
  `http_app` those for owners who do not run each other's code, whose messages `wire` turns into bytes.
- `host`: answers the requests at the worker. `definition`: what it runs. `ledger`: the gradients of parameters there.
- `pipeline`: micro-batches through stages, whether these run elsewhere or here.
- `data_parallel`: replicas of a model, whose gradients are averaged over a `collective`.
"""

from typing import TYPE_CHECKING

from ..core.settings.lazy import attach

if TYPE_CHECKING:
    from .collective import Collective as Collective
    from .collective import InProcessGroup as InProcessGroup
    from .collective import RemoteGroup as RemoteGroup
    from .dask import DaskTransport as DaskTransport
    from .data_parallel import DataParallel as DataParallel
    from .definition import Definition as Definition
    from .host import StageHost as StageHost
    from .http import HttpTransport as HttpTransport
    from .http_app import http_app as http_app
    from .new_stage import RemoteModule as RemoteModule
    from .new_stage import stage as stage
    from .pipeline import pipeline as pipeline
    from .simulated import SimulatedTransport as SimulatedTransport
    from .stage import Stage as Stage
    from .transport import Reply as Reply
    from .transport import Request as Request
    from .transport import Transport as Transport

__all__ = [
    "Collective",
    "DaskTransport",
    "DataParallel",
    "Definition",
    "HttpTransport",
    "InProcessGroup",
    "RemoteGroup",
    "RemoteModule",
    "Reply",
    "Request",
    "SimulatedTransport",
    "Stage",
    "StageHost",
    "Transport",
    "http_app",
    "pipeline",
    "stage",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = attach(
        __name__,
        {
            ".collective": ["Collective", "InProcessGroup", "RemoteGroup"],
            ".dask": ["DaskTransport"],
            ".data_parallel": ["DataParallel"],
            ".definition": ["Definition"],
            ".host": ["StageHost"],
            ".http": ["HttpTransport"],
            ".http_app": ["http_app"],
            ".new_stage": ["RemoteModule", "stage"],
            ".pipeline": ["pipeline"],
            ".simulated": ["SimulatedTransport"],
            ".stage": ["Stage"],
            ".transport": ["Reply", "Request", "Transport"],
        },
    )
