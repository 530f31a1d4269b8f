"""Models of UM-Bridge, served by the package umbridge on a real socket."""

from __future__ import annotations

import asyncio
import copy
import re
from typing import Any

import numpy as np
import pytest

pytest.importorskip("httpx", reason="needs httpx: pip install 'asyncgrad[umbridge]'")
pytest.importorskip("umbridge", reason="needs its server: pip install umbridge")

import httpx
from umbridge import Model

import asyncgrad as ag
from asyncgrad.errors import ArgumentError, ArgumentTypeError, GraphError, PayloadError, RemoteError, WorkerLostError
from asyncgrad.remote import umbridge
from asyncgrad.remote.tesseract import Tesseract
from tests.remote.serving import serving_models
from tests.support.listeners import new_listener
from tests.support.loops import one_loop

pytestmark = one_loop

x = ag.tensor([0.3, -0.7], requires_grad=True)
z = ag.tensor([0.5], requires_grad=True)


class Products(Model):
    """Two outputs of two inputs, with all derivatives of the protocol: y0 = sin(x) z, and y1 = [x·x + z·z]."""

    def __init__(self, name: str = "products", offers: tuple[str, ...] = ("gradient", "jacobian", "hessian")) -> None:
        super().__init__(name)
        self.offers = offers
        self.asked: list[str] = []

    def get_input_sizes(self, config: Any = None) -> list[int]:
        return [2, 1]

    def get_output_sizes(self, config: Any = None) -> list[int]:
        return [2, 1]

    def __call__(self, parameters: Any, config: Any = None) -> Any:
        x, z = map(np.array, parameters)
        scale = config.get("scale", 1.0)
        return [(scale * np.sin(x) * z).tolist(), [float(scale * (x @ x + z @ z))]]

    def _jacobian(self, out: int, into: int, parameters: Any) -> Any:
        x, z = map(np.array, parameters)
        if out == 0:
            return np.diag(np.cos(x) * z) if into == 0 else np.sin(x)[:, None]
        return (2 * (x if into == 0 else z))[None]

    def gradient(self, out_wrt: int, in_wrt: int, parameters: Any, sens: Any, config: Any = None) -> Any:
        self.asked.append(f"gradient {out_wrt} {in_wrt}")
        return (np.array(sens) @ self._jacobian(out_wrt, in_wrt, parameters)).tolist()

    def apply_jacobian(self, out_wrt: int, in_wrt: int, parameters: Any, vec: Any, config: Any = None) -> Any:
        self.asked.append(f"jacobian {out_wrt} {in_wrt}")
        return (self._jacobian(out_wrt, in_wrt, parameters) @ np.array(vec)).tolist()

    def apply_hessian(
        self, out_wrt: int, in_wrt1: int, in_wrt2: int, parameters: Any, sens: Any, vec: Any, config: Any = None
    ) -> Any:
        self.asked.append(f"hessian {out_wrt} {in_wrt1} {in_wrt2}")
        eps = 1e-6
        ends = []
        for sign in (1, -1):
            moved = [list(one) for one in parameters]
            moved[in_wrt2] = (np.array(moved[in_wrt2]) + sign * eps * np.array(vec)).tolist()
            ends.append(np.array(sens) @ self._jacobian(out_wrt, in_wrt1, moved))
        return ((ends[0] - ends[1]) / (2 * eps)).tolist()

    def supports_evaluate(self) -> bool:
        return True

    def supports_gradient(self) -> bool:
        return "gradient" in self.offers

    def supports_apply_jacobian(self) -> bool:
        return "jacobian" in self.offers

    def supports_apply_hessian(self) -> bool:
        return "hessian" in self.offers


@pytest.mark.slow
async def test_the_derivatives_of_a_model_are_those_of_finite_differences_to_second_order():
    async with serving_models(Products()) as url, httpx.AsyncClient(base_url=url) as client:
        model = umbridge.Model(client, "products")
        assert await ag.gradcheck(model, (x, z), check_undefined_grad=False)
        assert await ag.gradgradcheck(model, (x, z), check_undefined_grad=False)
        assert (await model.input_sizes(), await model.output_sizes()) == ([2, 1], [2, 1])


