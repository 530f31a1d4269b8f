"""Reverse-mode automatic differentiation on NumPy whose backward pass you can await."""

from typing import TYPE_CHECKING

from .core.settings.lazy import attach
from .core.settings.version import __version__ as __version__

if TYPE_CHECKING:
    from . import data as data
    from . import devices as devices
    from . import distributed as distributed
    from . import engine as engine
    from . import errors as errors
    from . import extend as extend
    from . import func as func
    from . import functional as functional
    from . import graph as graph
    from . import hips as hips
    from . import interop as interop
    from . import learn as learn
    from . import nn as nn
    from . import numpy as numpy
    from . import optim as optim
    from . import random as random
    from . import remote as remote
    from . import scipy as scipy
    from . import sync as sync
    from . import testing as testing
    from . import tree as tree
    from . import values as values
    from .core.backward import backward as backward
    from .core.backward import grad as grad
    from .core.engine.compiled.api import compiled_autograd as compiled_autograd
    from .core.engine.device import default_device as default_device
    from .core.engine.device import device as device
    from .core.engine.loops import run as run
    from .core.engine.offloading import forward as forward
    from .core.function.function import Function as Function
    from .core.function.once_differentiable import once_differentiable as once_differentiable
    from .core.graph.anomaly import detect_anomaly as detect_anomaly
    from .core.graph.promotion import warn_on_promotion as warn_on_promotion
    from .core.requests.batched import batched as batched
    from .core.requests.limit import limit as limit
    from .core.settings.context import enable_grad as enable_grad
    from .core.settings.context import is_grad_enabled as is_grad_enabled
    from .core.settings.context import no_grad as no_grad
    from .core.settings.context import set_grad_enabled as set_grad_enabled
    from .core.settings.default_dtype import default_dtype as default_dtype
    from .core.settings.scheduling import loop_budget as loop_budget
    from .core.settings.scheduling import no_full_collections as no_full_collections
    from .core.settings.scheduling import offload_threshold as offload_threshold
    from .core.settings.scheduling import workers as workers
    from .core.tensor import Tensor as Tensor
    from .core.tensor import asarray as asarray
    from .core.tensor import tensor as tensor
    from .core.value import Value as Value
    from .core.value import leaf as leaf
    from .functional import hessian as hessian
    from .functional import hvp as hvp
    from .functional import jacobian as jacobian
    from .functional import jvp as jvp
    from .functional import value_and_grad as value_and_grad
    from .functional import vhp as vhp
    from .functional import vjp as vjp
    from .memory.checkpoint import checkpoint as checkpoint
    from .memory.checkpoint import checkpoint_chain as checkpoint_chain
    from .memory.checkpoint import checkpoint_sequential as checkpoint_sequential
    from .observing.module_summary import summary as summary
    from .observing.profile import profile as profile
    from .observing.progress import progress as progress
    from .observing.visualize import visualize as visualize
    from .testing import gradcheck as gradcheck
    from .testing import gradgradcheck as gradgradcheck
    from .tracing.jit import jit as jit

__all__ = [
    "Function",
    "Tensor",
    "Value",
    "asarray",
    "backward",
    "batched",
    "checkpoint",
    "checkpoint_chain",
    "checkpoint_sequential",
    "compiled_autograd",
    "data",
    "default_device",
    "default_dtype",
    "detect_anomaly",
    "device",
    "devices",
    "distributed",
    "enable_grad",
    "engine",
    "errors",
    "extend",
    "forward",
    "func",
    "functional",
    "grad",
    "gradcheck",
    "gradgradcheck",
    "graph",
    "hessian",
    "hips",
    "hvp",
    "interop",
    "is_grad_enabled",
    "jacobian",
    "jit",
    "jvp",
    "leaf",
    "learn",
    "limit",
    "loop_budget",
    "nn",
    "no_full_collections",
    "no_grad",
    "numpy",
    "offload_threshold",
    "once_differentiable",
    "optim",
    "profile",
    "progress",
    "random",
    "remote",
    "run",
    "scipy",
    "set_grad_enabled",
    "summary",
    "sync",
    "tensor",
    "testing",
    "tree",
    "value_and_grad",
    "values",
    "vhp",
    "visualize",
    "vjp",
    "warn_on_promotion",
    "workers",
]

if not TYPE_CHECKING:
    # A type checker that saw a `__getattr__` would take any name for one of the package.
    __getattr__, __dir__ = attach(
        __name__,
        {
            "": [
                "data",
                "devices",
                "distributed",
                "engine",
                "errors",
                "extend",
                "func",
                "functional",
                "graph",
                "hips",
                "interop",
                "learn",
                "nn",
                "numpy",
                "optim",
                "random",
                "remote",
                "scipy",
                "sync",
                "testing",
                "tree",
                "values",
            ],
            ".core.backward": ["backward", "grad"],
            ".memory.checkpoint": ["checkpoint", "checkpoint_chain", "checkpoint_sequential"],
            ".core.settings.context": ["enable_grad", "is_grad_enabled", "no_grad", "set_grad_enabled"],
            ".core.settings.default_dtype": ["default_dtype"],
            ".core.engine.compiled.api": ["compiled_autograd"],
            ".core.engine.device": ["default_device", "device"],
            ".core.engine.loops": ["run"],
            ".core.engine.offloading": ["forward"],
            ".core.function.function": ["Function"],
            ".functional": ["hessian", "hvp", "jacobian", "jvp", "value_and_grad", "vhp", "vjp"],
            ".core.graph.anomaly": ["detect_anomaly"],
            ".core.graph.promotion": ["warn_on_promotion"],
            ".core.function.once_differentiable": ["once_differentiable"],
            ".observing.profile": ["profile"],
            ".observing.progress": ["progress"],
            ".core.requests.batched": ["batched"],
            ".core.requests.limit": ["limit"],
            ".core.settings.scheduling": ["loop_budget", "no_full_collections", "offload_threshold", "workers"],
            ".core.tensor": ["Tensor", "asarray", "tensor"],
            ".core.value": ["Value", "leaf"],
            ".testing": ["gradcheck", "gradgradcheck"],
            ".tracing.jit": ["jit"],
            ".observing.visualize": ["visualize"],
            ".observing.module_summary": ["summary"],
        },
        first=".core.tensor",
        deferred={
            "names": ".interop.other_names",
            "numpy": ".numpy",
            "scipy": ".scipy",
            "scipy.sparse": ".scipy.sparse.constants",
            "scipy.special": ".scipy.special",
        },
    )
