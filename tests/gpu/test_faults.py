"""What goes wrong with a GPU is said, in words that tell what to do, and leaves everything else as it was."""

from __future__ import annotations

import asyncio
import subprocess

import numpy as np
import pytest

import asyncgrad as ag
from tests.support.gpus import GPU, ROOT, run_script, script_command

#: A kernel that writes where there is no memory, and what a program meets after it.
BROKEN = """
import asyncio
import numpy as np, cupy, asyncgrad as ag
gpu = ag.device(GPU)
x = ag.tensor([1.0, 2.0], device=gpu, requires_grad=True)
y = (x * x).sum()
gpu.synchronize()
cupy.RawKernel('extern "C" __global__ void broken(int* p) { p[threadIdx.x] = 1; }', "broken")((1,), (1,), (np.intp(8),))

async def synchronize():
    await gpu.synchronize()

async def backward():
    await y.backward()
    await gpu.synchronize()

for attempt in (
    lambda: gpu.synchronize(),
    lambda: ag.run(synchronize()),
    lambda: ag.run(backward()),
    lambda: x.to("cpu"),
    lambda: gpu.current_stream().record_event().query(),
):
    try:
        attempt()
    except Exception as error:
        print(type(error).__name__, str(error).replace(chr(10), " "))
    else:
        print("no error")
print("the gradient is", x.grad)
"""


def test_a_kernel_that_fails_is_told_by_every_way_of_waiting(cupy):
    lines = run_script(BROKEN).splitlines()

    assert len(lines) == 6
    for line in (*lines[:2], *lines[3:5]):
        assert line.startswith(f"DeviceError '{GPU}' has failed"), line
        assert "start the process anew" in line
    # An operation raises what CuPy raises.
    assert "ILLEGAL_ADDRESS" in lines[2].upper().replace("ILLEGALADDRESS", "ILLEGAL_ADDRESS")
    assert lines[5] == "the gradient is None"


FORK = """
import os
import asyncgrad as ag
x = ag.tensor([1.0], device=GPU, requires_grad=True)
ag.sync.backward((x * x).sum())
read, write = os.pipe()
child = os.fork()
if child == 0:
    said = []
    for attempt in (
        lambda: ag.tensor([1.0], device=GPU),
        lambda: x.to("cpu"),
        lambda: ag.device(GPU).synchronize(),
    ):
        try:
            attempt()
        except ag.errors.DeviceError as error:
            said.append(str(error))
        except BaseException as error:
            said.append(f"not a DeviceError: {error!r}")
        else:
            said.append("no error")
    os.write(write, chr(10).join(said).encode())
    os._exit(0)
os.close(write)
print(os.read(read, 65536).decode())
os.waitpid(child, 0)
print(x.grad.to("cpu").tolist())
"""


def test_a_child_of_fork_is_told_that_cuda_does_not_survive_a_fork(cupy):
    *said, parent = run_script(FORK).splitlines()

    assert len(said) == 3
    assert [line for line in said if "fork" not in line or "spawn" not in line] == []
    assert parent == "[2.0]"


HOLDS = """
import sys
import numpy as np, asyncgrad as ag
x = ag.tensor(np.ones(2**28), device=GPU)
ag.device(GPU).synchronize()
print("ready", flush=True)
sys.stdin.read()
"""


def test_a_process_that_is_killed_leaves_no_memory_in_use(cupy):
    free_before = cupy.cuda.runtime.memGetInfo()[0]
    with subprocess.Popen(
        script_command(HOLDS), cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "ready\n"
        free_during = cupy.cuda.runtime.memGetInfo()[0]
        process.kill()
        process.wait()
    free_after = cupy.cuda.runtime.memGetInfo()[0]

    # Other processes may use the GPU meanwhile, and take less than this one.
    assert free_before - free_during >= 2**31
    assert free_before - free_after < 2**30


async def test_a_backward_that_is_cancelled_with_work_in_flight_leaves_no_gradient_and_the_next_one_is_right(gpu, spin):
    x = ag.tensor(np.ones(1000), device=gpu, requires_grad=True)
    y, begun = np.tanh(x * 0.5) * 2, asyncio.Event()

    async def wait(grad):
        spin(gpu.current_stream())
        begun.set()
        await asyncio.get_running_loop().create_future()

    handle = y.register_hook(wait)
    loss = (y * y).sum()
    task = asyncio.ensure_future(loss.backward(retain_graph=True))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    left = x.grad
    handle.remove()
    await loss.backward()
    grad = x.grad.to("cpu").numpy()

    assert left is None
    t = np.tanh(0.5)
    np.testing.assert_allclose(grad, 4 * t * (1 - t * t), rtol=1e-12)


async def test_an_error_of_a_body_with_work_in_flight_leaves_no_gradient(gpu, spin):
    x = ag.tensor(np.ones(1000), device=gpu, requires_grad=True)
    y = x * 2

    def fail(grad):
        spin(gpu.current_stream())
        raise ValueError("as it should be")

    y.register_hook(fail)
    with pytest.raises(ValueError, match="as it should be"):
        await (y * y).sum().backward()

    assert x.grad is None


NO_GPU = """
import asyncgrad as ag
try:
    ag.device("cuda:0")
except ag.errors.DeviceError as error:
    print(error)
"""


def test_without_a_visible_gpu_the_error_says_where_to_look(cupy, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")

    assert "nvidia-smi" in run_script(NO_GPU)


def test_tensors_of_the_gpu_and_of_the_host_do_not_mix_unmoved(cupy, gpu):
    x = ag.tensor([1.0], device=gpu)

    with pytest.raises(ag.errors.DeviceError, match=r"\.to\("):
        _ = x + ag.tensor([1.0])
    with pytest.raises(ag.errors.AsyncgradError):
        _ = x + np.array([1.0])


def test_a_tensor_of_the_gpu_is_not_read_as_a_numpy_array(cupy, gpu):
    with pytest.raises((TypeError, ag.errors.AsyncgradError), match=r"\.to\(.cpu.\)|implicit"):
        np.asarray(ag.tensor([1.0], device=gpu))
