"""Version counters are PyTorch's: what shares one, what counts, and what does not."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.libraries import Library


def test_views_and_what_is_detached_share_the_counter_of_their_base(library: Library):
    x = library.vector(1.0, 2.0, 3.0)
    sharing = [x[1:], x[1:][:1], x.detach(), x.detach().reshape(3, 1)]
    sharing[1] += 1
    sharing[2] += 1

    assert [tensor._version for tensor in (x, *sharing)] == [2] * 5


def test_a_copy_and_a_result_have_counters_of_their_own(library: Library):
    x = library.vector(1.0, 2.0)
    apart = [library.copy(x), x * 1, x[[0, 1]]]
    x += 1

    assert (x._version, [tensor._version for tensor in apart]) == (1, [0, 0, 0])


def test_a_write_counts_once_with_grad_mode_off_too(library: Library):
    x = library.leaf(1.0, 2.0) * 1
    x += 1
    with library.no_grad():
        x += 1
        x[0] = 5.0

    assert x._version == 3


def test_a_result_written_to_out_counts_once(library: Library):
    x, out = library.vector(1.0, 2.0), library.vector(0.0, 0.0)
    library.exp(x, out=out)

    assert (x._version, out._version) == (0, 1)


def test_a_write_in_a_function_and_mark_dirty_count_once_each(library: Library):
    def forward(ctx, x):
        x += 1
        ctx.mark_dirty(x)
        return x

    x = library.leaf(1.0) * 1
    library.function(forward).apply(x)

    assert x._version == 2


def test_a_write_through_the_ndarray_does_not_count(library: Library):
    x = library.vector(1.0, 2.0)
    x.numpy()[0] = 5.0

    assert (x.tolist(), x._version) == ([5.0, 2.0], 0)


def test_increment_version_counts_for_a_tensor_and_for_each_of_several(library: Library):
    x, y = library.vector(1.0), library.vector(2.0)
    library.increment_version(x)
    library.increment_version([x, y])

    assert (x._version, y._version) == (2, 1)


def test_a_backward_counts_nothing(library: Library):
    x = library.leaf(1.0, 2.0)
    y = x * 1
    part = y[:1]
    part *= 3
    before = x._version, y._version
    library.backward((y * y).sum())

    assert (x._version, y._version) == before == (0, 1)


def test_saves_at_different_versions_are_independent(library: Library):
    x, w = library.leaf(1.0, 2.0), library.vector(3.0, 4.0)
    early = (x * w).sum()
    w += 1
    late = (x * w).sum()
    library.backward(late)

    assert x.grad.tolist() == [4.0, 5.0]
    with pytest.raises(RuntimeError, match="version 1"):
        library.backward(early)


def test_what_was_saved_is_checked_by_the_counter_of_its_memory(library: Library):
    x, w = library.leaf(1.0, 2.0), library.vector(3.0, 4.0)
    y = (x * w[:1]).sum()
    alias = w.detach()[1:]
    alias += 1

    with pytest.raises(RuntimeError, match=r"in ?place"):
        library.backward(y)


def test_a_tensor_on_the_users_array_counts_its_own_writes_only(library: Library):
    array = np.array([1.0, 2.0])
    x = library.tensor(array)
    array[0] = 7.0
    x[0] = 5.0

    assert x._version == 1
