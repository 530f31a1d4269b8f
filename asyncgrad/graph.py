"""The graph: nodes, edges, saved tensors, hooks and the checks of gradients. The engine, not this package, runs it."""

from typing import TYPE_CHECKING

from .core.settings.lazy import attach

if TYPE_CHECKING:
    from .core.arrays.hooks import RemovableHandle as RemovableHandle
    from .core.graph.creation import node_creation_hook as node_creation_hook
    from .core.graph.gradient_edges import any_requires_grad as any_requires_grad
    from .core.graph.gradient_edges import collect_next_edges as collect_next_edges
    from .core.graph.gradient_edges import create_gradient_edge as create_gradient_edge
    from .core.graph.gradient_edges import set_gradient_edge as set_gradient_edge
    from .core.graph.leaf import AccumulateGrad as AccumulateGrad
    from .core.graph.leaf import get_gradient_edge as get_gradient_edge
    from .core.graph.lowering import CompiledArgs as CompiledArgs
    from .core.graph.metadata import InputMetadata as InputMetadata
    from .core.graph.multi_grad import register_multi_grad_hook as register_multi_grad_hook
    from .core.graph.node import Edge as Edge
    from .core.graph.node import GradientEdge as GradientEdge
    from .core.graph.node import Node as Node
    from .core.graph.node import TraceableNode as TraceableNode
    from .core.graph.packed import SavedTensor as SavedTensor
    from .core.graph.saved_hooks import allow_mutation_on_saved_tensors as allow_mutation_on_saved_tensors
    from .core.graph.saved_hooks import disable_saved_tensors_hooks as disable_saved_tensors_hooks
    from .core.graph.saved_hooks import saved_tensors_hooks as saved_tensors_hooks
    from .core.graph.summary import GraphSummary as GraphSummary
    from .core.graph.summary import LeafSummary as LeafSummary
    from .core.graph.summary import summary as summary
    from .core.settings.context import current_node as current_node
    from .core.views import CopyBackwards as CopyBackwards
    from .core.views import CopySlices as CopySlices
    from .core.views import TensorGeometry as TensorGeometry
    from .core.views import ViewFunc as ViewFunc
    from .core.views import increment_version as increment_version
    from .core.views import replay_views as replay_views
    from .memory.offload import DiskStore as DiskStore
    from .memory.offload import Store as Store
    from .memory.offload import save_on_cpu as save_on_cpu
    from .memory.offload import save_to_disk as save_to_disk
    from .memory.offload import save_to_store as save_to_store

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
            ".core.settings.context": ["current_node"],
            ".memory.offload": ["DiskStore", "Store", "save_on_cpu", "save_to_disk", "save_to_store"],
            ".core.views": [
                "CopyBackwards",
                "CopySlices",
                "TensorGeometry",
                "ViewFunc",
                "increment_version",
                "replay_views",
            ],
            ".core.graph.creation": ["node_creation_hook"],
            ".core.graph.gradient_edges": [
                "any_requires_grad",
                "collect_next_edges",
                "create_gradient_edge",
                "set_gradient_edge",
            ],
            ".core.arrays.hooks": ["RemovableHandle"],
            ".core.graph.leaf": ["AccumulateGrad", "get_gradient_edge"],
            ".core.graph.lowering": ["CompiledArgs"],
            ".core.graph.metadata": ["InputMetadata"],
            ".core.graph.multi_grad": ["register_multi_grad_hook"],
            ".core.graph.node": ["Edge", "GradientEdge", "Node", "TraceableNode"],
            ".core.graph.packed": ["SavedTensor"],
            ".core.graph.saved_hooks": [
                "allow_mutation_on_saved_tensors",
                "disable_saved_tensors_hooks",
                "saved_tensors_hooks",
            ],
            ".core.graph.summary": ["GraphSummary", "LeafSummary", "summary"],
        },
    )
