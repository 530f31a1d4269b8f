"""Offloading: saved tensors are kept outside of memory, and read back before the backward needs them."""

from .disk import DiskStore as DiskStore
from .modes import save_on_cpu as save_on_cpu
from .modes import save_to_disk as save_to_disk
from .modes import save_to_store as save_to_store
from .store import Store as Store

__all__ = ["DiskStore", "Store", "save_on_cpu", "save_to_disk", "save_to_store"]
