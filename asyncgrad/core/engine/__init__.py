"""The engine: one backward, from its roots to its end, awaited or blocking. It does not depend on NumPy."""
