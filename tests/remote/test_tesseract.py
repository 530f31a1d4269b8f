"""Tesseracts, served on a real socket: by `tesseract-core` where its runtime is installed, and by a stand-in."""

from __future__ import annotations

import importlib.util
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

pytest.importorskip("httpx", reason="needs httpx: pip install 'asyncgrad[tesseract]'")
pytest.importorskip("uvicorn", reason="needs uvicorn: pip install 'asyncgrad[serve]'")
pytest.importorskip("starlette", reason="needs Starlette: pip install 'asyncgrad[serve]'")

import httpx

import asyncgrad as ag
from asyncgrad.errors import ArgumentError, ArgumentTypeError, GraphError, RemoteError
from asyncgrad.remote.tesseract import Tesseract
from tests.remote.serving import serving_app
from tests.remote.tesseract_stand_in import stand_in
from tests.support.loops import one_loop

pytestmark = one_loop

#: What the server has been asked for.
asked: list[str] = []


def jacobian(inputs: dict[str, Any]) -> dict[str, Any]:
    """Return the derivative of y = scale sin(x) b, by each input."""
    x, scale, b = inputs["x"], inputs["scale"], inputs["more"]["b"]
    return {
        "x": np.diag(scale * np.cos(x) * b),
        "scale": (np.sin(x) * b)[:, None],
        "more.{b}": np.diag(scale * np.sin(x)),
    }


def apply(inputs: dict[str, Any]) -> dict[str, Any]:
    return {"y": np.asarray(inputs["scale"] * np.sin(inputs["x"]) * inputs["more"]["b"]), "steps": inputs["steps"]}


def vector_jacobian_product(inputs: Any, vjp_inputs: Any, vjp_outputs: Any, cotangent_vector: Any) -> dict[str, Any]:
    asked.append("vjp of " + " ".join(sorted(vjp_inputs)))
    found = {name: cotangent_vector["y"] @ jacobian(inputs)[name] for name in vjp_inputs}
    return {name: one[0] if name == "scale" else one for name, one in found.items()}


def jacobian_vector_product(inputs: Any, jvp_inputs: Any, jvp_outputs: Any, tangent_vector: Any) -> dict[str, Any]:
    asked.append("jvp of " + " ".join(sorted(jvp_inputs)))
    return {"y": sum(jacobian(inputs)[name] @ np.atleast_1d(tangent_vector[name]) for name in jvp_inputs)}


FUNCTIONS = (apply, vector_jacobian_product, jacobian_vector_product)


