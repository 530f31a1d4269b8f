"""Mistakes of those who know PyTorch, JAX, NumPy or HIPS autograd: each error names the thing and the line to write."""

from __future__ import annotations

import asyncio
import importlib.util
import inspect
import json
import math
import re
from collections.abc import Coroutine, Iterator
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
import asyncgrad.numpy as anp
from asyncgrad import nn, optim
from asyncgrad.core.settings.elsewhere import (
    CONTEXT_ATTRIBUTES,
    JIT_ATTRIBUTES,
    MODULE_ATTRIBUTES,
    NODE_ATTRIBUTES,
    OPTIMIZER_ATTRIBUTES,
    PROFILE_ATTRIBUTES,
    TENSOR_ATTRIBUTES,
)
from asyncgrad.interop import other_names


@pytest.fixture
def names() -> Iterator[dict[str, Any]]:
    """What a mistake is written with: `x` and `y` are leaves that require grad, `value` is an `async def`."""
    coroutines: list[Coroutine[Any, Any, Any]] = []

    async def value(number: Any = 1.0) -> Any:
        return number

    def called(*args: Any) -> Coroutine[Any, Any, Any]:
        coroutines.append(value(*args))
        return coroutines[-1]

    x = ag.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    y = ag.tensor(2.0, requires_grad=True)
    known = {
        "x": x,
        "y": y,
        "value": called,
        "called": called,
        "model": nn.Linear(2, 2),
        "node": (y * 1).grad_fn,
        "rng": np.random.default_rng(0),
    }
    yield {"ag": ag, "anp": anp, "nn": nn, "optim": optim, "np": np, "math": math, **known}
    for coroutine in coroutines:
        coroutine.close()


