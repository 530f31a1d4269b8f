"""Tesseracts (https://docs.pasteurlabs.ai), solvers behind one HTTP interface, as differentiable functions of dicts.

The protocol has the value and the products of vectors with the Jacobian from either side, for all inputs and outputs in
one request, and no second derivatives.

Example:
    >>> from asyncgrad.remote import tesseract
    >>> tesseract.__all__
    ['Tesseract']
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self, TypeAlias, final

import numpy as np
import numpy.typing as npt

from ..core.function.function import Function
from ..core.settings.arguments import must_be
from ..core.settings.context import is_grad_enabled
from ..core.tensor import Tensor
from ..errors import ArgumentError, ArgumentTypeError, GraphError, RemoteError
from .json_server import Decorator, JsonServer, wanted_inputs
from .tesseract_wire import Keys, Schema, decode, encode, is_array, map_leaves, schema_of

if TYPE_CHECKING:
    import httpx

__all__ = ["Tesseract"]

Array: TypeAlias = npt.NDArray[Any]

#: The two products, each with what its request calls the vectors, what these belong to, and what it returns.
_VJP, _JVP = "vector_jacobian_product", "jacobian_vector_product"
_WORDS = {
    _VJP: ("cotangent_vector", "vjp_outputs", "vjp_inputs"),
    _JVP: ("tangent_vector", "jvp_inputs", "jvp_outputs"),
}


@final
class Tesseract:
    """A Tesseract that is served over HTTP, as a function of a dict of inputs.

    `await solver({"x": x, "steps": 3})` returns the dict of outputs, with tensors in place of arrays. A backward sends
    one `vector_jacobian_product` for each call, whatever the number of inputs and outputs. What the Tesseract does not
    declare as differentiable has no history, and an input that requires grad and is not is refused. The protocol has no
    second derivatives: a gradient can be differentiated by the vector that it was multiplied by, as `ag.jvp` does.

    Args:
        client: has the address of the server as its `base_url`; its timeouts are those of each request.
        decorator: what is put around each request, an async function of a path and a body: `ag.limit(requests=4)`,
            `tenacity.retry(...)`, or a function that does both.
        max_bytes: the most bytes of a reply.

    Raises:
        ArgumentTypeError: the client is no `httpx.AsyncClient`, or another argument is of another type.
        ArgumentError: the client has no address.

    Example:
        >>> import httpx, asyncgrad as ag
        >>> from asyncgrad.remote import tesseract
        >>> async def main():
        ...     async with httpx.AsyncClient(base_url="http://localhost:8000") as client:
        ...         return tesseract.Tesseract(client, decorator=ag.limit(requests=4))
        >>> ag.run(main())
        <tesseract.Tesseract: the Tesseract at http://localhost:8000>
    """

    __slots__ = ("_schema", "_server")

    def __init__(
        self, client: httpx.AsyncClient, *, decorator: Decorator | None = None, max_bytes: int = 1 << 30
    ) -> None:
        self._server = JsonServer(
            client,
            "the Tesseract",
            decorator=decorator,
            max_bytes=max_bytes,
            accept="application/json+base64, application/json;q=0.5",
            refusal=self._refusal,
        )
        #: What it declares; None until it has been asked.
        self._schema: Schema | None = None

    async def __call__(self, inputs: Mapping[str, object]) -> dict[str, Any]:
        """Return the outputs for a dict of inputs: numbers, strings, arrays, tensors, and dicts and lists of them.

        Raises:
            ArgumentError: the inputs do not fit, or one requires grad and is not differentiable.
            RemoteError: the server has failed, or has no derivatives, and an input requires grad.
            WorkerLostError: the server does not answer.
        """
        if not isinstance(inputs, Mapping):
            hint = 'write await solver({"x": x})'
            raise ArgumentTypeError(must_be("what a Tesseract is called with", "a dict of its inputs", inputs, hint))
        if self._schema is None:
            self._schema = schema_of(self._server, await self._server.ask("/openapi.json", None))
        call = Call(self._server, self._schema, inputs)
        tensors: list[Tensor] = []

        def collect(keys: Keys, tensor: Tensor) -> None:
            tensors.append(tensor)
            call.note_input(keys, tensor)

        map_leaves(inputs, _is_tensor, collect)
        arrays = iter(await Apply.apply(call, *tensors))
        outputs: dict[str, Any] = map_leaves(call.reply, is_array, lambda *_: next(arrays))
        return outputs

    def _refusal(self, status: int, text: str) -> Exception | None:
        if status == 422:
            return ArgumentError(f"{self._server.what} says that its inputs do not fit: {text[:1000]}")
        return None

    def __deepcopy__(self, memo: object) -> Self:
        """Return this object: the copy of a module that has it asks the same server, through the same client."""
        return self

    def __repr__(self) -> str:
        return f"<tesseract.Tesseract: {self._server.what}>"


@final
class Call:
    """One call of a Tesseract: its inputs, of which some are tensors, and its outputs.

    Args:
        server: what is asked.
        schema: what the Tesseract declares.
        inputs: the tree of inputs.
    """

    __slots__ = ("_inputs", "_schema", "_server", "input_paths", "output_paths", "outputs", "reply")

    def __init__(self, server: JsonServer, schema: Schema, inputs: Mapping[str, object]) -> None:
        self._server, self._schema = server, schema
        #: The inputs as they are sent, but for tensors. Now, since the caller may write into arrays and dicts later.
        self._inputs = map_leaves(
            inputs, _has_numbers, lambda _, leaf: leaf if _is_tensor(leaf) else encode(np.asarray(leaf))
        )
        #: What the protocol calls each tensor among the inputs, and each array in the reply; None for one without
        #: derivatives.
        self.input_paths: list[str | None] = []
        self.output_paths: list[str | None] = []
        #: The shape and the dtype of each array in the reply.
        self.outputs: list[tuple[tuple[int, ...], np.dtype[Any]]] = []
        #: The tree of outputs, as it came.
        self.reply: Any = None

    def note_input(self, keys: Keys, tensor: Tensor) -> None:
        """Note a tensor among the inputs.

        Raises:
            ArgumentError: it requires grad, and the Tesseract is not differentiable by it.
            RemoteError: it requires grad, and the Tesseract has no derivatives.
        """
        path = self._schema.input_path(keys)
        self.input_paths.append(path)
        if not (tensor.requires_grad and is_grad_enabled()):
            return
        name = ".".join(map(str, keys))
        if path is None:
            raise ArgumentError(
                f"input {name!r} requires grad, and {self._server.what} is differentiable by "
                f"{', '.join(self._schema.inputs) or 'nothing'}: pass it as x.detach()"
            )
        if _VJP not in self._schema.endpoints:
            raise RemoteError(
                f"input {name!r} requires grad, and {self._server.what} has no {_VJP}: define it in its "
                "tesseract_api.py, or pass x.detach()"
            )

    async def apply(self, tensors: Sequence[Tensor]) -> list[Array]:
        """Ask for the outputs, and return the arrays among them."""
        self.reply = await self._ask("apply", tensors)
        if not isinstance(self.reply, dict):
            self._server.complain("/apply", "a dict of outputs", self.reply)
        arrays: list[Array] = []

        def collect(keys: Keys, leaf: object) -> None:
            array = decode(self._server, "/apply", leaf)
            arrays.append(array)
            self.output_paths.append(self._schema.output_path(keys))
            self.outputs.append((array.shape, array.dtype))

        try:
            map_leaves(self.reply, is_array, collect)
        except RecursionError:
            self._server.complain("/apply", "a tree that is not nested so deeply", self.reply)
        return arrays

    async def product(
        self, kind: str, points: Sequence[Tensor], vectors: Mapping[int, Tensor], results: Sequence[int]
    ) -> list[Array]:
        """Ask for a product with the Jacobian at the point.

        Args:
            kind: `vector_jacobian_product` or `jacobian_vector_product`.
            points: the tensors among the inputs.
            vectors: by the number of the output, or of the input, that each belongs to.
            results: the numbers of the inputs, or of the outputs, of which it is.
        """
        if kind not in self._schema.endpoints:
            raise RemoteError(
                f"{self._server.what} has no {kind}, which the derivative of a gradient by its vector needs: define it "
                "in its tesseract_api.py"
            )
        by_vectors, given, wanted = _WORDS[kind]
        of_vectors, of_results = self.output_paths, self.input_paths
        likes = [(point.shape, point.dtype) for point in points]
        if kind == _JVP:
            of_vectors, of_results, likes = of_results, of_vectors, self.outputs
        names = [of_results[index] for index in results]
        fields = {
            given: [of_vectors[index] for index in vectors],
            wanted: names,
            by_vectors: {of_vectors[index]: encode(vector.numpy()) for index, vector in vectors.items()},
        }
        reply = await self._ask(kind, points, **fields)
        found = []
        for name, (shape, dtype) in zip(names, (likes[index] for index in results), strict=True):
            array = decode(self._server, f"/{kind}", reply.get(name) if isinstance(reply, dict) else reply)
            if array.shape != shape or not np.can_cast(array.dtype, dtype, "same_kind"):
                given = f"{array.dtype} of shape {array.shape}"
                self._server.complain(f"/{kind}", f"an array of {dtype} and shape {shape} for {name}", given)
            found.append(array.astype(dtype))
        return found

    async def _ask(self, endpoint: str, tensors: Sequence[Tensor], **fields: object) -> Any:
        given = iter(tensors)
        inputs = map_leaves(self._inputs, _is_tensor, lambda *_: encode(next(given).numpy()))
        return await self._server.ask(f"/{endpoint}", {"inputs": inputs, **fields})


def _is_tensor(leaf: object) -> bool:
    return isinstance(leaf, Tensor)


def _has_numbers(leaf: object) -> bool:
    """Tell whether a leaf is a tensor or an array; a string of NumPy's is one of Python's."""
    return isinstance(leaf, (Tensor, np.ndarray, np.generic)) and not isinstance(leaf, str)


@final
class Apply(Function):
    """The arrays among the outputs of a Tesseract."""

    concurrent = True
    is_memoized = True

    @staticmethod
    async def forward(ctx: Any, call: Call, *tensors: Tensor) -> tuple[Array, ...]:
        """Ask for the value."""
        ctx.save_for_backward(*tensors)
        ctx.set_materialize_grads(False)
        ctx.call = call
        arrays = await call.apply(tensors)
        fixed = [array for array, path in zip(arrays, call.output_paths, strict=True) if path is None]
        ctx.mark_non_differentiable(*fixed)
        return tuple(arrays)

    @staticmethod
    async def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        """Ask for the product of the gradients that there are with the Jacobian, by the inputs that need theirs."""
        points = await ctx.load_saved()
        wanted = wanted_inputs(len(points))
        if is_grad_enabled():
            points = [NoSecondDerivative.apply(point) if point.requires_grad else point for point in points]
        vectors = {index: grad for index, grad in enumerate(grads) if grad is not None}
        if not vectors:
            # The protocol has no product with nothing.
            return (None, *(None for _ in points))
        results = tuple(index for index, is_wanted in enumerate(wanted) if is_wanted)
        found = iter(await Product.apply(ctx.call, _VJP, tuple(vectors), results, *vectors.values(), *points))
        return None, *(next(found) if is_wanted else None for is_wanted in wanted)


@final
class Product(Function):
    """A product of vectors with the Jacobian, from the left or from the right; each is the derivative of the other."""

    concurrent = True
    is_memoized = True

    @staticmethod
    async def forward(
        ctx: Any, call: Call, kind: str, owners: tuple[int, ...], results: tuple[int, ...], *tensors: Tensor
    ) -> tuple[Array, ...]:
        """Ask for it; the tensors are the vectors, which belong to `owners`, and the point."""
        ctx.save_for_backward(*tensors)
        ctx.set_materialize_grads(False)
        ctx.call, ctx.kind, ctx.owners, ctx.results = call, kind, owners, results
        vectors, points = tensors[: len(owners)], tensors[len(owners) :]
        return tuple(await call.product(kind, points, dict(zip(owners, vectors, strict=True)), results))

    @staticmethod
    async def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | Array | None, ...]:
        """Ask for the other product; the derivative by the point is that of `NoSecondDerivative`."""
        tensors = await ctx.load_saved()
        count = len(ctx.owners)
        wanted, points = wanted_inputs(len(tensors)), tensors[count:]
        found: Sequence[Tensor | None] = [None] * count
        if any(wanted[:count]):
            other = _JVP if ctx.kind == _VJP else _VJP
            given = {index: grad for index, grad in zip(ctx.results, grads, strict=True) if grad is not None}
            if given:
                found = await Product.apply(ctx.call, other, tuple(given), ctx.owners, *given.values(), *points)
        zeros = [
            np.zeros(point.shape, point.dtype) if is_wanted else None
            for point, is_wanted in zip(points, wanted[count:], strict=True)
        ]
        return None, None, None, None, *found, *zeros


@final
class NoSecondDerivative(Function):
    """A tensor by which a gradient cannot be differentiated: a backward that reaches it raises."""

    @staticmethod
    def forward(ctx: Any, point: Tensor) -> Tensor:
        """Return the tensor."""
        return point

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> None:
        """Raise: the protocol has no second derivatives."""
        raise GraphError(
            "the protocol of Tesseracts has no second derivatives: leave create_graph=True out, or compute the "
            "gradient inside of the Tesseract, as one of its outputs"
        )
