"""The lines that random programs are made of: a weighted table, with `x` and `y` for variables that are there already.

`{x}` and `{y}` are variables, `{i}` an index, `{k}` a small whole number, `{axis}` an axis, `{c}` a number, and
`{field}`, `{case}` entries of the tables of `worlds`. Whether a line makes sense for the variables that it is given is
not known here: NumPy tells, when the line is tried.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["INDICES", "KINDS", "Kind"]

#: Basic and advanced indices; one that leaves no axis has an Ellipsis, since NumPy gives a number otherwise.
INDICES = [
    "...", "()", "(0, ...)", "(-1, ...)", "slice(1, None)", "slice(None, -1)", "slice(None, None, 2)",
    "slice(None, None, -1)",
    "slice(0, 0)", "None", "(..., None)", "(..., 0)", "(..., slice(1, None))", "(slice(None), 1, ...)",
    "(0, slice(None, 2))", "[0, 0]", "[-1]", "([0, 1], [1, 0])", "(..., [1])", "(slice(None), [0, 1])", "[True, False]",
    "np.array([], int)", "(None, [0])", "np.array([[0, 1], [1, 0]])", "(..., np.array([1, 0, 1]))",
]  # fmt: skip

#: They make arrays of their own, or views where NumPy makes one for some arguments. NumPy's irfft of nothing is memory
#: that nobody has written: there `take` raises.
_MAKING = """
{x} + {y} | {x} - {y} | {x} * {y} | {x} @ {y} | {x} / (1.5 + {y} * {y}) | {c} * {x} | {x} * 1 | {x} ** 2
{x} ** {k} | -{x} | +{x} | abs({x}) | {x}.conj() | {x} * {c}j | {x} + {c}j | {x}.copy() | {x}.flatten()
{x}.sum(axis={axis}) | np.sin({x}) | np.cos({x}) | np.tanh({x}) | np.exp({x} * 0.3) | np.arctan({x})
np.square({x}) | np.abs({x}) | np.sqrt({x} * {x} + 1) | np.log({x} * {x} + 2) | np.sign({x}) * {x}
{x} / np.abs({x}) | np.hypot({x}, {y} * {y} + 1) | np.maximum({x}, {y}) | np.minimum({x}, {c})
np.clip({x}, -0.7, 0.9) | np.where({x} > 0, {x}, {y}) | np.heaviside({x}, 0.5) * {x} + {x} | np.add({x}, {y})
np.subtract({x}, {c}) | np.multiply.outer({x}, {y}) | np.add.reduce({x}, axis={axis}) | np.add.accumulate({x})
np.multiply.reduce({x}, axis={axis}) | np.maximum.reduce({x}) | np.add({x}, {y}, dtype=complex)
np.multiply({x}, {y}, where=True) | np.sum({x}) | np.sum({x}, {axis}, keepdims=True) | np.mean({x}, {axis})
np.prod({x}, {axis}) | np.var({x}) | np.std({x}, {axis}) | np.max({x}, {axis}) | np.min({x}) | np.ptp({x})
np.median({x}) | np.cumsum({x}) | np.cumsum({x}, {axis}) | np.cumprod({x}, {axis}) | np.nansum({x}, {axis})
np.average({x}, weights=2 + np.sin({x}.real)) | np.linalg.norm({x}) | np.linalg.norm({x}, axis={axis})
np.linalg.norm({x}, 3) | np.linalg.norm({x}, 1.5) | np.linalg.norm({x}, 1) | np.pad({x}, 0)
np.pad({x}, ((0, 0),) * {x}.ndim) | np.pad({x}, 1) | np.pad({x}, {k}, 'edge') | np.pad({x}, 0, 'reflect')
np.pad({x}, 0, 'wrap') | np.tile({x}, 1) | np.tile({x}, ()) | np.tile({x}, (1, 1)) | np.tile({x}, {k})
np.repeat({x}, 1, {axis}) | np.repeat({x}, 0) | np.repeat({x}, {k}, {axis}) | np.roll({x}, 0)
np.roll({x}, {k}, {axis}) | np.rot90({x}, {k}) | np.flip({x}, {axis}) | np.diff({x}, 0) | np.diff({x}, {k}, {axis})
np.concatenate([{x}]) | np.concatenate([{x}, {y}], {axis}) | np.concatenate([{x}, {y}], None)
np.stack([{x}, {y}], {axis}) | np.stack([{x}]) | np.hstack([{x}, {y}]) | np.vstack([{x}]) | np.vstack([{x}, {y}])
np.dstack([{x}]) | np.column_stack([{x}, {y}]) | np.append({x}, {y}) | np.append({x}, []) | np.block({x})
np.block([{x}]) | np.block([[{x}, {x}]]) | np.block([{x}, {y}]) | np.take({x}, [0, 0, -1], {axis})
np.take({x}, 0, {axis}) | np.take({x}, []) | np.delete({x}, [], {axis}) | np.delete({x}, 0, {axis})
np.compress([True], {x}, {axis}) | np.compress([], {x}) | np.extract({x} > 0, {x}) | np.sort({x})
np.sort({x}, None) | np.partition({x}, 0) | np.sort({x}.real, {axis})
np.take_along_axis({x}, np.argsort({x}, {axis}), {axis}) | np.choose([0, 1, 0], [{x}, {y}])
np.select([{x} > 0], [{x}], {y}) | np.tril({x}) | np.triu({x}, {k}) | np.trace({x}) | np.diag({x})
np.diag({x}, {k}) | np.diagflat({x}) | np.kron({x}, {y}) | np.outer({x}, {y}) | np.inner({x}, {y})
np.dot({x}, {y}) | np.vdot({x}, {y}) | np.vecdot({x}, {y}) | np.matmul({x}, {x}.mT) | np.tensordot({x}, {y}, 0)
np.tensordot({x}, {y}, 1) | np.cross({x}, {y}) | np.einsum('...,...->...', {x}, {y}) | np.einsum('i...->...', {x})
np.einsum('ij,kj->ik', {x}, {y}) | np.einsum('ii', {x}) | np.einsum('i,i', {x}, {y})
np.linalg.inv({x} @ {x}.mT + 3 * np.eye({x}.shape[-1])) | np.linalg.det({x})
np.linalg.solve({x} + 4 * np.eye({x}.shape[-1]), {y})
np.linalg.cholesky({x} @ {x}.conj().mT + 2 * np.eye({x}.shape[-1]))
np.linalg.slogdet({x} + 2 * np.eye({x}.shape[-1]))[1] | np.linalg.slogdet({x} + 2j * np.eye({x}.shape[-1]))[0]
np.abs(np.linalg.svd({x} + np.eye(*{x}.shape[-2:]) * np.arange(2.0, 2.0 + {x}.shape[-1]), False)[{k} % 3])
np.linalg.eigvalsh({x} @ {x}.conj().mT + np.diag(np.arange(1.0, 1.0 + {x}.shape[-2])))
np.abs(np.linalg.eigh({x} @ {x}.conj().mT + np.diag(np.arange(1.0, 1.0 + {x}.shape[-2])))[1])
np.abs(np.linalg.eig({x} * 0.1 + np.diag(np.arange(1.0, 1.0 + {x}.shape[-1])))[1])
np.linalg.lstsq({x} + np.eye(*{x}.shape[-2:]) * 3, {y})[0] | np.fft.fft({x}) | np.fft.ifft2({x}) | np.fft.rfft({x}.real)
np.fft.irfft({x} - 0 * {x}.take([0]), {k} + 1)
np.fft.fftn({x}, norm="ortho") | np.fft.hfft({x}, axis={axis}) | np.fft.fftshift({x})
np.linalg.cholesky(np.tensordot({x}, {x}.conj(), 0) * 0 + 1) | np.sign({x} + 0j) | np.astype({x}, {x}.dtype)
np.astype({x}, complex) | {x}.astype(complex) | {x}.astype({x}.dtype, copy=False) | {x}.astype({x}.dtype)
np.nan_to_num({x}) | np.positive({x}) | np.conjugate({x}) | np.round({x}, 0) * {x} + {x} | np.copy({x})
np.copy({x}, order='F') | np.trapezoid({x}) | np.gradient({x}) | np.convolve({x}, {y})
np.correlate({x}, {y}, 'full') | np.interp({x}, [-2.0, 0.1, 3.0], {y}) | np.quantile({x}, 0.3)
np.percentile({x}, 30, {axis}) | np.logaddexp({x}, {y}) | np.remainder({x}, 0.7) | np.divmod({x}, 0.7)[1]
np.modf({x})[0] | np.ldexp({x}, {k}) | np.copysign({x}, {y}) | np.sinc({x}) | np.float_power({x} * {x} + 1, {c})
np.power(2.0, {x}) | np.reciprocal({x} + 4) | np.stack(list({x})) | np.linalg.matrix_norm({x})
np.linalg.vector_norm({x}, axis={axis}, ord=3) | {x}.mean() | {x}.prod({axis}) | {x}.var({axis}) | {x}.max()
{x}.cumsum({axis}) | {x}.repeat(1) | {x}.clip(-1, 1) | {x}.dot({y}) | {x}.take([0]) | {x}.trace()
{x}.round() * {x} + {x} | 1 - {x} | 2.0 / ({x} + 4) | constant({k}, {x}.shape) * {x}
constant({k}, {x}.shape) @ {x} | np.matmul(constant(1, (2, {x}.shape[0])), {x})
{x} + constant({k}, {x}.shape, True) | np.where(np.abs({x}) < 0.5, {x} * 2, {x}) | np.where(True, {x}, 0)
np.full_like({x}, 0.5) * {x} | np.zeros_like({x}) + {x}
"""

#: They make views, or what NumPy copies where it has to.
_VIEWS = """
{x}[{i}] | {x}[{i}] | {x}[{i}] | {x}[{i}] | {x}[{i}] | {x}.T | {x}.mT | np.transpose({x}) | {x}.transpose()
np.swapaxes({x}, 0, {axis}) | np.moveaxis({x}, 0, -1) | {x}.reshape(-1) | {x}.reshape({x}.shape)
np.reshape({x}, (-1, 1)) | np.reshape({x}, {x}.shape[::-1]) | {x}.reshape(-1, order='F') | {x}.ravel()
np.ravel({x}, 'F') | np.expand_dims({x}, {axis}) | np.expand_dims({x}, ()) | np.squeeze({x}) | {x}.squeeze()
np.squeeze({x}, 0) | np.atleast_1d({x}) | np.atleast_2d({x}) | np.atleast_3d({x}) | np.broadcast_to({x}, {x}.shape)
np.broadcast_to({x}, (2, *{x}.shape)) | np.broadcast_arrays({x}, np.zeros((2, 1)))[0] * 1 | np.flip({x})
np.fliplr({x}) | np.flipud({x}) | np.rot90({x}, 0) | np.rollaxis({x}, -1) | np.diagonal({x}) | {x}.diagonal({k})
{x}.real | {x}.imag | np.real({x}) | np.imag({x}) | np.lib.stride_tricks.sliding_window_view({x}, 1)
np.lib.stride_tricks.sliding_window_view({x}, 2, -1) | np.meshgrid({x}, [0.5, 1.0])[0]
np.meshgrid([0.5, 1.0], {x}, indexing='ij')[1] | np.meshgrid({x}, copy=False)[0]
np.meshgrid({x}, {x}, sparse=True, copy=False)[0] | np.matrix_transpose({x}) | np.linalg.diagonal({x})
np.diag({x}) | np.unstack({x})[0] | list({x})[0][...] | np.einsum('ij->ji', {x}) | np.einsum('ii->i', {x})
np.einsum('...', {x}) | {x}.conj() | {x}.swapaxes(0, -1) | np.conjugate({x})
"""

#: They give several views at once, which no write may be recorded into.
_SEVERAL = """
np.split({x}, 1)[0] | np.split({x}, 2, {axis})[{k} % 2] | np.array_split({x}, 2)[0] | np.array_split({x}, 1)[0]
np.hsplit({x}, 1)[0] | np.vsplit({x}, 1)[0] | np.split({x}, [0])[1]
"""

#: They write into x. Some calls with arguments that do not fit make NumPy itself crash: `cumsum` with an `out` of
#: fewer axes, `ufunc.at` with operands of more.
_WRITES = """
{x} += {y} | {x} -= {y} | {x} *= {y} | {x} *= {c} | {x} /= {c} | {x} **= 2 | {x} += {c} | {x} @= {y} | {x} -= {x}
{x} *= {x} | {x} %= 0.7 | {x}[{i}] = {y} | {x}[{i}] = {c} | {x}[{i}] += {y} | {x}[{i}] *= {c}
{x}[{i}] = {x}[{i}] * 2 | {x}[{i}] -= {x} | {x}[...] = {y} | {x}[()] = {y} | np.sin({y}, out={x})
np.sin({x}, out={x}) | np.exp({x} * 0.2, out={x}) | np.add({x}, {y}, out={x}) | np.multiply({x}, {y}, out=({x},))
np.negative({y}, out={x}) | np.add({x}, {y}, out={x}, where={x} > 0)
np.multiply({y}, {c}, out={x}, where=constant({k}, {x}.shape) > 0) | np.conjugate({y}, out={x})
np.square({x}, out={x}) | np.reciprocal({x} + 4, out={x}) | np.copyto({x}, {y})
np.copyto({x}, {y}, where=constant({k}, {x}.shape) > 0) | np.copyto({x}, {c}) | np.put({x}, [0, -1], {y})
np.put({x}, [], {y}) | np.putmask({x}, constant({k}, {x}.shape) > 0, {y})
np.place({x}, constant({k}, {x}.shape) > 0, {y}) | np.fill_diagonal({x}, {c}) | np.fill_diagonal({x}, {y})
np.put_along_axis({x}, np.argmax({x}, {axis}, keepdims=True), {c}, {axis}) | np.add.at({x}, [0, -1], np.sum({y}))
np.add.at({x}, [0, 0, -1], {c}) | np.multiply.at({x}, [0, 0], {c}) | np.subtract.at({x}, (..., 0), {x}[..., 0] * 2)
np.negative.at({x}, [0]) | np.add.at({x}, np.array([], int), {c}) | np.add.accumulate({x}, out={x})
np.sum({y}, axis={axis}, out={x}) | np.matmul({x}, {x}, out={x}) | np.clip({x}, -0.6, 0.8, out={x})
np.clip({y}, -0.6, 0.8, out={x}) | np.mean({y}, axis={axis}, out={x}) | np.take({y}, [0], out={x}) | {x}.sort()
{x}.fill({c}) | {x}.put([0], {c}) | {x}.partition(0) | {x}.real = {y} | {x}.imag = {c} | {x}.real *= {c}
{x}.T[...] = {y} | increase({x}, {y}) | np.concatenate([{y}], out={x}) | np.stack([{y}], out={x})
np.divide({y}, {c}, {x}) | np.dot({y}, {y}, out={x}) | np.prod({y}, axis={axis}, out={x})
"""

#: Functions of the user's own.
_FUNCTIONS = """
cubed({x}) | cubed_later({x}) | product({x}, {y}) | product({x}, {x}) | by_views({x}) | by_own_gradient({x})
halves({x})[0] | halves({x})[1]
"""

#: They give a view made in the forward of a Function.
_VIEWS_OF_FUNCTIONS = """
tail_of({x})
"""

#: Derivatives within the program.
_TRANSFORMS = """
gradient_of({field}, {x}, 'value_and_grad') | gradient_of({field}, {x}, 'vjp')
gradient_of({field}, {x}, 'jacobian') | product_of({field}, {x}, {x}, 'hvp') | product_of({field}, {x}, {y}, 'vhp')
product_of({field}, {x}, {y}, 'hessian') | product_of({field}, {x}, {y}, 'jvp')
product_of({field}, {x}, {y}, 'vjp') | product_of({field}, {x}, {x}, 'value_and_grad')
"""

#: Constant wherever they have a derivative: what they give has no history.
_CONSTANT = """
np.sign({x}.real) | np.floor({x}) * 0.5 | np.round({x}, 1) | np.zeros_like({x}) | np.ones_like({x})
np.full_like({x}, 0.5)
"""

#: Every function of the table of cases.
_CASES = """
of_case({case}, {x})
"""


class Kind(NamedTuple):
    """Lines of one kind.

    Args:
        weight: how often they are drawn.
        lines: the templates.
        writes: whether they write into x, and make nothing.
        kind: of what they make; see Step.
        smooth: whether what they make has a derivative.
    """

    weight: int
    lines: tuple[str, ...]
    writes: bool = False
    kind: str = ""
    smooth: bool = True


def _split(table: str) -> tuple[str, ...]:
    return tuple(line.strip() for row in table.strip().splitlines() for line in row.split(" | "))


KINDS = [
    Kind(30, _split(_MAKING)),
    Kind(24, _split(_VIEWS)),
    Kind(3, _split(_SEVERAL), kind="several"),
    Kind(30, _split(_WRITES), writes=True),
    Kind(6, _split(_FUNCTIONS)),
    Kind(2, _split(_VIEWS_OF_FUNCTIONS), kind="function"),
    Kind(7, _split(_TRANSFORMS)),
    Kind(2, _split(_CONSTANT), smooth=False),
    Kind(20, _split(_CASES)),
    Kind(4, ("detached({x})",), kind="detached"),
]