#: By the line, what its error names, and what it says to write.
MISTAKES = {
    # PyTorch's names of functions and modules.
    "ag.zeros(3)": ("'zeros'", "write np.zeros"),
    "ag.float32": ("'float32'", "write np.float32"),
    "ag.cat([x, x])": ("'cat'", "write np.concatenate"),
    "ag.randn(3)": ("'randn'", "default_rng(seed)", "rng.standard_normal(shape)"),
    "ag.manual_seed(0)": ("'manual_seed'", "write ag.random.seed"),
    "ag.inference_mode()": ("'inference_mode'", "with ag.no_grad():"),
    "ag.autograd.grad": ("'autograd'", "ag.grad"),
    "ag.cuda.is_available()": ("'cuda'", 'x.to("cuda:0")'),
    "ag.compile(print)": ("'compile'", "write ag.jit"),
    "ag.from_numpy(np.ones(2))": ("'from_numpy'", "write ag.asarray"),
    "ag.erf(x)": ("'erf'", "write asyncgrad.scipy.special.erf"),
    "ag.svd(x)": ("'svd'", "write np.linalg.svd"),
    "ag.lu_solve(x, x, x)": ("'lu_solve'", "write asyncgrad.scipy.linalg.lu_solve"),
    "anp.linalg.inv_ex(x)": ("'inv_ex'", "write np.linalg.inv"),
    "nn.upsample(x, 2)": ("'upsample'", "write ag.nn.interpolate"),
    "ag.softmax(x)": ("'softmax'", "write ag.nn.softmax"),
    "ag.save(model, 'model.pt')": ("'save'", "nn.save_safetensors(model.state_dict(), path)"),
    "ag.utils.data": ("'utils'", "ag.data.batches", "ag.checkpoint"),
    "ag.no_grads()": ("'no_grads'", "Did you mean ag.no_grad?"),
    "nn.functional.relu(x)": ("'relu'", "write ag.nn.relu"),
    "nn.ReLu()": ("'ReLu'", "Did you mean ag.nn.ReLU?"),
    "nn.CrossEntropy()": ("'CrossEntropy'", "Did you mean ag.nn.CrossEntropyLoss?"),
    "nn.SGD([x])": ("'SGD'", "write ag.optim.SGD"),
    "nn.utils.clip_grad_norm_([x], 1.0)": ("'clip_grad_norm_'", "write ag.optim.clip_grad_norm"),
    "nn.utils.weight_norm(model)": ("'weight_norm'", "write ag.nn.utils.parametrizations.weight_norm"),
    "nn.utils.remove_weight_norm(model)": ("'remove_weight_norm'", "write ag.nn.utils.parametrize.remove_parametriz"),
    "nn.utils.fuse_conv_bn_eval(model, model)": ("'fuse_conv_bn_eval'", "write ag.nn.Sequential(layer, norm)"),
    "nn.utils.parametrize.cached()": ("'cached'", "write weight = module.weight"),
    "nn.init.kaiming_normal(x)": ("'kaiming_normal'", "Did you mean ag.nn.init.kaiming_normal_?"),
    "optim.lr_scheduler": ("'lr_scheduler'", "write ag.optim.schedule"),
    "optim.AdamMax([x])": ("'AdamMax'", "ag.optim.Ada"),
    "optim.schedule.LRScheduler": ("'LRScheduler'", "write ag.optim.schedule.Schedule"),
    "ag.data.DataLoader": ("'DataLoader'", "write ag.data.batches(arrays, batch_size)"),
    "from asyncgrad import zeros": ("'zeros'", "'asyncgrad'", "write np.zeros"),
    "from asyncgrad.nn.functional import relu": ("'relu'", "'asyncgrad.nn.functional'", "write ag.nn.relu"),
    "from asyncgrad.optim import lr_scheduler": ("'lr_scheduler'", "write ag.optim.schedule"),
    # JAX's, NumPy's and those of HIPS autograd.
    "ag.vmap(np.sin)": ("'vmap'", "write ag.func.vmap"),
    "ag.jacrev(np.sin)": ("'jacrev'", "write ag.func.jacrev"),
    "ag.sync.vmap(np.sin)": ("'vmap'", "write ag.sync.func.vmap"),
    "ag.func.jacobian(np.sin)": ("'jacobian'", "write ag.func.jacrev"),
    "ag.func.grad_and_value(np.sin)": ("'grad_and_value'", "write ag.func.value_and_grad"),
    "ag.lax.scan": ("'lax'", "Python's own if, for and while"),
    "ag.random.PRNGKey(0)": ("'PRNGKey'", "write ag.random.seed(seed)"),
    "ag.random.normal(0, 1)": ("'normal'", "rng.normal(mean, std, shape)"),
    "ag.tree.tree_map(print, x)": ("'tree_map'", "write ag.tree.map"),
    "ag.stop_gradient(x)": ("'stop_gradient'", "write x.detach()"),
    "ag.custom_vjp(print)": ("'custom_vjp'", "ag.Function"),
    "ag.elementwise_grad(np.sin)": ("'elementwise_grad'", "write ag.func.elementwise_grad"),
    "ag.extend.defvjp": ("'defvjp'", "write ag.extend.derivative"),
    "anp.unsqueeze(x, 0)": ("'unsqueeze'", "write np.expand_dims"),
    "anp.expand_dim(x, 0)": ("'expand_dim'", "Did you mean ag.numpy.expand_dims?"),
    # Methods.
    "x.unsqueeze(0)": ("'unsqueeze'", "write np.expand_dims(x, axis)"),
    "x.view(-1)": ("'view'", "write x.reshape(shape)"),
    "x.permute(1, 0)": ("'permute'", "write x.transpose(axes)"),
    "x.cpu()": ("'cpu'", 'write x.to("cpu")'),
    "x.numel()": ("'numel'", "write x.size"),
    "x.exp()": ("'exp'", "write np.exp(x)"),
    "x.norm()": ("'norm'", "write np.linalg.norm(x)"),
    "x.zero_()": ("'zero_'", "write x[...] = 0"),
    "x.float()": ("'float'", "write x.astype(np.float32)"),
    "x.data -= 1": ("'data'", "x.detach()", "x[...] = values"),
    "x.data = 1": ("'data'", "x.detach()", "x[...] = values"),
    "x.at[0].set(1)": ("'at'", "write x[index] = values"),
    "model.cuda()": ("'cuda'", 'write model.to("cuda:0")'),
    "model.type(np.float32)": ("'type'", "write model.to(dtype)"),
    "model.bfloat16()": ("'bfloat16'", "write model.half()"),
    "model.flatten_parameters()": ("'flatten_parameters'", "write nothing: the parameters of a recurrent layer"),
    "optim.Adam([x], learning_rate=0.1)": ("Adam has no option 'learning_rate'", "write lr=0.1"),
    "optim.SGD([x]).minimize(y)": ("'minimize'", "await loss.backward()", "optimizer.step()"),
    "ag.sync.run(value())": ("'run'", "write ag.run"),
    "ag.func.checkpoint(print)": ("'checkpoint'", "write ag.checkpoint"),
    # A coroutine in place of its result.
    "y + value()": ("add", "the coroutine value(...)", "write await value(...)"),
    "value() * y": ("multiply", "the coroutine value(...)", "write await value(...)"),
    "y == value()": ("==", "write await value(...)"),
    "x @ value(x)": ("matmul", "write await value(...)"),
    "x[value(0)]": ("t[index]", "write await value(...)"),
    "x.copy().__setitem__(0, value())": ("t[index] = value", "write await value(...)"),
    "np.stack([x, value(x)])": ("numpy.stack", "write await value(...)", "asyncio.gather"),
    "np.where(x > 0, x, value())": ("numpy.where", "write await value(...)"),
    "anp.stack([value(), value()])": ("asyncgrad.numpy", "write await value(...)"),
    "anp.exp(value())": ("exp", "write await value(...)"),
    "x * np.stack([value(), value()])": ("multiply", "write await value(...)"),
    "ag.tensor([value()])": ("a tensor", "write await value(...)"),
    "nn.relu(value(x))": ("nn.relu", "write await value(...)"),
    "model(value(x))": ("linear", "write await value(...)"),
    "nn.mse_loss(value(x), x)": ("nn", "write await value(...)"),
    "ag.sync.backward(value(y))": ("root 0", "write await value(...)"),
    "optim.SGD([value(x)])": ("parameter 0", "write await value(...)"),
    "optim.SGD([x], lr=value())": ("lr", "write await value(...)"),
    # Tensors.
    "ag.Tensor([1.0])": ("Tensor(...)", "write ag.tensor(data)"),
    "ag.tensor([1, 2], requires_grad=True)": ("int64", "t.astype(float)"),
    "ag.tensor([[1.0], [1.0, 2.0]])": ("data[1]", "pad the shorter ones"),
    "ag.tensor(1, 2, 3)": ("3 arguments", "write ag.tensor([1, 2, 3])"),
    "ag.tensor([1.0], np.float32)": ("2 arguments", "dtype=np.float32"),
    "np.stack(x, x)": ("axis of numpy.stack", "write np.stack([x, y])"),
    "np.concatenate(x, x)": ("axis of numpy.concatenate", "write np.concatenate([x, y])"),
    "y + None": ("add", "None", "return"),
    "y + x.sum": ("add", "the method sum", "write x.sum()"),
    "model(x.numpy)": ("linear", "the method numpy", "write x.numpy()"),
    "y * '2'": ("multiply", "str '2'"),
    "x.to(np.float32)": ("float32", "write t.astype(np.float32)"),
    "x += 1": ("leaf", "no_grad"),
    "np.array([y, y])": ("requires grad", "np.stack"),
    "math.sin(y)": ("requires grad", "np.sin"),
    "[1, 2, 3][y]": ("requires grad", "t.astype(int)"),
    "rng.normal(y)": ("requires grad", "asyncgrad.numpy.random.default_rng(seed)"),
    "np.random.RandomState(0).normal(y)": ("requires grad", "asyncgrad.numpy.random.default_rng(seed)"),
    "ag.random.generator().normal(y)": ("requires grad", "asyncgrad.numpy.random.default_rng(seed)"),
    # PyTorch's names of arguments.
    "x.sum(dim=0)": ("x.sum(dim=0)", "write x.sum(axis=0)"),
    "x.mean(dim=1, keepdim=True)": ("write x.mean(axis=1, keepdims=True)",),
    "x.std(unbiased=False)": ("unbiased=False", "write x.std(ddof=0)"),
    "nn.softmax(x, dim=1)": ("nn.softmax(x, dim=1)", "write nn.softmax(x, axis=1)"),
    "nn.topk(x, 1, dim=-1)": ("write nn.topk(x, k, axis=-1)",),
    # Gradients, models and optimizers.
    "ag.sync.backward(x * 2)": ("root 0", "(2, 2)", ".sum()"),
    "ag.sync.backward(ag.tensor(1.0))": ("root 0", "requires_grad=True"),
    "ag.sync.grad(lambda t: t, y)": ("function", "write ag.func.grad(f)"),
    "ag.sync.func.grad(y)": ("ag.func.grad", "write ag.func.grad(fn, ...)"),
    "ag.sync.func.grad(lambda t: t)(np.ones(2))": ("(2,)", ".sum()"),
    "ag.sync.func.grad(lambda t: t.item())(2.0)": ("float 2.0", "Return the tensor itself"),
    "ag.run(value)": ("ag.run", "call it"),
    "model.parameters()[0]": ("parameters()", "write list(model.parameters())[0]"),
    "nn.ReLU(x)": ("nn.ReLU", "write nn.ReLU()(input)"),
    "nn.MSELoss(x)": ("nn.MSELoss", "write nn.MSELoss()(input)"),
    "nn.CrossEntropyLoss(x, x)": ("nn.CrossEntropyLoss", "write nn.CrossEntropyLoss()(input, target)"),
    "optim.SGD([x]).step(y)": ("grads of step()", "await loss.backward(), then optimizer.step()"),
    "optim.SGD([x]).lr = 0.1": ("'lr'", 'write optimizer.param_groups[0]["lr"]'),
    "ag.no_grad(x)": ("a mode decorates functions", "write `with`"),
    "nn.Sequential([model])": ("Sequential", "write nn.Sequential(*modules)"),
    "optim.SGD(model.parameters)": ("params", "call it"),
    "optim.SGD(x)": ("params", "pass [t]"),
    "optim.SGD([x * 2])": ("parameter 0", "leaves", ".requires_grad_()"),
    # What takes a function, a block or a name, and is given something else.
    "ag.checkpoint(x)": ("ag.checkpoint", "Tensor of shape (2, 2)", "write ag.checkpoint(fn, x)"),
    "ag.jit(print, static_argnums=0)": ("'static_argnums'", "write static='name'"),
    "ag.limit(3)": ("ag.limit", "int 3", "write ag.limit(requests=4)"),
    "ag.profile(model)": ("ag.profile", "Linear", "write with ag.profile() as prof:"),
    "ag.progress(range(3))": ("ag.progress", "range(0, 3)", "write with ag.progress():"),
    "ag.run(y)": ("ag.run", "Tensor of shape ()", "write ag.run(t.backward())"),
    "ag.data.batches(np.ones(4), np.ones(4), 2)": ("size", "(4,)", "write ag.data.batches((x, y), size)"),
    "ag.values.Text('a prompt')": ("merge", "'a prompt'", "write ag.leaf(text)"),
    "(y * 1).grad_fn.next_functions": ("'next_functions'", "write node.next_edges"),
    "ag.profile().key_averages()": ("'key_averages'", "write prof.table()"),
    "ag.random.seed(-1)": ("a seed", "at least 0", "-1"),
    "bool(x)": ("(2, 2)", "write t.any() or t.all()"),
    "np.sum(x, out=3)": ("out of numpy.sum", "int 3"),
    "ag.summary(model, (1, 2))": ("tuple (1, 2)", "ag.summary(model, np.ones((1, 2)))"),
    "model.apply(3)": ("fn", "int 3", "pass a function"),
    "model.load_state_dict('model.safetensors')": ("'model.safetensors'", "nn.load_safetensors(path)"),
    "nn.ModuleList(model)": ("ModuleList", "Linear", "write nn.ModuleList([module])"),
    "nn.ModuleDict([model])": ("a dict", "Linear", 'write {"name": module}'),
    "nn.Embedding(4, 2)(np.ones(2))": ("embedding", "float64", "write indices.astype(int)"),
    "nn.BatchNorm1d(2)(np.ones((1, 2)))": ("batch_norm", "(1, 2)", "write model.eval()"),
    "nn.bce_loss(x, x)": ("'bce_loss'", "write ag.nn.binary_cross_entropy"),
    "nn.Conv2d(3, 4, 3)(np.ones((1, 8, 8, 3)))": ("conv2d", "3 channels", "Write x.transpose(0, 3, 1, 2)"),
    "nn.Conv1d(3, 4, 2)(np.ones((5, 3)))": ("conv1d", "(4, 3, 2)", "Write x.transpose(1, 0)"),
    "nn.init.normal_(model.bias, std=-1)": ("the std of normal_", "at least 0"),
    "nn.init.normal_(model)": ("Linear", "module.weight"),
    "optim.SGD([x]).backward()": ("'backward'", "await loss.backward()", "optimizer.step()"),
    "optim.EMA(model)": ("'EMA'", "ag.optim.ExponentialMovingAverage"),
    # A function, a class or a module where its result belongs.
    "x + called": ("add", "the function called", "call it"),
    "called @ x": ("matmul", "the function called", "call it"),
    "x * model": ("multiply", "Linear(...)", "call it"),
    "x + {}": ("add", "not dict {}"),
    "nn.relu(nn.ReLU())": ("nn.relu", "not ReLU(...)", "call it"),
    "model(called)": ("linear", "the function called", "call it"),
    "nn.Sequential(nn.Linear, nn.ReLU)": ("Sequential", "the class Linear", "Linear(...)"),
    "ag.tensor(called)": ("a tensor holds numbers", "the function called"),
    "ag.tensor(object())": ("a tensor holds numbers", "an object of the class object"),
    "ag.jit.train_step(called, optim.SGD)": ("ag.jit.train_step", "the class SGD", "optim.Adam(params)"),
    "ag.jit.train_step(called, None, donate_argnums=0)": ("'donate_argnums'", "leave it out"),
    # One number of many.
    "float(x)": ("float()", "(2, 2)", "t.tolist() for all", "t[index].item()"),
    "int(x)": ("int()", "(2, 2)", "t[index].item()"),
    "complex(x)": ("complex()", "(2, 2)", "t[index].item()"),
    "'%.2f' % x": ("float()", "(2, 2)", "t[index].item()"),
    # Attributes of other libraries.
    "x.max(1).values": ("'values'", "after x.max(axis)"),
    "x.max(1).indices": ("'indices'", "write np.argmax(x, axis)"),
    "model.device": ("'device'", "write next(iter(model.parameters())).device"),
    "model.requires_grad": ("'requires_grad'", "write model.requires_grad_(False)"),
    "ag.jit.script(called)": ("'script'", "write @ag.jit above the function"),
    "ag.backends": ("'backends'", "np.show_config()"),
    "ag.onnx": ("'onnx'", "nn.save_safetensors"),
    "from asyncgrad import torch": ("'torch'", "write asyncgrad.interop.torch"),
    "nn.parallel": ("'parallel'", "write ag.distributed.DataParallel"),
    "optim.Adam([x], beta1=0.9)": ("Adam has no option 'beta1'", "write betas=(beta1, beta2)"),
    "ag.learn.ArraySpec(2)": ("the shape of an ArraySpec", "int 2", "write learn.ArraySpec((3,))"),
    "ag.learn.http.lifespan(model)": ("learn.http.lifespan", "Linear(...)", "learn.Learner(model, ...)"),
}


