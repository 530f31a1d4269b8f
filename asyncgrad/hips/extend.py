"""What gives functions a derivative of their own, by the names of `autograd.extend`."""

from .primitives import def_linear as def_linear
from .primitives import defjvp as defjvp
from .primitives import defjvp_argnum as defjvp_argnum
from .primitives import defjvp_argnums as defjvp_argnums
from .primitives import defvjp as defvjp
from .primitives import defvjp_argnum as defvjp_argnum
from .primitives import defvjp_argnums as defvjp_argnums
from .primitives import primitive as primitive
from .tracer import Box as Box
from .tracer import notrace_primitive as notrace_primitive

__all__ = [
    "Box",
    "def_linear",
    "defjvp",
    "defjvp_argnum",
    "defjvp_argnums",
    "defvjp",
    "defvjp_argnum",
    "defvjp_argnums",
    "notrace_primitive",
    "primitive",
]


def __dir__() -> list[str]:
    return __all__
