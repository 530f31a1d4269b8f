"""Generated source: what several threads generate at once."""

from __future__ import annotations

import threading

from asyncgrad.core.settings.source import make_function


def test_threads_may_generate_with_the_same_names(threads_switch_often):
    found: list[int] = []
    names = [{f"name_{number}": number for number in range(50)} for _ in range(300)]

    together = threading.Barrier(2)

    def generate() -> None:
        for own in names:
            together.wait(timeout=10)
            made = make_function("add(x)", ["return x + name_1"], "sum of a test", own)
            found.append(made(1))

    threads = [threading.Thread(target=generate) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [2] * len(names) * len(threads)
