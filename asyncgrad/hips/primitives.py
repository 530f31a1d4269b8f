"""Functions whose derivatives the user gives, by HIPS autograd's names.

A derivative by `defvjp` follows HIPS autograd's convention for complex numbers: it multiplies by the derivative itself,
where PyTorch's would multiply by its conjugate.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, final

import numpy as np

from ..core.function.function import Function
from ..core.settings.arguments import check_callable, takes
from ..core.settings.context import is_grad_enabled
from ..core.tensor import Tensor, asarray
from ..core.tree.structure import TreeStructure, flatten, leaves, unflatten
from ..core.tree.structure import map as map_tree
from ..errors import ArgumentTypeError
from ..memory.checkpoint import checkpoint as _checkpoint
from .calls import conjugated
from .products import make_vjp
from .tracer import getval

__all__ = [
    "checkpoint",
    "def_linear",
    "defjvp",
    "defjvp_argnum",
    "defjvp_argnums",
    "defvjp",
    "defvjp_argnum",
    "defvjp_argnums",
    "primitive",
]

#: The types of arrays and numbers, which become tensors.
_NUMBERS = (int, float, complex, np.ndarray, np.generic)

Argnums = tuple[int, ...]
#: From (argnums, ans, args, kwargs) to a function from the gradient of the result to one for each of argnums.
PullbackMaker = Callable[[Argnums, Any, tuple[Any, ...], dict[str, Any]], Callable[[Any], Iterable[Any]]]
#: From (argnums, tangents, ans, args, kwargs) to the tangent of the result.
PushforwardMaker = Callable[[Argnums, Sequence[Any], Any, tuple[Any, ...], dict[str, Any]], Any]


@final
class _Rules:
    """The derivatives of one primitive."""

    __slots__ = ("function", "is_its_own_tangent", "known", "make_pullback", "make_pushforward")

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.make_pullback: PullbackMaker | None = None
        self.make_pushforward: PushforwardMaker | None = None
        #: The positions of the arguments that there is a derivative for, None for any.
        self.known: frozenset[int] | None = frozenset()
        #: Whether a tangent is computed by the primitive itself, which a pullback cannot be found from.
        self.is_its_own_tangent = False

    def require(self, argnums: Iterable[int]) -> None:
        """Raise if there is no derivative for an argument."""
        name = getattr(self.function, "__name__", "the primitive")
        missing = [] if self.known is None else [position for position in argnums if position not in self.known]
        if missing:
            raise NotImplementedError(
                f"{name} has no derivative with respect to argument {missing[0]}: write "
                f"defvjp({name}, lambda ans, *args: lambda g: ..., argnums=({missing[0]},))"
            )
        if self.make_pullback is None and self.is_its_own_tangent:
            raise NotImplementedError(
                f"{name} has a derivative by defjvp that calls {name} itself, and gradients need the transpose: write "
                f"defvjp({name}, lambda ans, *args: lambda g: ...) too"
            )

    def pull(self, argnums: Argnums, ans: Any, args: tuple[Any, ...], kwargs: dict[str, Any], g: Any) -> list[Any]:
        """Return the gradients of the chosen arguments for that of the result."""
        if self.make_pullback is not None:
            return list(self.make_pullback(argnums, ans, args, kwargs)(g))
        push = self.make_pushforward
        assert push is not None
        zeros = map_tree(lambda leaf: np.zeros_like(getval(leaf)), tuple([args[position] for position in argnums]))
        # A tangent is linear, so its pullback is the same anywhere.
        pullback, _ = make_vjp(lambda tangents: push(argnums, tangents, ans, args, kwargs))(zeros)
        return list(pullback(g))


@final
class _Call:
    """One recorded call: what it was called with, without the leaves, and how its results are put together."""

    __slots__ = ("kwargs", "outputs", "rules", "structure")

    def __init__(self, rules: _Rules, structure: TreeStructure, kwargs: dict[str, Any]) -> None:
        self.rules = rules
        self.structure = structure
        self.kwargs = kwargs
        #: The structure of the result.
        self.outputs: TreeStructure | None = None


@final
class Primitive(Function):
    """The node of a call. Its arguments are a _Call and the leaves of the arguments."""

    @staticmethod
    def forward(ctx: Any, call: _Call, *given: Any) -> tuple[Any, ...]:
        args = unflatten(call.structure, map(getval, given))
        found, call.outputs = flatten(call.rules.function(*args, **call.kwargs))
        outputs = [asarray(one) if isinstance(one, _NUMBERS) else one for one in found]
        ctx.call = call
        #: The leaves, with None in place of those that are saved.
        ctx.leaves = [None if isinstance(one, Tensor) else one for one in (*given, *outputs)]
        ctx.places = [index for index, one in enumerate((*given, *outputs)) if isinstance(one, Tensor)]
        ctx.save_for_backward(*[one for one in (*given, *outputs) if isinstance(one, Tensor)])
        return tuple(outputs)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Any, ...]:
        call, is_recording = ctx.call, is_grad_enabled()
        outputs = call.outputs
        values = list(ctx.leaves)
        for place, saved in zip(ctx.places, ctx.saved_tensors, strict=True):
            values[place] = saved if is_recording else getval(saved)
        count = len(ctx.needs_input_grad) - 1
        args, ans = unflatten(call.structure, values[:count]), unflatten(outputs, values[count:])
        g = unflatten(outputs, grads if is_recording else map(getval, grads))
        needed = iter(ctx.needs_input_grad[1:])
        needs = [True in [next(needed) for _ in leaves(arg)] for arg in args]
        argnums = tuple([position for position, is_needed in enumerate(needs) if is_needed])
        found = dict(zip(argnums, call.rules.pull(argnums, ans, args, call.kwargs, conjugated(g)), strict=True))
        results: list[Any] = [None]
        for position, arg in enumerate(args):
            number = len(leaves(arg))
            result = found.get(position)
            results += [None] * number if result is None else _flat(result, number)
        return tuple(results)


def _flat(result: Any, number: int) -> list[Any]:
    found = leaves(conjugated(result))
    if len(found) != number:
        raise ArgumentTypeError(
            f"a derivative by defvjp must return what looks like its argument, with {number} arrays, not {len(found)}"
        )
    # An array that does not depend on what is differentiated again is a constant, as in HIPS autograd.
    return [asarray(one) if isinstance(one, _NUMBERS) else one for one in found]


def primitive(f_raw: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that is recorded as one step, whose derivative `defvjp` gives.

    Args:
        f_raw: a function of arrays and numbers, or dicts, lists and tuples of them. It is called with values alone,
            so that it may call what knows no Tensors.

    Raises:
        ArgumentTypeError: `f_raw` cannot be called. In a call: what is being differentiated is passed by keyword.
        NotImplementedError: in a call: there is no derivative for an argument that is being differentiated.

    Source: autograd.extend.primitive.

    Example:
        >>> import math
        >>> from asyncgrad.hips import grad
        >>> from asyncgrad.hips.extend import defvjp, primitive
        >>> @primitive
        ... def exponential(x):
        ...     return math.exp(x)
        >>> defvjp(exponential, lambda ans, x: lambda g: g * ans)
        >>> round(float(grad(grad(exponential))(1.0)), 3)
        2.718
    """
    check_callable(f_raw, "f_raw")
    rules = _Rules(f_raw)

    def call(*args: Any, **kwargs: Any) -> Any:
        given, structure = flatten(args)
        if any(isinstance(leaf, Tensor) for leaf in leaves(kwargs)):
            raise ArgumentTypeError(
                f"{call.__name__} got a keyword argument that is being differentiated: pass it by position"
            )
        if not any(isinstance(leaf, Tensor) for leaf in given):
            return f_raw(*args, **kwargs)
        if is_grad_enabled():
            rules.require(
                tuple([position for position, arg in enumerate(args) if any(map(_is_differentiated, leaves(arg)))])
            )
        recorded = _Call(rules, structure, kwargs)
        outputs = Primitive.apply(recorded, *given)
        assert recorded.outputs is not None
        return unflatten(recorded.outputs, outputs)

    functools.update_wrapper(call, f_raw)
    vars(call).update(_rules=rules, fun=f_raw)
    return call


