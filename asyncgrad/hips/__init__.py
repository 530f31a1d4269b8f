"""HIPS autograd's names on asyncgrad: `import asyncgrad.hips as autograd` takes the place of `import autograd`.

All of it blocks, as HIPS autograd does. Arrays in give arrays out, and `asyncgrad.hips.numpy` returns NumPy's own
arrays where no argument is being differentiated. The gradient of a complex argument follows HIPS autograd's
convention: it is the conjugate of asyncgrad's and PyTorch's.

Example:
    >>> import asyncgrad.hips as autograd
    >>> import asyncgrad.hips.numpy as np
    >>> autograd.grad(lambda x: np.sum(np.tanh(x) ** 2))(np.array([0.0, 1.0])).round(4)
    array([0.    , 0.6397])
"""

from . import builtins as builtins
from . import extend as extend
from . import misc as misc
from . import numpy as numpy
from . import scipy as scipy
from . import test_util as test_util
from . import tracer as tracer
from .builtins import dict as dict
from .builtins import isinstance as isinstance
from .builtins import list as list
from .builtins import tuple as tuple
from .builtins import type as type
from .gradients import elementwise_grad as elementwise_grad
from .gradients import grad as grad
from .gradients import grad_and_aux as grad_and_aux
from .gradients import grad_named as grad_named
from .gradients import holomorphic_grad as holomorphic_grad
from .gradients import multigrad_dict as multigrad_dict
from .gradients import value_and_grad as value_and_grad
from .installing import install as install
from .primitives import checkpoint as checkpoint
from .primitives import primitive as primitive
from .products import deriv as deriv
from .products import hessian as hessian
from .products import hessian_tensor_product as hessian_tensor_product
from .products import hessian_vector_product as hessian_vector_product
from .products import jacobian as jacobian
from .products import make_ggnvp as make_ggnvp
from .products import make_hvp as make_hvp
from .products import make_jvp as make_jvp
from .products import make_vjp as make_vjp
from .products import tensor_jacobian_product as tensor_jacobian_product
from .products import vector_jacobian_product as vector_jacobian_product

__all__ = [
    "builtins",
    "checkpoint",
    "deriv",
    "dict",
    "elementwise_grad",
    "extend",
    "grad",
    "grad_and_aux",
    "grad_named",
    "hessian",
    "hessian_tensor_product",
    "hessian_vector_product",
    "holomorphic_grad",
    "install",
    "isinstance",
    "jacobian",
    "list",
    "make_ggnvp",
    "make_hvp",
    "make_jvp",
    "make_vjp",
    "misc",
    "multigrad_dict",
    "numpy",
    "primitive",
    "scipy",
    "tensor_jacobian_product",
    "test_util",
    "tracer",
    "tuple",
    "type",
    "value_and_grad",
    "vector_jacobian_product",
]


def __dir__() -> list[str]:
    return __all__