async def test_only_what_a_backward_needs_is_asked_for_and_no_more_than_once():
    products = Products()
    async with serving_models(products) as url, httpx.AsyncClient(base_url=url) as client:
        model = umbridge.Model(client, "products", config={"scale": 2.0})
        y, total = await model(x, z)
        (grad,) = await ag.grad(total.sum(), [z])
        # Its value has the scale, and its gradient has not.
        assert (y.tolist(), grad.tolist()) == ((2.0 * np.sin(x.detach().numpy()) * 0.5).tolist(), [1.0])
        assert products.asked == ["gradient 1 1"]
        products.asked.clear()
        await ag.jvp(lambda x: model(x, z.detach()), x, np.ones(2))
        assert sorted(products.asked) == ["gradient 0 0", "gradient 1 0", "jacobian 0 0", "jacobian 1 0"]


async def test_a_gradient_is_that_of_the_call_whatever_is_written_into_an_array_later():
    async with serving_models(Products()) as url, httpx.AsyncClient(base_url=url) as client:
        model = umbridge.Model(client, "products")
        array = z.detach().numpy().copy()
        before, after = (await model(x, array))[0], (await model(x, z))[0]
        array *= 10.0
        assert (await ag.grad(before.sum(), x))[0].tolist() == (await ag.grad(after.sum(), x))[0].tolist()


async def test_what_a_model_or_its_server_refuses_is_said_with_what_to_write_instead():
    models = Products(), Products("flat", offers=()), Products("once", offers=("gradient",))
    async with serving_models(*models) as url, httpx.AsyncClient(base_url=url) as client:
        model, once = umbridge.Model(client, "products"), umbridge.Model(client, "once")
        with pytest.raises(ArgumentError, match=r"InvalidInput: model 'products' at .*input_sizes\(\)"):
            await model(z, x)
        with pytest.raises(ArgumentError, match=r"ModelNotFound: .*'other'"):
            await umbridge.Model(client, "other")(x, z)
        flat = umbridge.Model(client, "flat")
        with pytest.raises(RemoteError, match=r"offers Evaluate, and Gradient is needed .*supports_gradient\(\)"):
            await flat(x, z)
        assert (await flat(x.detach(), z.detach()))[0].shape == (2,)
        with pytest.raises(RemoteError, match="ApplyHessian is needed for second derivatives"):
            await ag.hessian(lambda x: _first_sum(once, x), x)
        with pytest.raises(GraphError, match="no third derivatives"):
            await _third(model)
        with pytest.raises(ArgumentError, match="no NaN"):
            await model(np.array([1.0, np.nan]), z)
        with pytest.raises(ArgumentError, match=r"reshape\(-1\)"):
            await model(np.ones((2, 1)), z)
        with pytest.raises(ArgumentError, match="dtype complex128: pass floats"):
            await model(np.array([1j, 2.0]), z)
        for inputs in ([x, z], [[0.3, -0.7], [0.5]], [[0.3, -0.7]], (np.ones(2), np.ones(1))):
            with pytest.raises(ArgumentError, match=r"input 0 of a model .* write await model\(\*inputs\)"):
                await model(inputs)
        with pytest.raises(PayloadError, match="more than 8 bytes"):
            await umbridge.Model(client, "products", max_bytes=8)(x, z)
    with pytest.raises(ArgumentTypeError, match=r"httpx.AsyncClient\(base_url='http://a'\)"):
        umbridge.Model("http://a", "products")
    with pytest.raises(ArgumentError, match="base_url"):
        umbridge.Model(httpx.AsyncClient(), "products")
    anywhere = httpx.AsyncClient(base_url="http://a")
    wrong: Any = None
    with pytest.raises(ArgumentTypeError, match="name must be a string, not NoneType None"):
        umbridge.Model(anywhere, wrong)
    with pytest.raises(ArgumentTypeError, match="config must be a dict, not list"):
        umbridge.Model(anywhere, "products", config=[1])  # type: ignore[arg-type]
    with pytest.raises(ArgumentTypeError, match="what the decorator returns must be callable with a path and a body"):
        umbridge.Model(anywhere, "products", decorator=lambda ask: wrong)