def _is_differentiated(leaf: Any) -> bool:
    return isinstance(leaf, Tensor) and leaf.requires_grad


def _rules_of(fun: Any, name: str) -> _Rules:
    rules = getattr(fun, "_rules", None)
    if not isinstance(rules, _Rules):
        raise ArgumentTypeError(takes(name, "a primitive first", fun, "write @primitive above its def"))
    return rules


def defvjp(
    fun: Callable[..., Any], *vjpmakers: Callable[..., Any] | None, argnums: Iterable[int] | None = None
) -> None:
    """Give the derivative of a primitive, for its arguments in order.

    Args:
        fun: what `primitive` returned.
        *vjpmakers: for each argument a function of `(ans, *args, **kwargs)`, which returns a function from the gradient
            of the result to that of the argument; None where it is zero.
        argnums: the positions of those arguments, if they are not the first ones.

    Raises:
        ArgumentTypeError: `fun` is no primitive, or a derivative is neither None nor can be called.

    Source: autograd.extend.defvjp.

    Example:
        >>> import numpy as np
        >>> from asyncgrad.hips import grad
        >>> from asyncgrad.hips.extend import defvjp, primitive
        >>> @primitive
        ... def scaled(x, factor):
        ...     return x * factor
        >>> defvjp(scaled, lambda ans, x, factor: lambda g: g * factor, None)
        >>> float(grad(scaled)(2.0, 3.0)), float(grad(scaled, 1)(2.0, 3.0))
        (3.0, 0.0)
    """
    rules = _rules_of(fun, "defvjp")
    makers = _by_argnum("defvjp", vjpmakers, argnums)

    def make_pullback(argnums: Argnums, ans: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        made = [makers[argnum] for argnum in argnums]
        pullbacks = [None if maker is None else maker(ans, *args, **kwargs) for maker in made]
        return lambda g: [None if pullback is None else pullback(g) for pullback in pullbacks]

    rules.make_pullback, rules.known = make_pullback, frozenset(makers)


def defvjp_argnum(fun: Callable[..., Any], vjpmaker: Callable[..., Any]) -> None:
    """Give the derivative of a primitive for any argument, by its position.

    Args:
        fun: what `primitive` returned.
        vjpmaker: a function of `(argnum, ans, args, kwargs)`, which returns a function as those of `defvjp` do.

    Source: autograd.extend.defvjp_argnum.

    Example:
        >>> from asyncgrad.hips import grad
        >>> from asyncgrad.hips.extend import defvjp_argnum, primitive
        >>> total = primitive(lambda *numbers: sum(numbers))
        >>> defvjp_argnum(total, lambda argnum, ans, args, kwargs: lambda g: g)
        >>> float(grad(total, 2)(1.0, 2.0, 3.0))
        1.0
    """
    rules = _rules_of(fun, "defvjp_argnum")

    def make_pullback(argnums: Argnums, ans: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        pullbacks = [vjpmaker(argnum, ans, args, kwargs) for argnum in argnums]
        return lambda g: [pullback(g) for pullback in pullbacks]

    rules.make_pullback, rules.known = make_pullback, None


def defvjp_argnums(fun: Callable[..., Any], vjpmaker: PullbackMaker) -> None:
    """Give the derivative of a primitive for several arguments at once.

    Args:
        fun: what `primitive` returned.
        vjpmaker: a function of `(argnums, ans, args, kwargs)`, which returns a function from the gradient of the result
            to those of the arguments at `argnums`.

    Source: autograd.extend.defvjp_argnums.

    Example:
        >>> from asyncgrad.hips import grad
        >>> from asyncgrad.hips.extend import defvjp_argnums, primitive
        >>> total = primitive(lambda *numbers: sum(numbers))
        >>> defvjp_argnums(total, lambda argnums, ans, args, kwargs: lambda g: [g for _ in argnums])
        >>> [float(one) for one in grad(total, (0, 2))(1.0, 2.0, 3.0)]
        [1.0, 1.0]
    """
    rules = _rules_of(fun, "defvjp_argnums")
    rules.make_pullback, rules.known = vjpmaker, None


def defjvp(
    fun: Callable[..., Any], *jvpfuns: Callable[..., Any] | str | None, argnums: Iterable[int] | None = None
) -> None:
    """Give the derivative of a primitive as a product with its Jacobian.

    asyncgrad computes gradients only, and finds the gradient by differentiating this product, which is linear, once
    more. Where `defvjp` gives a derivative too, that is used.

    Args:
        fun: what `primitive` returned.
        *jvpfuns: for each argument a function of `(g, ans, *args, **kwargs)`, which returns the change of the result
            for the change `g` of the argument; None where it is zero, and `"same"` where `fun` itself computes it.
        argnums: the positions of those arguments, if they are not the first ones.

    Raises:
        ArgumentTypeError: as for `defvjp`.

    Source: autograd.extend.defjvp.

    Example:
        >>> import math
        >>> from asyncgrad.hips import grad
        >>> from asyncgrad.hips.extend import defjvp, primitive
        >>> exponential = primitive(lambda x: math.exp(x))
        >>> defjvp(exponential, lambda g, ans, x: g * ans)
        >>> round(float(grad(exponential)(1.0)), 3)
        2.718
    """
    rules = _rules_of(fun, "defjvp")
    makers = _by_argnum("defjvp", jvpfuns, argnums, may_be_same=True)

    def push(argnums: Argnums, tangents: Sequence[Any], ans: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        terms = []
        for argnum, tangent in zip(argnums, tangents, strict=True):
            maker = makers[argnum]
            if maker == "same":
                terms.append(fun(*args[:argnum], tangent, *args[argnum + 1 :], **kwargs))
            elif callable(maker):
                terms.append(maker(tangent, ans, *args, **kwargs))
        return _sum(terms, ans)

    _set_pushforward(rules, push, frozenset(makers), "same" in makers.values())


def defjvp_argnum(fun: Callable[..., Any], jvpmaker: Callable[..., Any]) -> None:
    """Give the derivative of a primitive for any argument, as a product with its Jacobian.

    Args:
        fun: what `primitive` returned.
        jvpmaker: a function of `(argnum, g, ans, args, kwargs)`, which returns what the functions of `defjvp` do.

    Source: autograd.extend.defjvp_argnum.

    Example:
        >>> from asyncgrad.hips import grad
        >>> from asyncgrad.hips.extend import defjvp_argnum, primitive
        >>> total = primitive(lambda *numbers: sum(numbers))
        >>> defjvp_argnum(total, lambda argnum, g, ans, args, kwargs: g)
        >>> float(grad(total, 1)(1.0, 2.0))
        1.0
    """
    rules = _rules_of(fun, "defjvp_argnum")

    def push(argnums: Argnums, tangents: Sequence[Any], ans: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        pairs = zip(argnums, tangents, strict=True)
        return _sum([jvpmaker(argnum, tangent, ans, args, kwargs) for argnum, tangent in pairs], ans)

    _set_pushforward(rules, push, None, False)


def defjvp_argnums(fun: Callable[..., Any], jvpmaker: PushforwardMaker) -> None:
    """Give the derivative of a primitive for several arguments at once, as a product with its Jacobian.

    Args:
        fun: what `primitive` returned.
        jvpmaker: a function of `(argnums, gs, ans, args, kwargs)`, which returns the change of the result.

    Source: autograd.extend.defjvp_argnums.

    Example:
        >>> from asyncgrad.hips import grad
        >>> from asyncgrad.hips.extend import defjvp_argnums, primitive
        >>> total = primitive(lambda *numbers: sum(numbers))
        >>> defjvp_argnums(total, lambda argnums, gs, ans, args, kwargs: sum(gs))
        >>> float(grad(total, 1)(1.0, 2.0))
        1.0
    """
    _set_pushforward(_rules_of(fun, "defjvp_argnums"), jvpmaker, None, False)


def def_linear(fun: Callable[..., Any]) -> None:
    """Say that a primitive is linear in each argument; its gradient needs `defvjp` too.

    Args:
        fun: what `primitive` returned.

    Source: autograd.extend.def_linear.

    Example:
        >>> from asyncgrad.hips.extend import def_linear, defvjp, primitive
        >>> doubled = primitive(lambda x: 2 * x)
        >>> def_linear(doubled)
        >>> defvjp(doubled, lambda ans, x: lambda g: 2 * g)
    """

    def same(argnum: int, g: Any, ans: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return fun(*args[:argnum], g, *args[argnum + 1 :], **kwargs)

    rules = _rules_of(fun, "def_linear")
    defjvp_argnum(fun, same)
    rules.is_its_own_tangent = True


def checkpoint(fun: Callable[..., Any]) -> Callable[..., Any]:
    """Return `fun`, keeping only its arguments: the backward calls it again.

    Args:
        fun: a function of arrays, numbers, or dicts, lists and tuples of them.

    Source: autograd.checkpoint.

    Example:
        >>> import numpy as np
        >>> from asyncgrad.hips import checkpoint, grad
        >>> float(grad(checkpoint(np.sin))(0.0))
        1.0
    """

    @functools.wraps(fun)
    def call(*args: Any, **kwargs: Any) -> Any:
        return _checkpoint(lambda *given: fun(*given, **kwargs), *args, use_reentrant=False)

    return call


def _by_argnum(
    name: str, makers: Sequence[Any], argnums: Iterable[int] | None, *, may_be_same: bool = False
) -> dict[int, Any]:
    for maker in makers:
        if not (maker is None or callable(maker) or (may_be_same and maker == "same")):
            raise ArgumentTypeError(takes(name, "functions and None after the primitive", maker, "write lambda ..."))
    return dict(zip(range(len(makers)) if argnums is None else argnums, makers, strict=False))


def _set_pushforward(rules: _Rules, push: PushforwardMaker, known: frozenset[int] | None, is_same: bool) -> None:
    rules.make_pushforward, rules.is_its_own_tangent = push, is_same
    if rules.make_pullback is None:
        rules.known = known


def _sum(terms: list[Any], ans: Any) -> Any:
    if not terms:
        return map_tree(lambda leaf: np.zeros_like(getval(leaf)), ans)
    return functools.reduce(lambda first, second: map_tree(np.add, first, second), terms)
