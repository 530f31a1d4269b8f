"""Weights of a given norm, and orthogonal ones: parametrizations of the tensors of a module."""

from __future__ import annotations

from functools import partial
from typing import Any, final

import numpy as np

from ...core.settings.arguments import number, truth, whole_number
from ...core.settings.context import no_grad
from ...core.settings.lazy import import_deferred
from ...core.tensor import Tensor, asarray, tensor
from ...errors import ArgumentError, IndexRangeError
from ...random import generator
from ..functional.distances import normalize
from ..modules.convolution import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from ..modules.module import Module
from ..shared.arguments import array_of
from .parametrize import register_parametrization, write_values

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]

#: How matrices become orthogonal ones.
_MAPS = ("matrix_exp", "cayley", "householder")


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Have a weight computed from its direction and its norm, which are trained apart; return the module.

    They are `parametrizations.NAME.original1` and `original0`; a state with the names that PyTorch had for them before,
    `NAME_v` and `NAME_g`, is loaded too.

    Args:
        module: the module.
        name: the name of the weight.
        dim: the axis of which each element has a norm of its own; None, or -1, for one norm.

    Source: torch.nn.utils.parametrizations.weight_norm; T. Salimans and D. Kingma, "Weight normalization" (2016).

    Example:
        >>> from asyncgrad import nn
        >>> model = nn.utils.parametrizations.weight_norm(nn.Linear(2, 3))
        >>> [(name, tensor.shape) for name, tensor in model.named_parameters()][1:]
        [('parametrizations.weight.original0', (3, 1)), ('parametrizations.weight.original1', (3, 2))]
    """
    register_parametrization(module, name, _WeightNorm(dim), unsafe=True)
    module.register_load_state_dict_pre_hook(partial(_rename_old, name))
    return module


def _rename_old(name: str, module: Module, state: dict[str, Any], prefix: str, *others: object) -> None:
    """Give the norm and the direction of a weight, in a state of an old version of PyTorch, their names."""
    for old, new in (("g", "original0"), ("v", "original1")):
        if (key := f"{prefix}{name}_{old}") in state:
            state[f"{prefix}parametrizations.{name}.{new}"] = state.pop(key)


@final
class _WeightNorm(Module):
    """Computes a weight from its norm and its direction."""

    def __init__(self, dim: int | None) -> None:
        self.dim: int = -1 if dim is None else whole_number(dim, "dim")

    def _norm(self, weight: Any) -> Any:
        count = array_of(weight).ndim
        if self.dim == -1:
            return np.sqrt(np.sum(weight * weight))
        if not -count <= self.dim < count:
            raise IndexRangeError(f"dim must be an axis of a weight of {count} axes, not {self.dim}")
        axes = tuple([axis for axis in range(count) if axis != self.dim % count])
        return np.sqrt(np.sum(weight * weight, axis=axes, keepdims=True))

    def forward(self, norm: Any, direction: Any) -> Any:
        """Return the weight."""
        return direction * (norm / self._norm(direction))

    def right_inverse(self, weight: Any) -> Any:
        """Return its norm and its direction, which is the weight itself."""
        return self._norm(weight), weight


def spectral_norm(
    module: Module, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> Module:
    """Have a weight divided by its largest singular value, so that the layer does not stretch; return the module.

    That value is estimated by the power method, which goes on whenever the weight is read in training.

    Args:
        module: the module.
        name: the name of the weight.
        n_power_iterations: how many iterations there are each time.
        eps: the least norm of a vector that is divided by it.
        dim: the axis of the outputs; None for 1 of transposed convolutions and 0 of others.

    Raises:
        ArgumentError: there is no such weight, or no iteration.

    Source: torch.nn.utils.parametrizations.spectral_norm; T. Miyato et al., "Spectral normalization" (2018).

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> model = nn.utils.parametrizations.spectral_norm(nn.Linear(3, 4)).eval()
        >>> bool(abs(np.linalg.norm(model.weight.numpy(), 2) - 1) < 0.1)
        True
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ArgumentError(f"{type(module).__name__} has no parameter or buffer {name!r}")
    if dim is None:
        dim = 1 if isinstance(module, (ConvTranspose1d, ConvTranspose2d, ConvTranspose3d)) else 0
    return register_parametrization(module, name, _SpectralNorm(weight, n_power_iterations, dim, eps))


