"""What an error says of a package that an extra brings: the one place that words it."""

from __future__ import annotations

__all__ = ["install_line", "missing_extra", "why_missing"]


def install_line(*extras: str) -> str:
    """Return the commands that install one of the extras: from an index, and in a clone, which needs none.

    Args:
        extras: names of extras of pyproject.toml, any of which has what is needed.

    Example:
        >>> install_line("scipy")
        "pip install 'asyncgrad[scipy]', or in a clone: pip install -e '.[scipy]'"
    """
    from_index = ", or ".join(f"'asyncgrad[{extra}]'" for extra in extras)
    in_clone = ", or ".join(f"'.[{extra}]'" for extra in extras)
    return f"pip install {from_index}, or in a clone: pip install -e {in_clone}"


def why_missing(error: ImportError, *extras: str, instead: str = "") -> str:
    """Return why a package of an extra cannot be used, and what to install.

    Args:
        error: of the import.
        extras: those that bring the package.
        instead: another way, which ends the sentence.
    """
    what = "is not installed" if isinstance(error, ModuleNotFoundError) else f"cannot be imported ({error})"
    return f"{what}: {install_line(*extras)}{instead}"


def missing_extra(what: str, *extras: str, error: ImportError, instead: str = "") -> ImportError:
    """Return the error for what cannot work without an extra: it names the extra, and the line that installs it.

    Args:
        what: the beginning of the sentence, which ends with the name of the package: "asyncgrad.scipy needs SciPy".
        extras: those that bring the package.
        error: of the import. A package that is there and cannot be imported is said to be so: installing it again as
            it is may change nothing, and the reason is what helps.
        instead: another way, which ends the sentence.

    Returns:
        A ModuleNotFoundError with the name of the module if it is not there, else an ImportError.

    Example:
        >>> error = ModuleNotFoundError("No module named 'scipy'", name="scipy")
        >>> missing_extra("asyncgrad.scipy needs SciPy", "scipy", error=error).name
        'scipy'
    """
    kind = ModuleNotFoundError if isinstance(error, ModuleNotFoundError) else ImportError
    return kind(f"{what}, which {why_missing(error, *extras, instead=instead)}", name=error.name, path=error.path)