def test_there_are_sixty_mistakes_and_more():
    assert len(MISTAKES) >= 60


@pytest.mark.parametrize("line", MISTAKES)
def test_the_error_of_a_newcomers_mistake_names_the_thing_and_the_line_to_write(line: str, names: dict[str, Any]):
    try:
        exec(line, names)  # noqa: S102
    except Exception as error:
        message = str(error)
    else:
        message = "there is no error"

    assert [part for part in MISTAKES[line] if part not in message] == [], message


#: What Python and NumPy refuse before asyncgrad is asked: the notes of the errors say what to write.
REFUSED_ELSEWHERE = {
    "x.size(0)": "write x.shape for the lengths of all axes, x.shape[0] for one",
    "x.reshape(x.size(max(0, x.ndim - 2)), -1)": "write x.shape for the lengths of all axes",
    "np.ones(3).size()": "write x.shape for the lengths of all axes",
    "node.name()": "write node.name without parentheses",
    "(x + 1).T()": "write x.T without parentheses",
    "np.sum(x, dim=0)": "dim= is PyTorch's word; NumPy's functions and asyncgrad's take axis=",
    "nn.cummax(x, dim=1)": "NumPy's functions and asyncgrad's take axis=",
    "x.flatten(start_dim=1)": "take nn.Flatten(start_dim=1)",
}