async def test_a_copy_of_a_module_asks_the_same_server():
    class Net(ag.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.solver = umbridge.Model(httpx.AsyncClient(base_url="http://a"), "products")
            self.tesseract = Tesseract(httpx.AsyncClient(base_url="http://a"))
            self.layer = ag.nn.Linear(2, 2)

    net = Net()
    copied = copy.deepcopy(net)
    assert (copied.solver, copied.tesseract) == (net.solver, net.tesseract)
    assert copied.layer is not net.layer


async def _first_sum(model: umbridge.Model, x: ag.Tensor) -> ag.Tensor:
    return (await model(x, z.detach()))[0].sum()


async def _third(model: umbridge.Model) -> None:
    (first,) = await ag.grad(await _first_sum(model, x), [x], create_graph=True)
    (second,) = await ag.grad(first.sum(), [x], create_graph=True)
    await ag.grad(second.sum(), [x])


async def test_a_server_that_answers_nonsense_or_nothing_is_an_error_that_names_it_and_a_decorator_may_ask_again():
    nonsense = httpx.Response(200, json={"output": [["1.0"]]})
    nothing = httpx.Response(200, json={"output": []})
    answers = iter([httpx.Response(503), nonsense, httpx.Response(429), httpx.Response(500, text="?"), nothing])

    def handle(request: httpx.Request) -> httpx.Response:
        return next(answers)

    def twice(ask):
        async def asked(path, body):
            try:
                return await ask(path, body)
            except WorkerLostError:
                return await ask(path, body)

        return asked

    transport = httpx.MockTransport(handle)
    async with httpx.AsyncClient(transport=transport, base_url="http://solver") as client:
        model = umbridge.Model(client, "m", decorator=twice)
        with pytest.raises(RemoteError, match=r"model 'm' at http://solver must answer /Evaluate with a vector"):
            await model(np.ones(1))
        with pytest.raises(RemoteError, match="answers /Evaluate with 500"):
            await model(np.ones(1))
        with pytest.raises(RemoteError, match="must answer /Evaluate with a list of vectors, one or more"):
            await model(np.ones(1))
    round_trip = httpx.MockTransport(lambda request: httpx.Response(307, headers={"location": str(request.url)}))
    async with httpx.AsyncClient(transport=round_trip, base_url="http://solver", follow_redirects=True) as client:
        with pytest.raises(RemoteError, match="answers /Evaluate with what cannot be read: Exceeded maximum allowed"):
            await umbridge.Model(client, "m")(np.ones(1))
    async with httpx.AsyncClient(base_url="http://127.0.0.1:9") as client:
        with pytest.raises(WorkerLostError, match="does it run there"):
            await umbridge.Model(client, "m")(np.ones(1))


async def test_a_connection_that_the_server_has_ended_meanwhile_costs_no_answer():
    connections = []

    async def answer_once(reader, writer):
        connections.append(writer)
        head = await reader.readuntil(b"\r\n\r\n")
        (length,) = re.findall(rb"content-length: (\d+)", head.lower())
        await reader.readexactly(int(length))
        reply = b'{"output": [[1.0]]}'
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(reply), reply))
        # The next request finds the connection there, and is the last thing that is read.
        await reader.read(1)
        writer.close()

    listener = new_listener()
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    async with await asyncio.start_server(answer_once, sock=listener), httpx.AsyncClient(base_url=url) as client:
        model = umbridge.Model(client, "m")
        assert [(await model(np.ones(1)))[0].tolist() for _ in range(2)] == [[1.0], [1.0]]
        assert len(connections) == 2
        connections[1].close()
