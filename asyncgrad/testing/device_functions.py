"""Which functions and methods of NumPy the arrays of a GPU have, and with which parameters: those of CuPy 14."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from ..core.settings.source import make_function

__all__ = [
    "METHODS",
    "REAL_UFUNCS",
    "SCATTERING_DTYPES",
    "check_call",
    "has_function",
    "has_ufunc",
]

#: Functions, by their names below `numpy`.
_FUNCTION_PARAMETERS = """
all(a, axis=None, out=None, keepdims=False)
allclose(a, b, rtol=1e-05, atol=1e-08, equal_nan=False)
amax(a, axis=None, out=None, keepdims=False)
amin(a, axis=None, out=None, keepdims=False)
angle(z, deg=False)
any(a, axis=None, out=None, keepdims=False)
append(arr, values, axis=None)
apply_along_axis(func1d, axis, arr, *args, **kwargs)
apply_over_axes(func, a, axes)
arange(start, stop=None, step=1, dtype=None)
argmax(a, axis=None, dtype=None, out=None, keepdims=False)
argmin(a, axis=None, dtype=None, out=None, keepdims=False)
argpartition(a, kth, axis=-1)
argsort(a, axis=-1, kind=None)
argwhere(a)
around(a, decimals=0, out=None)
array(obj, dtype=None, copy=True, order='K', subok=False, ndmin=0, *, blocking=False)
array2string(a, *args, **kwargs)
array_equal(a1, a2, equal_nan=False)
array_equiv(a1, a2)
array_repr(arr, max_line_width=None, precision=None, suppress_small=None)
array_split(ary, indices_or_sections, axis=0)
array_str(arr, max_line_width=None, precision=None, suppress_small=None)
asanyarray(a, dtype=None, order=None, *, copy=None, blocking=False)
asarray(a, dtype=None, order=None, *, copy=None, blocking=False)
ascontiguousarray(a, dtype=None)
asfortranarray(a, dtype=None)
astype(x, dtype, /, *, copy=True)
atleast_1d(*arys)
atleast_2d(*arys)
atleast_3d(*arys)
average(a, axis=None, weights=None, returned=False, *, keepdims=False)
bincount(x, weights=None, minlength=None)
broadcast_arrays(*args)
broadcast_to(array, shape)
can_cast(from_, to, casting='safe')
choose(a, choices, out=None, mode='raise')
clip(a, a_min, a_max, out=None)
column_stack(tup)
common_type(*arrays)
compress(condition, a, axis=None, out=None)
concatenate(tup, axis=0, out=None, *, dtype=None, casting='same_kind')
convolve(a, v, mode='full')
copy(a, order='K')
copyto(dst, src, casting='same_kind', where=None)
corrcoef(a, y=None, rowvar=True, bias=None, ddof=None, *, dtype=None)
correlate(a, v, mode='valid')
count_nonzero(a, axis=None)
cov(a, y=None, rowvar=True, bias=False, ddof=None, fweights=None, aweights=None, *, dtype=None)
cross(a, b, axisa=-1, axisb=-1, axisc=-1, axis=None)
cumprod(a, axis=None, dtype=None, out=None)
cumsum(a, axis=None, dtype=None, out=None)
cumulative_prod(x, /, *, axis=None, dtype=None, out=None, include_initial=False)
cumulative_sum(x, /, *, axis=None, dtype=None, out=None, include_initial=False)
delete(arr, indices, axis=None)
diag(v, k=0)
diag_indices_from(arr)
diagflat(v, k=0)
diagonal(a, offset=0, axis1=0, axis2=1)
diff(a, n=1, axis=-1, prepend=None, append=None)
digitize(x, bins, right=False)
dot(a, b, out=None)
dsplit(ary, indices_or_sections)
dstack(tup)
ediff1d(arr, to_end=None, to_begin=None)
einsum(*operands, **kwargs)
empty(shape, dtype=float, order='C')
empty_like(prototype, dtype=None, order='K', subok=None, shape=None)
expand_dims(a, axis)
extract(condition, a)
eye(N, M=None, k=0, dtype=float, order='C')
fill_diagonal(a, val, wrap=False)
fix(x, out=None)
flatnonzero(a)
flip(a, axis=None)
fliplr(a)
flipud(a)
frombuffer(*args, **kwargs)
fromfile(*args, **kwargs)
fromfunction(*args, **kwargs)
fromiter(*args, **kwargs)
fromstring(*args, **kwargs)
full(shape, fill_value, dtype=None, order='C')
full_like(a, fill_value, dtype=None, order='K', subok=None, shape=None)
genfromtxt(*args, **kwargs)
gradient(f, *varargs, axis=None, edge_order=1)
histogram(x, bins=10, range=None, density=False, weights=None)
histogram2d(x, y, bins=10, range=None, weights=None, density=None)
histogramdd(sample, bins=10, range=None, weights=None, density=False)
hsplit(ary, indices_or_sections)
hstack(tup, *, dtype=None, casting='same_kind')
i0(x)
identity(n, dtype=float)
imag(val)
inner(a, b)
interp(x, xp, fp, left=None, right=None, period=None)
intersect1d(arr1, arr2, assume_unique=False, return_indices=False)
isclose(a, b, rtol=1e-05, atol=1e-08, equal_nan=False)
iscomplex(x)
iscomplexobj(x)
isin(element, test_elements, assume_unique=False, invert=False)
isneginf(x, out=None)
isposinf(x, out=None)
isreal(x)
isrealobj(x)
ix_(*args)
kron(a, b)
lexsort(keys)
linspace(start, stop, num=50, endpoint=True, retstep=False, dtype=None, axis=0)
loadtxt(*args, **kwargs)
logspace(start, stop, num=50, endpoint=True, base=10.0, dtype=None, axis=0)
matrix_transpose(x, /)
max(a, axis=None, out=None, keepdims=False)
may_share_memory(a, b, max_work=None)
mean(a, axis=None, dtype=None, out=None, keepdims=False)
median(a, axis=None, out=None, overwrite_input=False, keepdims=False)
meshgrid(*xi, **kwargs)
min(a, axis=None, out=None, keepdims=False)
min_scalar_type(a)
moveaxis(a, source, destination)
nan_to_num(x, copy=True, nan=0.0, posinf=None, neginf=None)
nanargmax(a, axis=None, dtype=None, out=None, keepdims=False)
nanargmin(a, axis=None, dtype=None, out=None, keepdims=False)
nancumprod(a, axis=None, dtype=None, out=None)
nancumsum(a, axis=None, dtype=None, out=None)
nanmax(a, axis=None, out=None, keepdims=False)
nanmean(a, axis=None, dtype=None, out=None, keepdims=False)
nanmedian(a, axis=None, out=None, overwrite_input=False, keepdims=False)
nanmin(a, axis=None, out=None, keepdims=False)
nanprod(a, axis=None, dtype=None, out=None, keepdims=False)
nanstd(a, axis=None, dtype=None, out=None, ddof=0, keepdims=False)
nansum(a, axis=None, dtype=None, out=None, keepdims=False)
nanvar(a, axis=None, dtype=None, out=None, ddof=0, keepdims=False)
ndim(a)
nonzero(a)
ones(shape, dtype=float, order='C')
ones_like(a, dtype=None, order='K', subok=None, shape=None)
outer(a, b, out=None)
packbits(a, axis=None, bitorder='big')
pad(array, pad_width, mode='constant', **kwargs)
partition(a, kth, axis=-1)
percentile(a, q, axis=None, out=None, overwrite_input=False, method='linear', keepdims=False, *, interpolation=None)
piecewise(x, condlist, funclist)
place(arr, mask, vals)
poly(seq_of_zeros)
polyadd(a1, a2)
polyfit(x, y, deg, rcond=None, full=False, w=None, cov=False)
polymul(a1, a2)
polysub(a1, a2)
polyval(p, x)
prod(a, axis=None, dtype=None, out=None, keepdims=False)
ptp(a, axis=None, out=None, keepdims=False)
put(a, ind, v, mode='wrap')
put_along_axis(arr, indices, values, axis)
putmask(a, mask, values)
quantile(a, q, axis=None, out=None, overwrite_input=False, method='linear', keepdims=False, *, interpolation=None)
ravel(a, order='C')
ravel_multi_index(multi_index, dims, mode='wrap', order='C')
real(val)
real_if_close(a, tol=100)
repeat(a, repeats, axis=None)
require(a, dtype=None, requirements=None)
reshape(a, newshape, order='C', *, copy=None)
resize(a, new_shape)
result_type(*arrays_and_dtypes)
roll(a, shift, axis=None)
rollaxis(a, axis, start=0)
roots(p)
rot90(a, k=1, axes=(0, 1))
round(a, decimals=0, out=None)
save(file, arr, allow_pickle=None)
savetxt(fname, X, *args, **kwargs)
savez(file, *args, **kwds)
savez_compressed(file, *args, **kwds)
searchsorted(a, v, side='left', sorter=None)
select(condlist, choicelist, default=0)
setdiff1d(ar1, ar2, assume_unique=False)
setxor1d(ar1, ar2, assume_unique=False)
shape(a)
shares_memory(a, b, max_work=None)
sinc(x)
size(a, axis=None)
sort(a, axis=-1, kind=None)
sort_complex(a)
split(ary, indices_or_sections, axis=0)
squeeze(a, axis=None)
stack(tup, axis=0, out=None, *, dtype=None, casting='same_kind')
std(a, axis=None, dtype=None, out=None, ddof=0, keepdims=False)
sum(a, axis=None, dtype=None, out=None, keepdims=False)
swapaxes(a, axis1, axis2)
take(a, indices, axis=None, out=None)
take_along_axis(a, indices, axis)
tensordot(a, b, axes=2)
tile(A, reps)
trace(a, offset=0, axis1=0, axis2=1, dtype=None, out=None)
transpose(a, axes=None)
trapezoid(y, x=None, dx=1.0, axis=-1)
tri(N, M=None, k=0, dtype=float)
tril(m, k=0)
tril_indices_from(arr, k=0)
trim_zeros(filt, trim='fb')
triu(m, k=0)
triu_indices_from(arr, k=0)
union1d(arr1, arr2)
unique(ar, return_index=False, return_inverse=False, return_counts=False, axis=None, *, equal_nan=True)
unique_all(x)
unique_counts(x)
unique_inverse(x)
unique_values(x)
unpackbits(a, axis=None, bitorder='big')
unravel_index(indices, dims, order='C')
unwrap(p, discont=None, axis=-1, *, period=None)
vander(x, N=None, increasing=False)
var(a, axis=None, dtype=None, out=None, ddof=0, keepdims=False)
vdot(a, b)
vsplit(ary, indices_or_sections)
vstack(tup, *, dtype=None, casting='same_kind')
where(condition, x=None, y=None)
zeros(shape, dtype=float, order='C')
zeros_like(a, dtype=None, order='K', subok=None, shape=None)
fft.fft(a, n=None, axis=-1, norm=None)
fft.fft2(a, s=None, axes=(-2, -1), norm=None)
fft.fftn(a, s=None, axes=None, norm=None)
fft.fftshift(x, axes=None)
fft.hfft(a, n=None, axis=-1, norm=None)
fft.ifft(a, n=None, axis=-1, norm=None)
fft.ifft2(a, s=None, axes=(-2, -1), norm=None)
fft.ifftn(a, s=None, axes=None, norm=None)
fft.ifftshift(x, axes=None)
fft.ihfft(a, n=None, axis=-1, norm=None)
fft.irfft(a, n=None, axis=-1, norm=None)
fft.irfft2(a, s=None, axes=(-2, -1), norm=None)
fft.irfftn(a, s=None, axes=None, norm=None)
fft.rfft(a, n=None, axis=-1, norm=None)
fft.rfft2(a, s=None, axes=(-2, -1), norm=None)
fft.rfftn(a, s=None, axes=None, norm=None)
linalg.cholesky(a)
linalg.cond(x, p=None)
linalg.cross(x1, x2, /, *, axis=-1)
linalg.det(a)
linalg.eig(a)
linalg.eigh(a, UPLO='L')
linalg.eigvals(a)
linalg.eigvalsh(a, UPLO='L')
linalg.inv(a)
linalg.lstsq(a, b, rcond=None)
linalg.matmul(x1, x2)
linalg.matrix_power(M, n)
linalg.matrix_rank(M, tol=None)
linalg.matrix_transpose(a)
linalg.norm(x, ord=None, axis=None, keepdims=False)
linalg.pinv(a, rcond=1e-15)
linalg.qr(a, mode='reduced')
linalg.slogdet(a)
linalg.solve(a, b)
linalg.svd(a, full_matrices=True, compute_uv=True)
linalg.tensorinv(a, ind=2)
linalg.tensorsolve(a, b, axes=None)
lib.stride_tricks.sliding_window_view(x, window_shape, axis=None, *, subok=False, writeable=False)
"""

#: Methods of arrays, apart from those that return Python's numbers, or NumPy's arrays.
_METHOD_PARAMETERS = """
all(axis=None, out=None, keepdims=False)
any(axis=None, out=None, keepdims=False)
argmax(axis=None, out=None, dtype=None, keepdims=False)
argmin(axis=None, out=None, dtype=None, keepdims=False)
argpartition(kth, axis=-1)
argsort(axis=-1, kind=None)
astype(dtype, order='K', casting=None, subok=None, copy=True)
choose(choices, out=None, mode='raise')
clip(min=None, max=None, out=None)
compress(condition, axis=None, out=None)
conj()
conjugate()
copy(order='C')
cumprod(axis=None, dtype=None, out=None)
cumsum(axis=None, dtype=None, out=None)
diagonal(offset=0, axis1=0, axis2=1)
dot(b, out=None)
fill(value)
flatten(order='C')
max(axis=None, out=None, keepdims=False)
mean(axis=None, dtype=None, out=None, keepdims=False)
min(axis=None, out=None, keepdims=False)
nonzero()
partition(kth, axis=-1)
prod(axis=None, dtype=None, out=None, keepdims=None)
put(indices, values, mode='wrap')
ravel(order='C')
repeat(repeats, axis=None)
reshape(*shape, order='C', copy=None)
round(decimals=0, out=None)
searchsorted(v, side='left', sorter=None)
sort(axis=-1, kind=None)
squeeze(axis=None)
std(axis=None, dtype=None, out=None, ddof=0, keepdims=False)
sum(axis=None, dtype=None, out=None, keepdims=False)
swapaxes(axis1, axis2)
take(indices, axis=None, out=None)
trace(offset=0, axis1=0, axis2=1, dtype=None, out=None)
transpose(*axes)
var(axis=None, dtype=None, out=None, ddof=0, keepdims=False)
view(dtype=None, type=None)
"""

#: Ufuncs of SciPy, and ufuncs without complex numbers.
_SPECIAL = """
bdtr bdtrc bdtri beta betainc betaincinv betaln binom boxcox boxcox1p cbrt chdtr chdtrc chdtri cosdg cosm1 cotdg
digamma ellipeinc ellipj ellipk ellipkinc ellipkm1 entr erf erfc erfcinv erfcx erfinv exp1 exp10 exp2 expi expit expm1
expn exprel fdtr fdtrc fdtri gamma gammainc gammaincc gammainccinv gammaincinv gammaln gammasgn gdtr gdtrc huber i0
i0e i1 i1e inv_boxcox inv_boxcox1p j0 j1 k0 k0e k1 k1e kl_div log1p log_expit log_ndtr loggamma logit lpmv nbdtr
nbdtrc nbdtri ndtr ndtri pdtr pdtrc pdtri poch pseudo_huber psi radian rel_entr rgamma round shichi sici sindg tandg
wright_bessel xlog1py xlogy y0 y1 yn zetac
"""
_REAL = "erf erfc erfcx exp1 expi log_ndtr logical_and logical_not logical_or logical_xor ndtr"


def _by_name(text: str) -> dict[str, str]:
    return {line.partition("(")[0]: line.partition("(")[2].removesuffix(")") for line in text.strip().splitlines()}


_FUNCTIONS = _by_name(_FUNCTION_PARAMETERS)
_METHODS = _by_name(_METHOD_PARAMETERS)
#: The names of the methods.
METHODS = tuple(_METHODS)

#: Ufuncs that there are not.
_UFUNCS_LACKING = frozenset({"isnat", "matvec", "spacing", "vecdot", "vecmat"})
#: The ufuncs of SciPy's special functions that there are; the others are lacking.
_SPECIAL_UFUNCS = frozenset(_SPECIAL.split())
#: The ufuncs without complex numbers, which those of NumPy and SciPy take.
REAL_UFUNCS = frozenset(_REAL.split())
#: The ufuncs that have `at`, and the dtypes that they take there.
SCATTERING_DTYPES = {
    "add": "int32 int64 float16 float32 float64 uint32 uint64",
    "subtract": "int32 uint32",
    "maximum": "int32 int64 float32 float64 uint32 uint64",
    "minimum": "int32 int64 float32 float64 uint32 uint64",
    "bitwise_and": "int32 int64 uint32 uint64",
    "bitwise_or": "int32 int64 uint32 uint64",
    "bitwise_xor": "int32 int64 uint32 uint64",
}


def has_function(name: str) -> bool:
    """Tell whether there is a function; `name` is that below `numpy`, such as `linalg.inv`."""
    return name in _FUNCTIONS


def has_ufunc(ufunc: np.ufunc) -> bool:
    """Tell whether there is a ufunc of NumPy's or of SciPy's; it is found by its name."""
    name = ufunc.__name__
    return name not in _UFUNCS_LACKING if getattr(np, name, None) is ufunc else name in _SPECIAL_UFUNCS


def check_call(name: str, args: Any, kwargs: dict[str, Any], *, is_method: bool = False) -> None:
    """Raise if a function, or a method without its array, does not take these arguments.

    Raises:
        TypeError: there is no such parameter, or one is missing, in Python's words.
    """
    _stub(name, is_method)(*args, **kwargs)


@cache
def _stub(name: str, is_method: bool) -> Callable[..., None]:
    """Return a function of that name, and with its parameters, that does nothing."""
    parameters = (_METHODS if is_method else _FUNCTIONS)[name]
    return make_function(f"{name.rpartition('.')[2]}({parameters})", ["pass"], f"parameters of {name}", {})