@pytest.mark.parametrize("within", ["ag.run", "a forward", "a rule"])
@pytest.mark.parametrize("line", REFUSED_ELSEWHERE)
def test_an_error_of_pythons_that_passes_asyncgrad_gets_a_note_of_what_to_write(
    line: str, within: str, names: dict[str, Any]
):
    def mistaken(*_: Any) -> Any:
        return eval(line, names)  # noqa: S307

    async def main() -> Any:
        return mistaken()

    def in_a_rule() -> None:
        y = x * 1.0
        y.register_hook(mistaken)
        ag.sync.backward(y.sum())

    x = names["x"]
    model = nn.Sequential(nn.Identity())
    model.forward = mistaken
    calls = {"ag.run": lambda: ag.run(main()), "a forward": lambda: model(x), "a rule": in_a_rule}
    with pytest.raises(TypeError) as raised:
        calls[within]()

    assert REFUSED_ELSEWHERE[line] in "\n".join(raised.value.__notes__)


#: What a coroutine does wrong, by its line: the note of Python's error.
REFUSED_IN_COROUTINES = {
    "await y.backward": "write parentheses, as in await loss.backward()",
    "await model(x)": "of type Tensor: write it without await",
    "await optim.SGD([x]).step([x])": "of type NoneType: write it without await",
    "value().done()": "value(...)).done",
    "(await ag.grad(y * 1, y)).shape": "write one, = ... in place of one = ...",
    "value()[0]": "until it is awaited: write await before the call that made it",
    "one, = value()": "write await before the call that made it",
    "value() * 2": "write await before the call that made it",
    "await asyncio.gather((y * 1).backward)": "write parentheses, as in gather(loss.backward())",
    "y.numpy().backward()": "NumPy's arrays have no backward",
    "x.sum.backward()": "write parentheses, as in x.sum().backward",
    "json.dumps({'loss': y})": "write t.item() for the one number",
    "x.grad.zero_()": "write await loss.backward(), with the await",
    "x - 0.1 * x.grad": "write await loss.backward(), with the await",
    "x.grad[0]": "write await loss.backward(), with the await",
    "list(model.parameters)": "write parentheses, as in model.parameters()",
    "await asyncio.gather([value()])": "write gather(*coroutines)",
    "asyncio.create_task(y.backward)": "write parentheses, as in create_task(loss.backward())",
    "await x.numpy()": "of type ndarray: write it without await",
    "await ag.engine.serve_live()": "write async with ag.engine.serve_live():",
    "ag.summary(model)": "write their arrays, as in ag.summary(model, np.ones(shape))",
    "ag.summary(model, input_size=(1, 2))": "ag.summary(model, np.ones((1, 2)))",
}
ENTERED = {
    "with ag.no_grad": "write parentheses, as in with ag.no_grad():",
    "async with ag.no_grad()": "write with in place of async with",
    "with ag.limit(requests=1)": "write async with in place of with",
    "with ag.engine.serve_live()": "write async with in place of with",
    'with ag.device("thread:0")': "write ag.tensor(data, device=device)",
}


