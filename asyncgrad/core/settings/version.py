"""The version of the package; pyproject.toml reads it here."""

__all__ = ["__version__"]

__version__ = "1.0.0rc1"
