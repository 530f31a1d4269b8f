"""The exceptions asyncgrad raises, each a subclass of the built-in that a caller would expect.

::

    AsyncgradError
    ├── GraphError(RuntimeError)            the graph cannot be run as asked
    │   ├── ReleasedGraphError              a second backward through released saved tensors
    │   ├── ChangedTensorError              a saved tensor was changed in place
    │   ├── AnomalyError                    a NaN in a gradient, under anomaly mode
    │   ├── UnusedInputError                an input that the outputs do not depend on
    │   ├── InvalidRootError                a root that cannot start a backward
    │   └── CheckpointError                 a recomputation that is not what the forward was
    ├── InvalidGradientError(RuntimeError)  a gradient of the wrong shape, dtype, device or count
    ├── GradientTypeError(TypeError)        something that is no gradient where one belongs
    ├── HookError(RuntimeError)             a hook that returned what it may not
    ├── HookTypeError(TypeError)            a hook that returned a value of the wrong type
    ├── GradcheckError(RuntimeError)        a gradient that finite differences contradict
    ├── InPlaceError(RuntimeError)          a write into an array whose history forbids it
    ├── RequiresGradError(RuntimeError)     requires_grad where it cannot be, or is missing
    ├── DeviceError(RuntimeError)           devices mixed, unknown or dead
    │   └── HazardError                     streams that use an array at the same time
    ├── MissingDerivativeError(TypeError)   a NumPy function without a derivative rule
    ├── BlockingError(RuntimeError)         a blocking call that would have to suspend
    ├── DeadlockError(RuntimeError)         tasks wait for one another, or for an event that nothing will set
    ├── StoreError(OSError)                 a store of saved tensors failed: disk full, file gone, no permission
    ├── ArgumentError(ValueError)           an argument of a shape or value that a function cannot work with
    └── IndexRangeError(IndexError)         a label or index that points outside of what it selects from

    StoreWarning(RuntimeWarning)            what a store could not take has stayed in memory
"""

from __future__ import annotations

__all__ = [
    "AnomalyError",
    "ArgumentError",
    "ArgumentTypeError",
    "AsyncgradError",
    "BlockingError",
    "ChangedTensorError",
    "CheckpointError",
    "DeadlockError",
    "DeviceError",
    "GradcheckError",
    "GradientTypeError",
    "GraphError",
    "HazardError",
    "HookError",
    "HookTypeError",
    "InPlaceError",
    "IndexRangeError",
    "InvalidGradientError",
    "InvalidRootError",
    "MissingDerivativeError",
    "ReleasedGraphError",
    "RequiresGradError",
    "StoreError",
    "StoreWarning",
    "UnusedInputError",
]


class AsyncgradError(Exception):
    """Everything that asyncgrad raises on purpose is one of these."""


class GraphError(AsyncgradError, RuntimeError):
    """The graph cannot be run as asked."""


class ReleasedGraphError(GraphError):
    """A backward met a node whose saved tensors an earlier backward has released."""


class ChangedTensorError(GraphError):
    """A tensor that a node saved for its backward was changed in place since."""


class AnomalyError(GraphError):
    """A node returned NaN in a backward under anomaly mode."""


class UnusedInputError(GraphError):
    """A gradient was asked for an input that the outputs do not depend on."""


class InvalidRootError(GraphError):
    """A tensor cannot be the root of a backward as it stands."""


class CheckpointError(GraphError):
    """A checkpointed function, called again, has not done what it did in the forward."""


class InvalidGradientError(AsyncgradError, RuntimeError):
    """A gradient does not fit the tensor that it belongs to."""


class GradientTypeError(AsyncgradError, TypeError):
    """Something that is no array stands where a gradient belongs."""


class HookError(AsyncgradError, RuntimeError):
    """A hook was put where it cannot be, or changed what it may not."""


class HookTypeError(AsyncgradError, TypeError):
    """A hook returned a value of the wrong type."""


class GradcheckError(AsyncgradError, RuntimeError):
    """A gradient that a backward gives is not what finite differences give."""


class InPlaceError(AsyncgradError, RuntimeError):
    """An array was to be written in place, and its history forbids that."""


class RequiresGradError(AsyncgradError, RuntimeError):
    """A tensor that must require grad does not, or one that cannot is asked to."""


class DeviceError(AsyncgradError, RuntimeError):
    """Tensors of several devices met in one operation, or a device is unknown or gone."""


class HazardError(DeviceError):
    """An array was used on a stream while another stream may still be using it, with no event between them."""


class MissingDerivativeError(AsyncgradError, TypeError):
    """A NumPy function that has no derivative rule was called on a Tensor."""


class BlockingError(AsyncgradError, RuntimeError):
    """A blocking call would have to suspend while an event loop runs in this thread."""


class DeadlockError(AsyncgradError, RuntimeError):
    """Tasks wait on a ScheduleLoop on which nothing is left that could wake them; lists what each waits for."""


class StoreError(AsyncgradError, OSError):
    """A store of saved tensors could not put, get or delete one; `errno` is the system's, where it has one."""


class StoreWarning(RuntimeWarning):
    """A saved tensor that a store could not take has stayed in memory, and the backward goes on with it there."""


class ArgumentError(AsyncgradError, ValueError):
    """An argument has a shape, a dtype or a value that the function cannot work with."""


class ArgumentTypeError(AsyncgradError, TypeError):
    """An argument is of a type that the function cannot work with."""


class IndexRangeError(AsyncgradError, IndexError):
    """A label or an index points outside of what it selects from."""
