"""The exceptions that asyncgrad raises, each a subclass of the built-in one that a caller would expect.

::

    AsyncgradError
    ├── GraphError(RuntimeError)            the graph cannot be run as asked
    │   ├── ReleasedGraphError              a second backward through released saved tensors
    │   ├── ChangedTensorError              a saved tensor was changed in place
    │   ├── AnomalyError                    a NaN in a gradient, under anomaly mode
    │   ├── UnusedInputError                an input that the outputs do not depend on
    │   ├── InvalidRootError                a root that cannot start a backward
    │   └── CheckpointError                 a recomputation that differs from the forward
    ├── InvalidGradientError(RuntimeError)  a gradient of the wrong shape, dtype, device or count
    ├── GradientTypeError(TypeError)        a value that is no array in place of a gradient
    ├── HookError(RuntimeError)             a hook in a wrong place, or with a wrong result
    ├── HookTypeError(TypeError)            a hook that is no function, or returned a wrong type
    ├── ProfileError(RuntimeError)          a profile that is still recording, or has recorded nothing
    ├── ConvergenceError(RuntimeError)      an iteration that did not come close enough to its limit
    ├── GradcheckError(RuntimeError)        a gradient that finite differences contradict
    ├── InPlaceError(RuntimeError, TypeError)  a write into an array whose history forbids it
    ├── RequiresGradError(RuntimeError)     requires_grad missing, or not possible
    ├── DeviceError(RuntimeError)           devices mixed, unknown or gone
    │   └── HazardError                     streams that use an array at the same time
    ├── MissingDerivativeError(TypeError)   a NumPy function without a derivative rule
    ├── BlockingError(RuntimeError)         a blocking call that would have to suspend
    ├── DeadlockError(RuntimeError)         tasks wait for one another, or for an event that nothing will set
    ├── BusyError(RuntimeError)             more requests wait than may
    ├── LearnerClosedError(RuntimeError)    a learner that has not begun, or has ended
    ├── LearningPausedError(RuntimeError)   a learner that predicts, and learns nothing for now
    ├── ModelDirectoryError(RuntimeError)   a directory that a learner cannot use, or that holds something else
    ├── JournalError(OSError)               what was learned could not be written
    ├── RequestError(RuntimeError)          an HTTP request that is refused, with its status
    │   └── ClientDisconnectedError         nobody waits for the answer any more
    ├── StageLost(RuntimeError)             the worker of a stage has gone, and with it what nobody else has
    ├── ReplicaError(RuntimeError)          another replica of a model has failed, or differs
    ├── WorkerLostError(ConnectionError)    a worker does not answer
    ├── RemoteError(RuntimeError)           an error at a worker whose type is not known here
    ├── UnknownStageError(LookupError)      a worker that has no such stage
    ├── UnknownCallError(LookupError)       a worker that has no graph of a call
    ├── UnknownTransactionError(LookupError)  a worker that has prepared nothing for a backward
    ├── StoreError(OSError)                 a store of saved tensors failed: disk full, file gone, no permission
    ├── ArgumentError(ValueError)           an argument of a shape or value that a function cannot work with
    │   ├── ExampleError                    an example or an input that a learner cannot take
    │   └── PayloadError                    a message of more bytes than may be sent
    ├── ArgumentTypeError(TypeError)        an argument of a type that a function cannot work with
    └── IndexRangeError(IndexError)         a label or index that points outside of what it selects from

    StoreWarning(RuntimeWarning)            a tensor that a store could not take stays in memory
    PromotionWarning(RuntimeWarning)        an operation has made a wider dtype of a tensor's
"""

from __future__ import annotations

__all__ = [
    "AnomalyError",
    "ArgumentError",
    "ArgumentTypeError",
    "AsyncgradError",
    "BlockingError",
    "BusyError",
    "ChangedTensorError",
    "CheckpointError",
    "ClientDisconnectedError",
    "ConvergenceError",
    "DeadlockError",
    "DeviceError",
    "ExampleError",
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
    "JournalError",
    "LearnerClosedError",
    "LearningPausedError",
    "MissingDerivativeError",
    "ModelDirectoryError",
    "ReleasedGraphError",
    "OverlappingStepsError",
    "PayloadError",
    "ProfileError",
    "PromotionWarning",
    "RemoteError",
    "ReplicaError",
    "RequestError",
    "RequiresGradError",
    "StageLost",
    "StoreError",
    "StoreWarning",
    "UnknownCallError",
    "UnknownStageError",
    "UnknownTransactionError",
    "UnusedInputError",
    "WorkerLostError",
]


class AsyncgradError(Exception):
    """The base class of all errors that asyncgrad raises on purpose."""


class GraphError(AsyncgradError, RuntimeError):
    """The graph cannot be run as asked."""


class ReleasedGraphError(GraphError):
    """A backward met a node whose saved tensors an earlier backward has released."""


class ChangedTensorError(GraphError):
    """A tensor was changed in place after a node had saved it for its backward."""


class AnomalyError(GraphError):
    """A node returned NaN in a backward under anomaly mode."""


class UnusedInputError(GraphError):
    """A gradient was requested for an input that the outputs do not depend on."""


class InvalidRootError(GraphError):
    """A tensor cannot be the root of a backward as it stands."""


