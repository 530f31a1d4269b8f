"""Functions in machine code, which llvmlite compiles.

Two threads are never within LLVM, by a lock of llvmlite's. A fork waits for that lock: a child in which a thread of its
parent held it would wait for ever, also where it lets go of a function.
"""

from __future__ import annotations

import functools
from typing import Any

from ..core.settings.process import hold_in_forks

__all__ = ["compiled_functions", "features_of_processor"]


@functools.cache
def _binding() -> Any:
    """Return the module of llvmlite that compiles, ready to do so."""
    from llvmlite import binding  # optional

    # Its lock has no name by which others may ask for it. Where another llvmlite keeps it elsewhere, forks do not wait.
    lock = getattr(getattr(binding.ffi.lib, "_lock", None), "_lock", None)
    if lock is not None:
        hold_in_forks(lock)
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    return binding


def features_of_processor() -> Any:
    """Return what the processor can do, by the names that LLVM has for it."""
    return _binding().get_host_cpu_features()


def compiled_functions(source: str) -> Any:
    """Return what holds the functions of a text in LLVM's language, and tells their addresses.

    They are there as long as it is.
    """
    binding = _binding()
    module = binding.parse_assembly(source)
    module.verify()
    target = binding.Target.from_default_triple()
    features = features_of_processor().flatten()
    machine = target.create_target_machine(cpu=binding.get_host_cpu_name(), features=features, opt=2)
    engine = binding.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    return engine
