"""`stage` and `RemoteModule`, which make stages: in the words of a user of Dask, and in those of a user of PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from ..core.settings.arguments import must_be, takes
from ..errors import ArgumentError, ArgumentTypeError
from ..nn.modules.module import Module
from ..random import generator
from .definition import Definition
from .stage import Stage
from .transport import Transport

__all__ = ["RemoteModule", "stage"]


def stage(
    fn: Callable[..., Any],
    params: object = None,
    *,
    client: object = None,
    worker: str | None = None,
    transport: Transport | None = None,
    gradients: str = "stage",
    optimizer: Callable[..., object] | None = None,
    allow_other_workers: bool = True,
    backup: bool = True,
    seed: int = 0,
    name: str | None = None,
) -> Stage:
    """Return a stage: a function or a Module whose forward and backward run at a worker.

    Args:
        fn: a function of the parameters and the inputs; of the inputs alone, if there are no `params`; or a Module. It
            may be an `async def`. It travels to the worker once.
        params: a tree of tensors or arrays. Their values travel with `fn`.
        client: a `distributed.Client`; None for Dask's default one, unless there is a `transport`.
        worker: the address of the worker; None leaves the choice to the transport.
        transport: what carries the messages, in place of a client.
        gradients: where the gradients of the parameters go: "stage" keeps parameters and gradients at the worker;
            "home" leaves the parameters here, as leaves whose `.grad` the backward fills. They then travel with each
            call.
        optimizer: makes the optimizer at the worker, of the Module or of the list of parameters; for `Stage.step`.
        allow_other_workers: whether another worker may take over if this one is lost.
        backup: whether home keeps what another worker needs for that. Each `Stage.step` then brings the state home.
        seed: what the random numbers of the stage come from, together with the number of the call.
        name: what errors call it.

    Raises:
        ArgumentError: `gradients` is neither; or they are to come home, and there are no `params`.

    Example:
        >>> import numpy as np, asyncgrad as ag
        >>> async def main():
        ...     transport = ag.distributed.SimulatedTransport(["a"])
        ...     w = ag.tensor([1.0, 2.0], requires_grad=True)
        ...     layer = ag.distributed.stage(lambda w, x: np.tanh(w * x), w, transport=transport, gradients="home")
        ...     await (await layer(np.zeros(2))).sum().backward()
        ...     return w.grad.tolist()
        >>> ag.run(main())
        [0.0, 0.0]
    """
    if gradients not in ("stage", "home"):
        raise ArgumentError(f"gradients is 'stage' or 'home', not {gradients!r}")
    if not callable(fn) or (isinstance(fn, type) and issubclass(fn, Module)):
        raise ArgumentTypeError(must_be("a stage", "a function or a Module", fn, "for a class, RemoteModule(...)"))
    if isinstance(fn, Module) and params is not None:
        raise ArgumentError("a Module has parameters of its own: leave params out, or pass a function")
    if gradients == "home" and params is None:
        raise ArgumentError("gradients can only come home to parameters that are here: pass params")
    definition = Definition(fn, params, optimizer=optimizer, seed=seed, params_at_home=gradients == "home")
    options: dict[str, Any] = {"allow_other_workers": allow_other_workers, "backup": backup, "name": name}
    return Stage(definition, _transport(client, transport), worker, **options)


def RemoteModule(  # noqa: N802
    worker: str | None,
    module: type[Module],
    args: tuple[object, ...] = (),
    kwargs: Mapping[str, object] | None = None,
    *,
    client: object = None,
    transport: Transport | None = None,
    optimizer: Callable[..., object] | None = None,
    allow_other_workers: bool = True,
    backup: bool = True,
    name: str | None = None,
) -> Stage:
    """Return a stage whose Module is made at the worker: its parameters are leaves there, and never here.

    The random numbers of its initialisers come from a seed that is drawn here, so `ag.random.seed` decides them.

    Args:
        worker: the address of the worker; None leaves the choice to the transport.
        module: a subclass of Module.
        args: its arguments.
        kwargs: its keyword arguments.
        client: as in `stage`, and so are the rest.
        transport: see there.
        optimizer: see there.
        allow_other_workers: see there.
        backup: see there.
        name: see there.

    Source: torch.distributed.nn.RemoteModule.

    Example:
        >>> import numpy as np, asyncgrad as ag
        >>> from asyncgrad import nn
        >>> async def main():
        ...     transport = ag.distributed.SimulatedTransport(["a"])
        ...     layer = ag.distributed.RemoteModule("a", nn.Linear, (3, 2), transport=transport)
        ...     await (await layer(np.ones(3))).sum().backward()
        ...     return [grad.shape for grad in await layer.grads()]
        >>> ag.run(main())
        [(2, 3), (2,)]
    """
    if not (isinstance(module, type) and issubclass(module, Module)):
        raise ArgumentTypeError(takes("RemoteModule(worker, module)", "a subclass of nn.Module", module))
    seed = int(generator().integers(2**32))
    definition = Definition(module, args=tuple(args), kwargs=dict(kwargs or {}), optimizer=optimizer, seed=seed)
    options: dict[str, Any] = {"allow_other_workers": allow_other_workers, "backup": backup, "name": name}
    return Stage(definition, _transport(client, transport), worker, **options)


def _transport(client: Any, transport: Transport | None) -> Transport:
    if transport is None:
        # Here, since Dask is needed for this alone, and may be missing.
        found: Transport = import_module(".dask", __package__).DaskTransport.of_client(client)
        return found
    if client is not None:
        raise ArgumentError("a stage has a client or a transport, not both: give the client to the transport")
    return transport