class CheckpointError(GraphError):
    """The recomputation of a checkpointed function differs from its forward."""


class InvalidGradientError(AsyncgradError, RuntimeError):
    """A gradient does not fit the tensor that it belongs to."""


class GradientTypeError(AsyncgradError, TypeError):
    """A value given as a gradient is neither a tensor nor an array."""


class HookError(AsyncgradError, RuntimeError):
    """A hook was registered where none may be, changed its input, or returned an array that does not fit."""


class HookTypeError(AsyncgradError, TypeError):
    """A hook cannot be called, or returned a value of the wrong type."""


class ProfileError(AsyncgradError, RuntimeError):
    """A profile is still recording, or has recorded nothing of what is asked for."""


class ConvergenceError(AsyncgradError, RuntimeError):
    """An iteration has not come close enough to its limit."""


class GradcheckError(AsyncgradError, RuntimeError):
    """A gradient of a backward differs from that of finite differences."""


class InPlaceError(AsyncgradError, RuntimeError, TypeError):
    """An in-place write into an array was refused, because the array's history forbids it.

    It is a RuntimeError, as PyTorch's, and a TypeError, as Python's for an object that does not take assignments.
    """


class OverlappingStepsError(AsyncgradError, RuntimeError):
    """Two training steps of one optimizer would read or change its gradients or parameters at the same time."""


class RequiresGradError(AsyncgradError, RuntimeError):
    """A tensor that must require grad does not, or one that cannot require grad is asked to."""


class DeviceError(AsyncgradError, RuntimeError):
    """Tensors of several devices met in one operation, or a device is unknown or gone."""


class HazardError(DeviceError):
    """An array was used on a stream while another stream may still be using it, with no event between them."""


class MissingDerivativeError(AsyncgradError, TypeError):
    """A NumPy function that has no derivative rule was called on a Tensor."""


class BlockingError(AsyncgradError, RuntimeError):
    """A blocking call would have to suspend while an event loop runs in this thread."""


class DeadlockError(AsyncgradError, RuntimeError):
    """Tasks wait on a ScheduleLoop on which nothing can wake them; the message lists what each waits for."""


class BusyError(AsyncgradError, RuntimeError):
    """More requests wait than may: try again a little later."""


class LearnerClosedError(AsyncgradError, RuntimeError):
    """A learner was used before its `async with` block, or after it."""


class LearningPausedError(AsyncgradError, RuntimeError):
    """A learner learns nothing until it is resumed; the message says why it was paused."""


class ModelDirectoryError(AsyncgradError, RuntimeError):
    """A directory cannot be used for a model; the message says why, and what to do."""


class JournalError(AsyncgradError, OSError):
    """An example could not be written to the journal, and was not learned.

    The message says so where the disk did not let it be removed either, so that a restart may still learn it.
    """


class RequestError(AsyncgradError, RuntimeError):
    """An HTTP request is refused.

    Args:
        status: of the answer, 4xx or 5xx.
        text: what is wrong.
        headers: of the answer.
    """

    def __init__(self, status: int, text: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(status, text, headers)
        self.status: int = status
        self.text: str = text
        self.headers: dict[str, str] = headers or {}

    def __str__(self) -> str:
        return f"{self.status}: {self.text}"


class ClientDisconnectedError(RequestError):
    """The client has gone: nobody waits for the answer."""


class StageLost(AsyncgradError, RuntimeError):
    """The worker of a stage has gone, and its work cannot be done again elsewhere; nothing has changed."""


class ReplicaError(AsyncgradError, RuntimeError):
    """The backward of another replica of a model has failed, or the replicas differ; no gradient has changed."""


class WorkerLostError(AsyncgradError, ConnectionError):
    """A worker has gone, or does not answer."""


class RemoteError(AsyncgradError, RuntimeError):
    """A worker raised an error whose type cannot be made here; the message begins with its name."""


class UnknownStageError(AsyncgradError, LookupError):
    """A worker does not have the stage that it was asked for."""


class UnknownCallError(AsyncgradError, LookupError):
    """A worker does not have the graph of a call: it never had, it was freed, or its time was over."""


class UnknownTransactionError(AsyncgradError, LookupError):
    """A worker is to commit what it has not prepared."""


class StoreError(AsyncgradError, OSError):
    """A store of saved tensors could not put, get or delete one; `errno` is the system's, if there is one."""


class StoreWarning(RuntimeWarning):
    """A store could not take a saved tensor, which stays in memory; the backward works with it there."""


class PromotionWarning(RuntimeWarning):
    """An operation on a tensor has given a wider floating dtype, since another operand was wider."""


class ConvergenceWarning(RuntimeWarning):
    """A backward differentiated what a solver returned that had not found a solution."""


class ArgumentError(AsyncgradError, ValueError):
    """An argument has a shape, a dtype or a value that the function cannot work with."""


class ArgumentTypeError(AsyncgradError, TypeError):
    """An argument is of a type that the function cannot work with."""


class ExampleError(ArgumentError):
    """An example or an input that a learner cannot take; nothing was learned from it."""


class PayloadError(ArgumentError):
    """A message has more bytes than may be sent."""


class IndexRangeError(AsyncgradError, IndexError):
    """A label or an index points outside of what it selects from."""
