"""Generator: NumPy's, with Tensors as results and tensors as parameters."""

from __future__ import annotations

from collections.abc import MutableSequence
from typing import TYPE_CHECKING, Any, TypeVar, final

import numpy as np

from ...core.arrays.values import raw
from ...core.tensor import Tensor
from ...core.views.writing import write
from ...errors import ArgumentError
from .rules import IMPLICIT
from .sampling import Sampler, as_tensor, requires_grad, shape_of, to_host

if TYPE_CHECKING:
    import numpy.typing as npt

    from ...core.arrays.array_like import Lengths, TensorLike


__all__ = ["Generator", "default_rng"]

T = TypeVar("T")


@final
class Generator(Sampler):
    """NumPy's Generator, with Tensors as results; a parameter may be a tensor that requires grad.

    Args:
        bit_generator: one of NumPy's BitGenerators, or a Generator of NumPy's, whose stream it then shares.

    Example:
        >>> import numpy as np, asyncgrad as ag
        >>> from asyncgrad.numpy.random import default_rng
        >>> scale = ag.tensor(2.0, requires_grad=True)
        >>> draw = default_rng(0).normal(1.0, scale, size=3)
        >>> bool((draw.numpy() == np.random.default_rng(0).normal(1.0, 2.0, size=3)).all())
        True
        >>> ag.sync.backward(draw.sum())
        >>> bool(np.isclose(scale.grad, np.random.default_rng(0).standard_normal(3).sum()))
        True
    """

    __slots__ = ()

    def __init__(self, bit_generator: np.random.BitGenerator | np.random.Generator) -> None:
        if not isinstance(bit_generator, np.random.Generator):
            bit_generator = np.random.Generator(bit_generator)
        super().__init__(bit_generator)

    def __repr__(self) -> str:
        return f"Generator({type(self.bit_generator).__name__})"

    def __reduce__(self) -> tuple[object, ...]:
        return Generator, (self._source,)

    @property
    def bit_generator(self) -> np.random.BitGenerator:
        """NumPy's BitGenerator, the stream that it draws from."""
        stream: np.random.BitGenerator = self._source.bit_generator
        return stream

    def spawn(self, n_children: int) -> list[Generator]:
        """Return Generators with streams that are independent of this one and of each other."""
        return [Generator(child) for child in self._source.spawn(n_children)]

    # Standard distributions.

    def random(
        self, size: Lengths | None = None, dtype: npt.DTypeLike = np.float64, out: Tensor | np.ndarray | None = None
    ) -> Tensor:
        """Draw numbers from 0, included, to 1, excluded."""
        return self._fill("random", size, out, dtype=dtype)

    def standard_exponential(
        self,
        size: Lengths | None = None,
        dtype: npt.DTypeLike = np.float64,
        method: str = "zig",
        out: Tensor | np.ndarray | None = None,
    ) -> Tensor:
        """Draw from the exponential distribution with scale 1."""
        return self._fill("standard_exponential", size, out, dtype=dtype, method=method)

    def standard_gamma(
        self,
        shape: TensorLike,
        size: Lengths | None = None,
        dtype: npt.DTypeLike = np.float64,
        out: Tensor | np.ndarray | None = None,
    ) -> Tensor:
        """Draw from the gamma distribution with scale 1."""
        parameters, device = to_host({"shape": shape})
        if device is not None:
            found = self.standard_gamma(parameters["shape"], size, dtype).to(device)
            return found if out is None else write(out, found)
        if not requires_grad(shape):
            return self._fill("standard_gamma", size, out, raw(shape), dtype=dtype)
        wanted = shape_of(size)
        if out is not None and wanted not in (None, np.shape(raw(out))):
            raise ArgumentError(f"Generator.standard_gamma: size={size} is not the shape of out, {np.shape(raw(out))}")
        wanted = wanted if out is None else np.shape(raw(out))
        draw = np.asarray(self._source.standard_gamma(raw(shape), size=wanted, dtype=dtype))
        found = as_tensor(IMPLICIT["standard_gamma"].call(shape, draw))
        return found if out is None else write(out, found)

    def standard_normal(
        self, size: Lengths | None = None, dtype: npt.DTypeLike = np.float64, out: Tensor | np.ndarray | None = None
    ) -> Tensor:
        """Draw from the normal distribution around 0 with scale 1."""
        return self._fill("standard_normal", size, out, dtype=dtype)

    # More distributions.

    def integers(
        self,
        low: TensorLike,
        high: TensorLike | None = None,
        size: Lengths | None = None,
        dtype: npt.DTypeLike = np.int64,
        endpoint: bool = False,
    ) -> Tensor:
        """Draw whole numbers from `low` to below `high`, or including `high` if `endpoint`."""
        parameters = {"low": low, "high": high}
        return self._draw_constant("integers", parameters, size=size, dtype=dtype, endpoint=endpoint)

    def multivariate_hypergeometric(
        self, colors: TensorLike, nsample: TensorLike, size: Lengths | None = None, method: str = "marginals"
    ) -> Tensor:
        """Draw from the multivariate hypergeometric distribution."""
        parameters = {"colors": colors, "nsample": nsample}
        return self._draw_constant("multivariate_hypergeometric", parameters, size=size, method=method)

    def multivariate_normal(
        self,
        mean: TensorLike,
        cov: TensorLike,
        size: Lengths | None = None,
        check_valid: str = "warn",
        tol: float = 1e-8,
        *,
        method: str = "svd",
    ) -> Tensor:
        """Draw rows from a multivariate normal distribution.

        The draw is differentiated through the factor of the covariance that `method` computes. Where eigenvalues are
        equal, so that only the Cholesky factor has a derivative, it is differentiated through that.
        """
        return self._draw_rows(mean, cov, size, check_valid, tol, method, {"method": method})

    # Orders and choices.

    def choice(
        self,
        a: TensorLike,
        size: Lengths | None = None,
        replace: bool = True,
        p: TensorLike | None = None,
        axis: int = 0,
        shuffle: bool = True,
    ) -> Any:
        """Draw elements of `a` along an axis, or whole numbers below `a`; elements of a tensor keep its history."""
        return self._choose(a, p, axis, {"size": size, "replace": replace, "shuffle": shuffle})

    def permutation(self, x: TensorLike, axis: int = 0) -> Any:
        """Return `x` shuffled along an axis, or the whole numbers below `x`; a tensor keeps its history."""
        return self._permute(x, axis, {"axis": axis})

    def permuted(self, x: TensorLike, *, axis: int | None = None, out: Tensor | np.ndarray | None = None) -> Any:
        """Return `x` with each slice along an axis shuffled by itself; None shuffles all elements."""
        if not (isinstance(x, Tensor) or isinstance(out, Tensor)):
            found = self._source.permuted(x, axis=axis, out=out)
            return as_tensor(found) if out is None else out
        x = x if isinstance(x, Tensor) else as_tensor(np.asarray(x))
        if axis is None:
            found = np.take(x, self._source.permuted(np.arange(x.size).reshape(x.shape)))
        else:
            column = [1] * x.ndim
            column[axis] = -1
            order = np.broadcast_to(np.arange(x.shape[axis]).reshape(column), x.shape)
            found = np.take_along_axis(x, self._source.permuted(order, axis=axis), axis)
        return found if out is None else write(out, found)

    def shuffle(self, x: Tensor | np.ndarray | MutableSequence[T], axis: int = 0) -> None:
        """Shuffle an array, a list or a tensor in place, along an axis."""
        self._shuffle(x, axis, {"axis": axis})


def default_rng(seed: object = None) -> Generator:
    """Return a Generator with the stream of `np.random.default_rng(seed)`; one that is given is returned.

    Example:
        >>> from asyncgrad.numpy.random import default_rng
        >>> default_rng(0)
        Generator(PCG64)
    """
    return seed if isinstance(seed, Generator) else Generator(np.random.default_rng(raw(seed)))