@pytest.mark.parametrize("line", [*REFUSED_IN_COROUTINES, *ENTERED])
def test_an_await_or_a_block_that_python_refuses_gets_a_note_of_what_to_write(line: str, names: dict[str, Any]):
    body = f"{line}: pass" if line in ENTERED else line
    names |= {"json": json, "asyncio": asyncio}
    exec(f"async def main():\n    {body}", names)  # noqa: S102
    with pytest.raises((TypeError, AttributeError)) as raised:
        ag.run(names["main"]())

    assert {**REFUSED_IN_COROUTINES, **ENTERED}[line] in raised.value.__notes__[0]


#: Functions of a user's that take other arguments than they are called with: what the note says of these.
CALLED_BY_ASYNCGRAD = {
    "x.register_hook(lambda: None)": "AccumulateGrad (leaf of shape (2, 2)) is called with 1 argument: Tensor",
    "x.register_post_accumulate_grad_hook(lambda t, g: None)": "is called with 1 argument: Tensor of shape (2, 2)",
    "Scale.forward = staticmethod(lambda x: x)": "Scale.forward is called with ctx and the 1 argument of apply",
    "Scale.backward = staticmethod(lambda grad: grad)": "is called with ctx and 1 gradient",
    "model.forward = lambda: None": "Linear.forward is called with the arguments of the module's call: self, Tensor",
    "model.register_forward_hook(lambda m: None)": "is called as hook(module, args, output)",
}


