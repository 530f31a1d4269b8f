"""The graph: nodes, edges, saved tensors, hooks and the checks of gradients. The engine, not this package, runs it."""

from typing import TYPE_CHECKING

from ..lazy import attach

if TYPE_CHECKING:
    from ..context import current_node as current_node
    from ..offload import DiskStore as DiskStore
    from ..offload import Store as Store
    from ..offload import save_on_cpu as save_on_cpu
    from ..offload import save_to_disk as save_to_disk
    from ..offload import save_to_store as save_to_store
    from ..views import CopyBackwards as CopyBackwards
    from ..views import CopySlices as CopySlices
    from ..views import TensorGeometry as TensorGeometry
    from ..views import ViewFunc as ViewFunc
    from ..views import increment_version as increment_version
    from ..views import replay_views as replay_views
    from .creation import node_creation_hook as node_creation_hook
    from .gradient_edges import any_requires_grad as any_requires_grad
    from .gradient_edges import collect_next_edges as collect_next_edges
    from .gradient_edges import create_gradient_edge as create_gradient_edge
    from .gradient_edges import set_gradient_edge as set_gradient_edge
    from .hooks import RemovableHandle as RemovableHandle
    from .leaf import AccumulateGrad as AccumulateGrad
    from .leaf import get_gradient_edge as get_gradient_edge
    from .lowering import CompiledArgs as CompiledArgs
    from .metadata import InputMetadata as InputMetadata
    from .multi_grad import register_multi_grad_hook as register_multi_grad_hook
    from .node import Edge as Edge
    from .node import GradientEdge as GradientEdge
    from .node import Node as Node
    from .node import TraceableNode as TraceableNode
    from .packed import SavedTensor as SavedTensor
    from .saved_hooks import allow_mutation_on_saved_tensors as allow_mutation_on_saved_tensors
    from .saved_hooks import disable_saved_tensors_hooks as disable_saved_tensors_hooks
    from .saved_hooks import saved_tensors_hooks as saved_tensors_hooks
    from .summary import GraphSummary as GraphSummary
    from .summary import LeafSummary as LeafSummary
    from .summary import summary as summary

__all__ = [
    "AccumulateGrad",
    "CompiledArgs",
    "CopyBackwards",
    "CopySlices",
    "DiskStore",
    "Edge",
    "GradientEdge",
    "GraphSummary",
    "InputMetadata",
    "LeafSummary",
    "Node",
    "RemovableHandle",
    "SavedTensor",
    "Store",
    "TensorGeometry",
    "TraceableNode",
    "ViewFunc",
    "allow_mutation_on_saved_tensors",
    "any_requires_grad",
    "collect_next_edges",
    "create_gradient_edge",
    "current_node",
    "disable_saved_tensors_hooks",
    "get_gradient_edge",
    "increment_version",
    "node_creation_hook",
    "register_multi_grad_hook",
    "replay_views",
    "save_on_cpu",
    "save_to_disk",
    "save_to_store",
    "saved_tensors_hooks",
    "set_gradient_edge",
    "summary",
]

if not TYPE_CHECKING:
    # A type checker that saw a `__getattr__` would take any name for one of the package.
    __getattr__, __dir__ = attach(
        __name__,
        {
            "..context": ["current_node"],
            "..offload": ["DiskStore", "Store", "save_on_cpu", "save_to_disk", "save_to_store"],
            "..views": [
                "CopyBackwards",
                "CopySlices",
                "TensorGeometry",
                "ViewFunc",
                "increment_version",
                "replay_views",
            ],
            ".creation": ["node_creation_hook"],
            ".gradient_edges": ["any_requires_grad", "collect_next_edges", "create_gradient_edge", "set_gradient_edge"],
            ".hooks": ["RemovableHandle"],
            ".leaf": ["AccumulateGrad", "get_gradient_edge"],
            ".lowering": ["CompiledArgs"],
            ".metadata": ["InputMetadata"],
            ".multi_grad": ["register_multi_grad_hook"],
            ".node": ["Edge", "GradientEdge", "Node", "TraceableNode"],
            ".packed": ["SavedTensor"],
            ".saved_hooks": ["allow_mutation_on_saved_tensors", "disable_saved_tensors_hooks", "saved_tensors_hooks"],
            ".summary": ["GraphSummary", "LeafSummary", "summary"],
        },
    )