@final
class _SpectralNorm(Module):
    """Divides a weight by its largest singular value, or a vector by its norm."""

    _u: Tensor
    _v: Tensor

    def __init__(self, weight: Tensor, n_power_iterations: int, dim: int, eps: float) -> None:
        dim = whole_number(dim, "dim")
        if not -weight.ndim <= dim < weight.ndim:
            raise IndexRangeError(f"dim must be an axis of a weight of {weight.ndim} axes, not {dim}")
        n_power_iterations = whole_number(n_power_iterations, "n_power_iterations")
        if n_power_iterations < 1:
            raise ArgumentError(
                f"spectral_norm needs at least one iteration, not n_power_iterations={n_power_iterations}"
            )
        self.dim: int = dim % weight.ndim
        self.eps: float = number(eps, "eps")
        self.n_power_iterations: int = n_power_iterations
        if weight.ndim > 1:
            matrix = self._matrix(weight.detach())
            for one, length in zip(("_u", "_v"), matrix.shape, strict=True):
                drawn = tensor(generator().standard_normal(length).astype(weight.dtype), device=weight.device)
                self.register_buffer(one, asarray(normalize(drawn, axis=0, eps=self.eps)))
            self._iterate(matrix, 15)

    def _matrix(self, weight: Any) -> Any:
        first = np.moveaxis(weight, self.dim, 0)
        return np.reshape(first, (array_of(first).shape[0], -1))

    def _iterate(self, matrix: Any, count: int) -> None:
        with no_grad():
            for _ in range(count):
                write_values(self._u, normalize(matrix @ self._v, axis=0, eps=self.eps))
                write_values(self._v, normalize(matrix.T @ self._u, axis=0, eps=self.eps))

    def forward(self, weight: Any) -> Any:
        """Return the weight, divided."""
        if array_of(weight).ndim == 1:
            return normalize(weight, axis=0, eps=self.eps)
        matrix = self._matrix(weight)
        if self.training:
            self._iterate(matrix.detach(), self.n_power_iterations)
        # Copies, since a second call writes into these before the backward of the first.
        u, v = self._u.detach().copy(), self._v.detach().copy()
        return weight / (u @ (matrix @ v))

    def right_inverse(self, weight: Any) -> Any:
        """Return the weight."""
        return weight