@pytest.mark.parametrize("line", CALLED_BY_ASYNCGRAD)
def test_a_function_that_takes_other_arguments_is_told_what_it_is_called_with(line: str, names: dict[str, Any]):
    class Scale(ag.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * 2

    exec(line, names | {"Scale": Scale})  # noqa: S102
    with pytest.raises(TypeError) as raised:
        ag.sync.backward(names["model"](Scale.apply(names["x"])).sum())

    assert CALLED_BY_ASYNCGRAD[line] in raised.value.__notes__[0]


@pytest.mark.parametrize("line", ["None.nothing", "0.1 * None"])
def test_a_none_that_is_no_gradient_gets_no_note(line: str, names: dict[str, Any]):
    exec(f"async def main():\n    {line}", names)  # noqa: S102
    with pytest.raises((TypeError, AttributeError)) as raised:
        ag.run(names["main"]())

    assert not hasattr(raised.value, "__notes__")


def test_an_error_within_a_hook_does_not_tell_what_the_hook_is_called_with(names: dict[str, Any]):
    def hook(_: Any) -> None:
        int("3", 10, 2)  # type: ignore[call-overload]

    names["x"].register_hook(hook)
    with pytest.raises(TypeError) as raised:
        ag.sync.backward(names["x"].sum())

    assert [note for note in raised.value.__notes__ if "is called with" in note] == []


@pytest.mark.parametrize("line", ["len(3)", "x.shape[0](1)", "y.item()()", "model.forward(dimension=1)"])
def test_another_type_error_gets_no_note(line: str, names: dict[str, Any]):
    async def main() -> Any:
        return eval(line, names)  # noqa: S307

    with pytest.raises(TypeError) as raised:
        ag.run(main())

    assert not hasattr(raised.value, "__notes__")


def test_words_that_are_refused_are_not_shown():
    shown = [inspect.signature(one).parameters for one in (ag.Tensor.sum, ag.Tensor.std, nn.softmax, nn.normalize)]

    assert [name for names in shown for name in names if name in ("dim", "keepdim")] == []


#: All that the tables of names say.
ADVICE = [
    *TENSOR_ATTRIBUTES.values(),
    *MODULE_ATTRIBUTES.values(),
    *OPTIMIZER_ATTRIBUTES.values(),
    *NODE_ATTRIBUTES.values(),
    *PROFILE_ATTRIBUTES.values(),
    *CONTEXT_ATTRIBUTES.values(),
    *JIT_ATTRIBUTES.values(),
    *other_names.ANYWHERE.values(),
    *(advice for table in other_names.HERE.values() for advice in table.values()),
]


def test_what_is_to_be_written_exists():
    path_of = re.compile(r"(?<![\w.])(?:ag|np|nn|asyncgrad)(?:\.\w+)+")
    written = {path for advice in ADVICE for path in path_of.findall(advice)}

    assert {path for path in written if not is_there(path)} == set()


def is_there(path: str) -> bool:
    if path.startswith(("asyncgrad.scipy.", "asyncgrad.interop.")):
        # Modules of SciPy take seconds to import, and PyTorch may be missing.
        return importlib.util.find_spec(".".join(path.split(".")[:3])) is not None
    found: Any = {"ag": ag, "np": np, "nn": nn, "asyncgrad": ag}[path.partition(".")[0]]
    for name in path.split(".")[1:]:
        if not hasattr(found, name):
            return False
        found = getattr(found, name)
    return True


@pytest.mark.parametrize(
    ("cls", "names"),
    [
        (ag.Tensor, TENSOR_ATTRIBUTES),
        (nn.Module, MODULE_ATTRIBUTES),
        (optim.Optimizer, OPTIMIZER_ATTRIBUTES),
        (ag.graph.Node, NODE_ATTRIBUTES),
        (ag.profile, PROFILE_ATTRIBUTES),
    ],
)
def test_attributes_that_exist_are_found_as_without_hints(cls: type, names: dict[str, str]):
    # With a __getattr__, Python looks for all others more slowly, too.
    assert not hasattr(cls, "__getattr__")
    assert [name for name in names if hasattr(cls, name)] == []


@pytest.mark.parametrize(("thing", "names"), [(ag.tensor(1.0), TENSOR_ATTRIBUTES), (nn.ReLU(), MODULE_ATTRIBUTES)])
def test_attributes_with_a_hint_are_not_there(thing: object, names: dict[str, str]):
    assert [name for name in names if hasattr(thing, name) or name in dir(thing)] == []


def test_a_module_may_have_an_attribute_for_whose_name_there_is_a_hint():
    model = nn.Linear(2, 2)
    model.cuda = 3

    assert (model.cuda, "cuda" in dir(model)) == (3, True)


def test_a_name_that_nobody_knows_is_missed_in_pythons_words():
    with pytest.raises(AttributeError, match=r"module 'asyncgrad' has no attribute 'frobnicate'$"):
        ag.frobnicate
    with pytest.raises(ImportError, match=r"cannot import name 'frobnicate' from 'asyncgrad' \("):
        from asyncgrad import frobnicate  # noqa: F401


def test_a_module_is_asked_for_a_name_that_it_does_not_have_without_an_import_error():
    assert [hasattr(module, "zeros") for module in (ag, nn, optim, ag.func, ag.data, ag.tree)] == [False] * 6
