"""A profile shows what a GPU does on each stream, and when: what overlaps, and what does not."""

from __future__ import annotations

import json
import time
from itertools import pairwise

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import optim
from asyncgrad.errors import DeviceError, ProfileError
from tests.observing.profile.trace_format import violations
from tests.support.gpus import GPU
from tests.support.loops import on_each_loop

#: What a simulated device computes on the host has to be small.
IS_SIMULATED = GPU.startswith("simulated")
#: The side of the matrices of a branch, each product of which leaves a part of a large GPU idle, and their number.
SIDE, PRODUCTS = 64 if IS_SIMULATED else 1024, 40
#: The side and the number of products that take longer than a copy of so many bytes.
LARGE_SIDE, LARGE_PRODUCTS, COPY_BYTES = (128, 30, 2**10) if IS_SIMULATED else (4096, 30, 64 * 2**20)


def matrix(gpu, side, requires_grad=False):
    return ag.tensor(np.full((side, side), 1 / side, np.float32), device=gpu, requires_grad=requires_grad)


def chain(x, products):
    y = x
    for _ in range(products):
        y = y @ x
    return y


def union(spans):
    """Return from when to when there are spans."""
    return min(span.began for span in spans), max(span.ended for span in spans)


def overlap(first, second):
    (begin, end), (other_begin, other_end) = union(first), union(second)
    return min(end, other_end) > max(begin, other_begin)


async def profile_of_branches(gpu, streams):
    leaves = [matrix(gpu, SIDE, requires_grad=True) for _ in streams]
    starts = [matrix(gpu, SIDE) for _ in streams]
    await gpu.synchronize()
    async with ag.profile() as prof:
        roots = []
        for x, stream in zip(leaves, streams, strict=True):
            with stream:
                roots.append(chain(x, PRODUCTS))
        await ag.backward(roots, starts)
    return prof


async def test_two_branches_on_two_streams_overlap(gpu):
    streams = gpu.stream(), gpu.stream()
    await profile_of_branches(gpu, streams)  # fills the pools
    prof = await profile_of_branches(gpu, streams)

    for name in ("matmul", "MatmulBackward"):
        first, second = (
            [span for span in prof.device_spans if span.name == name and span.stream == stream.label]
            for stream in streams
        )
        assert len(first) == len(second) == PRODUCTS
        assert overlap(first, second)


async def test_the_work_of_one_stream_never_overlaps(gpu):
    stream = gpu.stream()
    prof = await profile_of_branches(gpu, [stream, stream])
    spans = [span for span in prof.device_spans if span.stream == stream.label]

    assert len(spans) >= 4 * PRODUCTS
    assert all(one.ended <= other.began for one, other in pairwise(spans))


@pytest.mark.parametrize("direction", ["device", "host"])
async def test_a_copy_overlaps_computation(gpu, direction):
    async def main():
        x = matrix(gpu, LARGE_SIDE)
        here = ag.tensor(np.ones(COPY_BYTES // 4, np.float32))
        there = here.to(gpu)
        await gpu.synchronize()
        async with ag.profile() as prof:
            chain(x, LARGE_PRODUCTS)
            with gpu.stream():
                moved = here.to(gpu, non_blocking=True) if direction == "device" else there.to("cpu", non_blocking=True)
            await gpu.synchronize()
            del moved
        return prof

    await main()  # fills the pools
    spans = (await main()).device_spans
    copies = [span for span in spans if span.name == f"copy to the {direction}" and span.bytes == COPY_BYTES]

    assert len(copies) == 1
    assert overlap(copies, [span for span in spans if span.name == "matmul"])


async def test_what_is_seen_lies_between_its_launch_and_the_end_of_the_wait(gpu):
    async def main():
        x = matrix(gpu, SIDE, requires_grad=True)
        async with ag.profile() as prof:
            for _ in range(3):
                await np.tanh(chain(x, 5)).sum().backward()
        return prof, time.perf_counter() * 1e9

    await main()
    prof, waited = await main()

    # Half a millisecond for what two clocks may differ by.
    assert all(span.launched <= span.began <= span.ended <= waited + 5e5 for span in prof.device_spans)
    assert {"matmul", "MatmulBackward", "tanh", "TanhBackward", "AccumulateGrad"} <= {
        span.name for span in prof.device_spans
    }
    assert all(event.device_time is not None for event in prof.events)


async def test_the_times_of_products_are_those_between_events_around_them(gpu):
    async def main():
        x = matrix(gpu, LARGE_SIDE)
        await gpu.synchronize()
        stream = gpu.current_stream()
        async with ag.profile() as prof:
            begin = stream.record_event(enable_timing=True)
            chain(x, LARGE_PRODUCTS)
            end = stream.record_event(enable_timing=True)
        return prof, begin.elapsed_time(end)

    await main()
    prof, milliseconds = await main()

    assert sum(span.duration for span in prof.device_spans) / 1e6 == pytest.approx(milliseconds, rel=0.2)


async def test_a_profile_that_is_read_too_early_does_not_stall_the_loop(gpu, spin):
    x = matrix(gpu, 8)
    with ag.profile() as prof:
        spin(gpu.current_stream())
        np.tanh(x)
    begin = time.perf_counter()
    with pytest.raises(ProfileError, match=r"write await prof\.synchronize\(\)"):
        prof.table()
    took = time.perf_counter() - begin
    await prof.synchronize()
    table = prof.table()

    assert took < 0.02
    assert "device, µs" in table


def test_timed_events_measure_a_kernel_of_a_known_length(gpu, spin):
    stream = gpu.current_stream()
    begin = stream.record_event(enable_timing=True)
    spin(stream)
    end = stream.record_event(enable_timing=True)

    with pytest.raises(DeviceError, match="has no time yet"):
        begin.elapsed_time(end)
    end.synchronize()
    # 150 million ticks, at 0.5 to 3 GHz.
    assert 50 < begin.elapsed_time(end) < 300


@on_each_loop
def test_a_step_of_adam_and_its_kernels_are_seen(run, gpu, cupy):
    async def main():
        params = [matrix(gpu, 64, requires_grad=True) for _ in range(4)]
        optimizer = optim.Adam(params)
        for _ in range(2):
            async with ag.profile() as prof:
                await sum((param * param).sum() for param in params).backward()
                optimizer.step()
        return prof

    (step,) = (span for span in run(main()).device_spans if span.kind == "optimizer")

    assert (step.name, step.kernels) == ("Adam.step", 1)


async def test_a_trace_of_two_streams_is_valid(gpu, tmp_path):
    prof = await profile_of_branches(gpu, [gpu.stream(), gpu.stream()])
    prof.export_chrome_trace(tmp_path / "trace.json")
    text = (tmp_path / "trace.json").read_text()
    lanes = {event["args"]["name"] for event in json.loads(text)["traceEvents"] if event["name"] == "thread_name"}

    assert violations(text) == []
    assert sum(lane.startswith(f"{gpu} stream") for lane in lanes) == 2