def by_the_package(*functions: Callable[..., Any]) -> Any:
    from pydantic import BaseModel
    from tesseract_core.runtime import Array, Differentiable, Float64
    from tesseract_core.runtime.serve import create_rest_api

    vector: Any = Differentiable[Array[(None,), Float64]]
    inputs = {"x": vector, "scale": Differentiable[Float64], "more": dict[str, vector], "steps": int}
    api: Any = types.ModuleType("tesseract_api")
    api.InputSchema = type("InputSchema", (BaseModel,), {"__annotations__": inputs})
    api.OutputSchema = type("OutputSchema", (BaseModel,), {"__annotations__": {"y": vector, "steps": int}})

    def takes_a_model(function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda inputs, *args, **fields: function(inputs.model_dump(), *args, **fields)

    for function in functions:
        setattr(api, function.__name__, takes_a_model(function))
    return create_rest_api(api)


def by_the_stand_in(*functions: Callable[..., Any]) -> Any:
    return stand_in((["x", "scale", "more.{}"], ["y"]), {one.__name__: one for one in functions})


@pytest.fixture(params=["stand-in", pytest.param("tesseract-core", marks=pytest.mark.slow)])
def app_of(request, tmp_path, monkeypatch):
    if request.param == "stand-in":
        yield by_the_stand_in
        return
    if importlib.util.find_spec("tesseract_core") is None or importlib.util.find_spec("lz4") is None:
        pytest.skip("needs its server: pip install 'tesseract-core[runtime]'")
    from tesseract_core.runtime.config import override_config, update_config

    with override_config():
        # It writes a folder for each request.
        update_config(output_path=str(tmp_path))
        yield by_the_package


def leaf(*numbers: float) -> ag.Tensor:
    return ag.tensor(numbers if len(numbers) > 1 else numbers[0], requires_grad=True)


async def test_the_first_derivatives_are_those_of_finite_differences_and_second_ones_are_refused(app_of):
    x, scale, b = leaf(0.3, -0.7), leaf(1.5), leaf(2.0, 0.5)
    async with serving_app(app_of(*FUNCTIONS)) as url, httpx.AsyncClient(base_url=url) as client:
        solve = Tesseract(client)

        async def y(x, scale, b):
            return (await solve({"x": x, "scale": scale, "more": {"b": b}, "steps": 3}))["y"]

        answer = await solve({"x": x, "scale": 2.0, "more": {"b": b}, "steps": 3})
        assert (answer["y"].tolist(), answer["steps"]) == ((2.0 * np.sin(x.detach()) * b.detach()).tolist(), 3)
        assert await ag.gradcheck(y, (x, scale, b))
        asked.clear()
        await ag.grad((await y(x, scale, b)).sum(), [scale])
        assert asked == ["vjp of scale"]
        _, tangent = await ag.jvp(lambda x: y(x, scale.detach(), b.detach()), x, np.ones(2))
        assert asked == ["vjp of scale", "vjp of x", "jvp of x"]
        np.testing.assert_allclose(tangent.numpy(), 1.5 * np.cos(x.detach()) * b.detach())
        (first,) = await ag.grad((await y(x, scale, b)).sum(), [x], create_graph=True)
        with pytest.raises(GraphError, match="no second derivatives"):
            await first.sum().backward()


async def test_a_gradient_is_that_of_the_call_whatever_is_written_into_its_inputs_later():
    x, b = leaf(0.3, -0.7), np.array([2.0, 0.5])
    inputs = {"x": x, "scale": 1.5, "more": {"b": b}, "steps": 3}
    async with serving_app(by_the_stand_in(*FUNCTIONS)) as url, httpx.AsyncClient(base_url=url) as client:
        answer = await Tesseract(client)(inputs)
        b *= 10.0
        inputs["scale"] = 7.0
        await answer["y"].sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 1.5 * np.cos(x.detach()) * [2.0, 0.5])


async def test_what_a_tesseract_does_not_have_is_said_with_what_to_write_instead():
    inputs = {"x": leaf(0.3, -0.7), "scale": 1.5, "more": {"b": [2.0, 0.5]}, "steps": 3}
    async with serving_app(by_the_stand_in(apply)) as url, httpx.AsyncClient(base_url=url) as client:
        solve = Tesseract(client)
        with pytest.raises(ArgumentError, match=r"'steps' requires grad, and the Tesseract .* by x, scale, more.{}"):
            await solve(inputs | {"x": [1.0], "steps": leaf(3.0)})
        with pytest.raises(RemoteError, match=r"'x' requires grad, and .* has no vector_jacobian_product"):
            await solve(inputs)
        with pytest.raises(TypeError, match=r"a dict of its inputs, not Tensor .* write await solver\(\{"):
            await solve(leaf(1.0))  # type: ignore[arg-type]
        with pytest.raises(ArgumentError, match=r"inputs do not fit: .*Field required"):
            await solve({"x": 1.0})
    for answer in ({"y": {"object_type": "array"}}, {"y": _file(), "steps": 3}):
        transport = httpx.MockTransport(lambda request, answer=answer: _answer(request, answer))
        async with httpx.AsyncClient(transport=transport, base_url="http://t") as client:
            with pytest.raises(RemoteError, match="must answer /apply with arrays of numbers, as JSON or base64"):
                await Tesseract(client)({"x": 1.0})


_DEEP = 600 if sys.version_info < (3, 12) else 5000
_TOO_DEEP = r"(must answer /apply with a tree that is not nested so deeply|answers /apply .*maximum recursion depth)"


