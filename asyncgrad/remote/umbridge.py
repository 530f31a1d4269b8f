"""Models that are served by UM-Bridge (https://um-bridge-benchmarks.readthedocs.io), differentiable to second order.

The protocol has requests for the value, the product of a vector with the Jacobian from either side, and one with the
second derivative. Each is a Function whose rule sends others, those of several inputs and outputs at the same time.

Example:
    >>> from asyncgrad.remote import umbridge
    >>> umbridge.__all__
    ['Model']
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Self, TypeAlias, final

import numpy as np
import numpy.typing as npt

from ..core.function.function import Function
from ..core.settings.arguments import must_be
from ..core.settings.context import is_grad_enabled
from ..core.tensor import Tensor, asarray
from ..distributed.concurrency import run_together
from ..errors import ArgumentError, ArgumentTypeError, GraphError, RemoteError
from .json_server import Decorator, JsonServer, wanted_inputs

if TYPE_CHECKING:
    import httpx

__all__ = ["Model"]

Array: TypeAlias = npt.NDArray[np.floating[Any]]

#: What a model may offer beside its value, what of a Python model says that it does, and what it is for.
_OFFERS = {
    "Evaluate": ("supports_evaluate", "__call__", "its value"),
    "Gradient": ("supports_gradient", "gradient", "first derivatives"),
    "ApplyJacobian": ("supports_apply_jacobian", "apply_jacobian", "second derivatives"),
    "ApplyHessian": ("supports_apply_hessian", "apply_hessian", "second derivatives"),
}


@final
class Model:
    """A model of an UM-Bridge server, as a function of vectors.

    `await model(x)` returns a tuple of vectors, with a history. A backward asks for `Gradient`, once for each pair of
    an output and an input that it needs, at the same time; one of a gradient (`create_graph=True`) for `ApplyJacobian`
    and `ApplyHessian`. `retain_graph="until_success"` keeps what has been answered.

    Args:
        client: has the address of the server as its `base_url`; its timeouts are those of each request.
        name: that of the model at the server.
        config: the configuration of the model, as JSON.
        decorator: what is put around each request, an async function of a path and a body: `ag.limit(requests=4)`,
            `tenacity.retry(...)`, or a function that does both.
        max_bytes: the most bytes of a reply.

    Raises:
        ArgumentTypeError: the client is no `httpx.AsyncClient`, or another argument is of another type.
        ArgumentError: the client has no address.

    Example:
        >>> import json, httpx, asyncgrad as ag
        >>> from asyncgrad.remote import umbridge
        >>> def serve(request):  # in place of a server: the model doubles a vector
        ...     asked = json.loads(request.content)
        ...     if request.url.path == "/ModelInfo":
        ...         return httpx.Response(200, json={"support": {"Evaluate": True, "Gradient": True}})
        ...     if request.url.path == "/Evaluate":
        ...         return httpx.Response(200, json={"output": [[2 * number for number in asked["input"][0]]]})
        ...     return httpx.Response(200, json={"output": [2 * number for number in asked["sens"]]})
        >>> async def main():
        ...     transport = httpx.MockTransport(serve)
        ...     async with httpx.AsyncClient(transport=transport, base_url="http://localhost:4242") as client:
        ...         model = umbridge.Model(client, "double")
        ...         x = ag.tensor([1.0, 2.0], requires_grad=True)
        ...         (y,) = await model(x)
        ...         await y.sum().backward()
        ...         return y.tolist(), x.grad.tolist()
        >>> ag.run(main())
        ([2.0, 4.0], [2.0, 2.0])
    """

    __slots__ = ("_requests", "name")

    def __init__(
        self,
        client: httpx.AsyncClient,
        name: str,
        *,
        config: Mapping[str, object] | None = None,
        decorator: Decorator | None = None,
        max_bytes: int = 1 << 28,
    ) -> None:
        if not isinstance(name, str):
            raise ArgumentTypeError(
                must_be("name", "a string", name, "write the name that the model has at the server")
            )
        if config is not None and not isinstance(config, Mapping):
            raise ArgumentTypeError(must_be("config", "a dict", config))
        #: Its name at the server.
        self.name = name
        self._requests = Requests(client, name, copy.deepcopy(dict(config or {})), decorator, max_bytes)

    async def __call__(self, *inputs: npt.ArrayLike | Tensor) -> tuple[Tensor, ...]:
        """Return the outputs of the model for its inputs, vectors all.

        Raises:
            ArgumentError: an input is no vector of finite real numbers, or the server says that it does not fit.
            RemoteError: the server has failed, or the model offers no Gradient, and an input requires grad.
            WorkerLostError: the server does not answer.
        """
        vectors = [_vector(value, index) for index, value in enumerate(inputs)]
        if is_grad_enabled() and any(vector.requires_grad for vector in vectors):
            await self._requests.check_offer("Gradient")
        outputs: tuple[Tensor, ...] = await Evaluate.apply(self._requests, *vectors)
        return outputs

    async def offers(self) -> frozenset[str]:
        """Return which of Evaluate, Gradient, ApplyJacobian and ApplyHessian the model has; asks once."""
        return await self._requests.offers()

    async def input_sizes(self) -> list[int]:
        """Return how many numbers each input has."""
        return await self._requests.sizes("/InputSizes", "inputSizes")

    async def output_sizes(self) -> list[int]:
        """Return how many numbers each output has."""
        return await self._requests.sizes("/OutputSizes", "outputSizes")

    def __deepcopy__(self, memo: object) -> Self:
        """Return this object: the copy of a module that has it asks the same server, through the same client."""
        return self

    def __repr__(self) -> str:
        return f"<umbridge.Model: {self._requests}>"


@final
class Requests:
    """What a model is asked, and what is wrong with its answers.

    Args:
        client: see Model, as all of these.
        name: that of the model.
        config: its configuration.
        decorator: what is put around each request.
        max_bytes: the most bytes of a reply.
    """

    __slots__ = ("_config", "_name", "_offers", "_server")

    def __init__(
        self,
        client: httpx.AsyncClient,
        name: str,
        config: Mapping[str, object],
        decorator: Decorator | None,
        max_bytes: int,
    ) -> None:
        self._name, self._config = name, config
        self._server = JsonServer(
            client,
            f"model {name!r}",
            decorator=decorator,
            max_bytes=max_bytes,
            accept="application/json",
            refusal=self._refusal,
        )
        #: What the server says that the model offers; None until it has been asked.
        self._offers: frozenset[str] | None = None

    def __str__(self) -> str:
        return self._server.what

    async def offers(self) -> frozenset[str]:
        """Return what the model has of what the protocol has."""
        if self._offers is None:
            reply = await self._server.ask("/ModelInfo", {"name": self._name})
            found = reply.get("support") if isinstance(reply, dict) else None
            if not isinstance(found, dict):
                self._server.complain("/ModelInfo", '{"support": {...}}', reply)
            self._offers = frozenset(name for name in _OFFERS if found.get(name) is True)
        return self._offers

    async def check_offer(self, operation: str) -> None:
        """Raise if the model does not offer an operation.

        Raises:
            RemoteError: it does not.
        """
        offers = await self.offers()
        if operation not in offers:
            says, does, what = _OFFERS[operation]
            raise RemoteError(
                f"UnsupportedFeature: {self._server.what} offers {', '.join(sorted(offers)) or 'nothing'}, and "
                f"{operation} is needed for {what}. Give the model {does}(...) and {says}() that returns True, or "
                "leave out what needs it: with ag.no_grad(), or x.detach()"
            )

    async def evaluate(self, inputs: Sequence[Array]) -> list[Array]:
        """Ask for the outputs."""
        reply = await self._ask("Evaluate", inputs)
        if not isinstance(reply, list) or not reply:
            self._server.complain("/Evaluate", "a list of vectors, one or more", reply)
        return [self._numbers("/Evaluate", one, None) for one in reply]

    async def product(self, operation: str, inputs: Sequence[Array], length: int, **fields: object) -> Array:
        """Ask for a product with a derivative, a vector of so many numbers."""
        await self.check_offer(operation)
        return self._numbers(f"/{operation}", await self._ask(operation, inputs, **fields), length)

    async def _ask(self, operation: str, inputs: Sequence[Array], **fields: object) -> object:
        lists = [one.tolist() for one in inputs]
        body = {"name": self._name, "config": self._config, "input": lists, **fields}
        reply = await self._server.ask(f"/{operation}", body)
        if not isinstance(reply, dict) or "output" not in reply:
            self._server.complain(f"/{operation}", '{"output": ...}', reply)
        return reply["output"]

    def _numbers(self, path: str, found: object, length: int | None) -> Array:
        """Return a vector of a reply."""
        try:
            array = np.array(found)
        except ValueError:
            array = np.array(None)
        is_vector = isinstance(found, list) and array.ndim == 1 and array.dtype.kind in "fiu"
        if not is_vector or (length is not None and len(array) != length):
            self._server.complain(path, "a vector of numbers" if length is None else f"{length} numbers", found)
        return array.astype(np.float64)

    async def sizes(self, path: str, field: str) -> list[int]:
        """Return how many numbers each input, or output, has."""
        reply = await self._server.ask(path, {"name": self._name, "config": self._config})
        sizes = reply.get(field) if isinstance(reply, dict) else None
        if not (isinstance(sizes, list) and all(type(size) is int and size >= 0 for size in sizes)):
            self._server.complain(path, f'{{"{field}": [...]}}', reply)
        return sizes

    def _refusal(self, status: int, text: str) -> Exception | None:
        """Return the error that the answer of a server says in the words of the protocol; None for another answer."""
        try:
            error = json.loads(text)["error"]
            kind, message = str(error["type"]), str(error["message"])
        except (ValueError, RecursionError, LookupError, TypeError):
            return None
        hint = {
            "InvalidInput": ": await model.input_sizes() tells how many numbers each input has",
            "ModelNotFound": f": write umbridge.Model(client, name) with a name that is there, not {self._name!r}",
            "InvalidOutput": ": the model at the server returns what it has not declared, and must be mended there",
        }.get(kind, "")
        made = ArgumentError if kind in ("InvalidInput", "ModelNotFound") else RemoteError
        return made(f"{kind}: {self._server.what} says: {message[:1000]}{hint}")


def _vector(value: npt.ArrayLike | Tensor, index: int) -> Tensor:
    if isinstance(value, (list, tuple)) and any(map(_is_vector, value)):
        raise ArgumentError(
            f"input {index} of a model must be a vector, and holds vectors: the inputs are arguments of their own, so "
            "write await model(*inputs), where the client of UM-Bridge takes a list of them"
        )
    # A copy of an array: the caller may write into it before the backward asks for a derivative there.
    found = asarray(value) if isinstance(value, Tensor) else asarray(np.array(value))
    if found.ndim != 1 or found.dtype.kind not in "fiu":
        hint = "write x.reshape(-1)" if found.ndim != 1 else "pass floats"
        raise ArgumentError(
            f"input {index} of a model must be a vector of real numbers, and has shape {found.shape} and dtype "
            f"{found.dtype}: {hint}"
        )
    return found


def _is_vector(value: object) -> bool:
    return isinstance(value, (list, tuple)) or (isinstance(value, (Tensor, np.ndarray)) and value.ndim > 0)


@final
class Evaluate(Function):
    """The outputs of a model."""

    concurrent = True
    is_memoized = True

    @staticmethod
    async def forward(ctx: Any, model: Requests, *inputs: Tensor) -> tuple[Array, ...]:
        """Ask for the value; single precision only where each input has it."""
        ctx.save_for_backward(*inputs)
        ctx.set_materialize_grads(False)
        ctx.model = model
        kinds = [one.dtype for one in inputs if one.dtype.kind == "f"]
        dtype = np.result_type(*kinds) if kinds else np.dtype(np.float64)
        return tuple(one.astype(dtype) for one in await model.evaluate(_arrays(inputs)))

    @staticmethod
    async def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        """Ask for a Gradient of each output that has a gradient and each input that needs one, at the same time."""
        inputs = await ctx.load_saved()
        wanted = wanted_inputs(len(inputs))
        pairs = [
            (out, into)
            for out, grad in enumerate(grads)
            if grad is not None
            for into, is_wanted in enumerate(wanted)
            if is_wanted
        ]
        found = await run_together(
            (Gradient.apply(ctx.model, out, into, grads[out], *inputs) for out, into in pairs), "a gradient of a model"
        )
        sums: list[Tensor | None] = [None] * len(inputs)
        for (_, into), gradient in zip(pairs, found, strict=True):
            before = sums[into]
            sums[into] = gradient if before is None else before + gradient
        return None, *sums


@final
class Gradient(Function):
    """The product of a vector with the Jacobian of an output by an input, from the left."""

    concurrent = True
    is_memoized = True

    @staticmethod
    async def forward(ctx: Any, model: Requests, out: int, into: int, sens: Tensor, *inputs: Tensor) -> Array:
        """Ask for it; it has the dtype of the input."""
        ctx.save_for_backward(sens, *inputs)
        ctx.model, ctx.out, ctx.into = model, out, into
        fields = {"outWrt": out, "inWrt": into, "sens": sens.tolist()}
        found = await model.product("Gradient", _arrays(inputs), len(inputs[into]), **fields)
        return _like(found, inputs[into])

    @staticmethod
    async def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """Ask for the product with the Jacobian from the right, and for those with second derivatives."""
        sens, *inputs = await ctx.load_saved()
        by_vector = partial(Jacobian.apply, ctx.model, ctx.out, ctx.into, len(sens), grad, *inputs)
        return None, None, None, *await _second(ctx, inputs, by_vector, sens, grad)


@final
class Jacobian(Function):
    """The product of a vector with the Jacobian of an output by an input, from the right."""

    concurrent = True
    is_memoized = True

    @staticmethod
    async def forward(
        ctx: Any, model: Requests, out: int, into: int, length: int, vec: Tensor, *inputs: Tensor
    ) -> Array:
        """Ask for it; `length` is that of the output."""
        ctx.save_for_backward(vec, *inputs)
        ctx.model, ctx.out, ctx.into = model, out, into
        fields = {"outWrt": out, "inWrt": into, "vec": vec.tolist()}
        return _like(await model.product("ApplyJacobian", _arrays(inputs), length, **fields), vec)

    @staticmethod
    async def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """Ask for the product with the Jacobian from the left, and for those with second derivatives."""
        vec, *inputs = await ctx.load_saved()
        by_vector = partial(Gradient.apply, ctx.model, ctx.out, ctx.into, grad, *inputs)
        return None, None, None, None, *await _second(ctx, inputs, by_vector, grad, vec)


async def _second(
    ctx: Any, inputs: Sequence[Tensor], by_vector: Callable[[], Any], sens: Tensor, vec: Tensor
) -> list[Tensor | None]:
    """Return the gradients of a product: by its vector, and, for given `sens` and `vec`, by each input."""
    asks: list[Callable[[], Any]] = [by_vector]
    asks += [
        partial(Hessian.apply, ctx.model, ctx.out, index, ctx.into, sens, vec, *inputs) for index in range(len(inputs))
    ]
    wanted = wanted_inputs(len(asks))
    asked = [ask for ask, is_wanted in zip(asks, wanted, strict=True) if is_wanted]
    found = iter(await run_together((ask() for ask in asked), "a second derivative of a model"))
    return [next(found) if is_wanted else None for is_wanted in wanted]


@final
class Hessian(Function):
    """The product of two vectors with the second derivative of an output, by an input `by` and an input `into`."""

    concurrent = True
    is_memoized = True

    @staticmethod
    async def forward(
        ctx: Any, model: Requests, out: int, by: int, into: int, sens: Tensor, vec: Tensor, *inputs: Tensor
    ) -> Array:
        """Ask for it; it has the shape and the dtype of the input `by`."""
        fields = {"outWrt": out, "inWrt1": by, "inWrt2": into, "sens": sens.tolist(), "vec": vec.tolist()}
        return _like(await model.product("ApplyHessian", _arrays(inputs), len(inputs[by]), **fields), inputs[by])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> None:
        """Raise: the protocol has no third derivatives."""
        raise GraphError(
            "the protocol of UM-Bridge has no third derivatives: leave create_graph=True out where the second ones are "
            "computed"
        )


def _arrays(tensors: Sequence[Tensor]) -> list[Array]:
    return [tensor.numpy() for tensor in tensors]


def _like(found: Array, tensor: Tensor) -> Array:
    """Return what was found in the dtype of a tensor, where that has floating numbers."""
    return found.astype(tensor.dtype) if tensor.dtype.kind == "f" else found