def orthogonal(
    module: Module, name: str = "weight", orthogonal_map: str | None = None, *, use_trivialization: bool = True
) -> Module:
    """Have a weight be an orthogonal matrix, or a stack of them, whatever is trained; return the module.

    Its columns are orthonormal, or its rows where these are fewer; that of a complex weight is unitary. It begins with
    the weight where that is orthogonal, and else with the factor Q of its QR decomposition.

    Args:
        module: the module.
        name: the name of the weight, of two axes or more.
        orthogonal_map: how a matrix becomes an orthogonal one: "matrix_exp", the exponential of a skew matrix, which
            needs SciPy; "cayley", (I + A/2) / (I - A/2) of a skew matrix A; "householder", a product of reflections.
            None for the first one where the weight is square or complex, and the last one elsewhere.
        use_trivialization: multiply by a matrix that stays, the buffer `parametrizations.NAME.0.base`, so that what is
            trained begins at the identity. Without it, only "householder" begins with the weight, and can be set.

    Raises:
        ArgumentError: there is no such weight, it has fewer axes, or there is no such map of it.

    Source: torch.nn.utils.parametrizations.orthogonal; M. Lezcano-Casado, "Trivializations for gradient-based
    optimization on manifolds" (2019).

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> model = nn.utils.parametrizations.orthogonal(nn.Linear(2, 3))
        >>> bool(np.allclose(model.weight.T @ model.weight, np.eye(2)))
        True
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ArgumentError(f"{type(module).__name__} has no parameter or buffer {name!r}")
    if weight.ndim < 2:
        raise ArgumentError(f"orthogonal takes a weight of two axes or more, not of shape {weight.shape}")
    is_complex = weight.dtype.kind == "c"
    if orthogonal_map is None:
        orthogonal_map = "matrix_exp" if is_complex or weight.shape[-2] == weight.shape[-1] else "householder"
    if orthogonal_map not in _MAPS:
        raise ArgumentError(f"orthogonal_map must be one of {', '.join(_MAPS)}, not {orthogonal_map!r}")
    if is_complex and orthogonal_map == "householder":
        raise ArgumentError('orthogonal_map="householder" is for real weights: write orthogonal_map="matrix_exp"')
    return register_parametrization(module, name, _Orthogonal(weight, orthogonal_map, use_trivialization), unsafe=True)


@final
class _Orthogonal(Module):
    """Computes an orthogonal matrix, or a stack of them, from one of the same shape."""

    base: Tensor

    def __init__(self, weight: Tensor, orthogonal_map: str, use_trivialization: bool) -> None:
        self.shape: tuple[int, ...] = weight.shape
        self.orthogonal_map: str = orthogonal_map
        self.use_trivialization: bool = truth(use_trivialization, "use_trivialization")

    def forward(self, x: Any) -> Any:
        """Return the orthogonal matrix."""
        is_wide = self.shape[-2] < self.shape[-1]
        tall = x.mT if is_wide else x
        found = _reflected(tall) if self.orthogonal_map == "householder" else self._turned(tall)
        if self.use_trivialization:
            found = self.base @ found
        return found.mT if is_wide else found

    def _turned(self, tall: Any) -> Any:
        """Return the first columns of the orthogonal matrix that belongs to a skew one."""
        rows, columns = tall.shape[-2:]
        lower = np.tril(tall)
        if rows != columns:
            lower = np.concatenate([lower, np.zeros((*tall.shape[:-1], rows - columns), tall.dtype)], axis=-1)
        skew = lower - np.conj(lower).mT
        if self.orthogonal_map == "matrix_exp":
            whole = import_deferred("scipy").linalg.expm(skew)
        else:
            identity = np.eye(rows, dtype=tall.dtype)
            whole = np.linalg.solve(identity - skew / 2, identity + skew / 2)
        return whole[..., :columns]

    def right_inverse(self, weight: Any) -> Any:
        """Return the matrix from which a weight, or the orthogonal one of its QR decomposition, is computed."""
        if array_of(weight).shape != self.shape:
            raise ArgumentError(
                f"a weight of shape {self.shape} can be set to one of that shape, not {array_of(weight).shape}"
            )
        is_wide = self.shape[-2] < self.shape[-1]
        tall: Any = asarray(weight).detach()
        tall = tall.mT if is_wide else tall
        if self.use_trivialization:
            self._set_base(_completed(tall))
            # Minus the identity, whose reflections turn nothing, and whose skew part is 0.
            start = np.broadcast_to(-np.eye(*self.shape[-2:], dtype=tall.dtype), self.shape)
            return tensor(start, device=tall.device)
        if self.orthogonal_map != "householder":
            raise NotImplementedError(
                f"a weight of orthogonal_map={self.orthogonal_map!r} can be set only with use_trivialization=True"
            )
        reflectors = _reflectors(tall.numpy())
        return tensor(reflectors.mT if is_wide else reflectors, device=tall.device)

    def _set_base(self, value: Tensor) -> None:
        if "base" in vars(self):
            write_values(self.base, value)
        else:
            self.register_buffer("base", value)


def _reflected(tall: Any) -> Any:
    """Return the product of the reflections whose vectors are below the diagonal, times the signs on it."""
    rows, columns = tall.shape[-2:]
    below = np.tril(tall, -1)
    identity = np.eye(rows, columns, dtype=tall.dtype)
    vectors, factors = below + identity, 2 / (1 + np.sum(below * below, axis=-2, keepdims=True))
    found: Any = identity
    for last in range(columns, 0, -1):
        vector = vectors[..., last - 1 : last]
        found = found - factors[..., last - 1 : last] * vector @ (vector.mT @ found)
    signs = np.trunc(np.diagonal(tall.detach(), axis1=-2, axis2=-1))
    return found * signs[..., np.newaxis, :]


def _reflectors(tall: np.ndarray) -> np.ndarray:
    """Return the matrix whose reflections are the factor Q of a QR decomposition of positive diagonal."""
    raw, factors = np.linalg.qr(tall, mode="raw")
    found = np.swapaxes(raw, -2, -1).copy()
    numbers = np.arange(found.shape[-1])
    # LAPACK's factor is exactly 0 where it does not reflect.
    found[..., numbers, numbers] = np.where(factors == 0, -1, 1) * np.sign(found[..., numbers, numbers])
    return found


def _completed(tall: Any) -> Any:
    """Return a square orthogonal matrix whose first columns are those of a QR decomposition of positive diagonal."""
    rows, columns = tall.shape[-2:]
    if rows > columns:
        others = generator().standard_normal((*tall.shape[:-1], rows - columns)).astype(tall.dtype)
        tall = np.concatenate([tall, tensor(others, device=tall.device)], axis=-1)
    elif np.allclose(np.conj(tall).mT @ tall, np.eye(rows), atol=10 * rows * np.finfo(tall.dtype).eps):
        return tall.copy()
    q, r = np.linalg.qr(tall)
    return q * np.sign(np.diagonal(r, axis1=-2, axis2=-1))[..., np.newaxis, :]