@pytest.fixture
def recursion_limit() -> Iterator[None]:
    """Set Python's own limit: Hypothesis raises it, and other tests of the process have used that."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(1000)
    yield
    sys.setrecursionlimit(before)


def _array(values: Any, dtype: str = "float64", **others: Any) -> dict[str, Any]:
    data = {"buffer": values, "encoding": "json"}
    return {"object_type": "array", "shape": [len(values)], "dtype": dtype, "data": data, **others}


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ({"y": _array([10**400], "int64")}, "must answer /apply with arrays of numbers, as JSON or base64"),
        ({"y": _array([300], "uint8")}, "must answer /apply with arrays of numbers, as JSON or base64"),
        ({"y": _array(["1.5"])}, "must answer /apply with arrays of numbers, as JSON or base64"),
        # Most versions of Python read as many levels, and the frames of functions are used up before.
        (_DEEP * '{"y":' + "1" + _DEEP * "}", _TOO_DEEP),
    ],
    ids=["huge", "out of range", "text", "deep"],
)
async def test_an_answer_that_no_array_can_hold_is_an_error_that_names_the_server(answer, words, recursion_limit):
    transport = httpx.MockTransport(lambda request: _answer(request, answer))
    async with httpx.AsyncClient(transport=transport, base_url="http://t") as client:
        with pytest.raises(RemoteError, match=f"the Tesseract at http://t {words}"):
            await Tesseract(client)({"x": 1.0})


@pytest.mark.parametrize("array", [np.array([None]), np.array(["a"]), np.ones(1, np.longdouble)], ids=str)
async def test_an_array_that_the_protocol_has_not_is_never_sent(array):
    paths = []

    def answer(request: httpx.Request) -> httpx.Response:
        paths.append(request.url.path)
        return _answer(request, {"y": 1})

    async with httpx.AsyncClient(transport=httpx.MockTransport(answer), base_url="http://t") as client:
        with pytest.raises(ArgumentTypeError, match=r"up to int64, float64 and complex128, not ndarray.* a.tolist\(\)"):
            await Tesseract(client)({"x": array})
        # A string of NumPy's is no array.
        assert await Tesseract(client)({"x": np.str_("fast")}) == {"y": 1}
    assert paths == ["/openapi.json", "/openapi.json", "/apply"]


async def test_a_complex_product_for_a_real_input_is_refused():
    reply = _array([1.0, 2.0]) | {"dtype": "complex128"}
    answers = {"/apply": {"y": _array([1.0, 2.0])}, "/vector_jacobian_product": {"x": reply}}

    def answer(request: httpx.Request) -> httpx.Response:
        return _answer(request, answers.get(request.url.path), [*answers])

    async with httpx.AsyncClient(transport=httpx.MockTransport(answer), base_url="http://t") as client:
        out = await Tesseract(client)({"x": leaf(1.0, 2.0)})
        with pytest.raises(RemoteError, match=r"array of float64 and shape \(2,\) for x, and answers .*complex128"):
            await out["y"].sum().backward()


@pytest.mark.parametrize("declared", [["x"], "x", None])
async def test_a_schema_that_is_none_is_an_error_that_names_the_server(declared):
    def answer(request: httpx.Request) -> httpx.Response:
        return _answer(request, {"y": 1}, declared=declared)

    async with httpx.AsyncClient(transport=httpx.MockTransport(answer), base_url="http://t") as client:
        with pytest.raises(RemoteError, match=r"must answer /openapi\.json with the schema of a Tesseract"):
            await Tesseract(client)({"x": 1.0})


def _file() -> dict[str, Any]:
    data = {"buffer": "/etc/passwd:0", "encoding": "binref"}
    return {"object_type": "array", "shape": [2], "dtype": "float64", "data": data}


def _answer(
    request: httpx.Request, answer: Any, paths: Any = ("/apply",), declared: Any = MappingProxyType({"x": {}, "y": {}})
) -> httpx.Response:
    content = {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/A"}}}}
    of_apply = {"post": {"requestBody": content, "responses": {"200": content}}}
    fields = {"differentiable_arrays": dict(declared) if isinstance(declared, Mapping) else declared}
    schema = {"paths": dict.fromkeys(paths, of_apply), "components": {"schemas": {"A": fields}}}
    if isinstance(answer, str) and request.url.path != "/openapi.json":
        return httpx.Response(200, text=answer)
    return httpx.Response(200, json=schema if request.url.path == "/openapi.json" else answer)
