"""What the site does beyond Sphinx: names in code lead to their entries, and docstrings are read as Markdown."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from docutils import nodes
from sphinx import addnodes

from tools import reference

if TYPE_CHECKING:
    from sphinx.application import Sphinx

__all__ = ["setup"]

#: What pages and docstrings write for a namespace.
_SHORT = {
    "ag": "asyncgrad",
    "sync": "asyncgrad.sync",
    "nn": "asyncgrad.nn",
    "optim": "asyncgrad.optim",
    "learn": "asyncgrad.learn",
    "Tensor": "asyncgrad.Tensor",
    "Node": "asyncgrad.graph.Node",
    "GraphTask": "asyncgrad.engine.GraphTask",
}
_NAME = re.compile(r"@?(?:await )?([A-Za-z]\w*(?:\.\w+)+)(?:\(.*\))?", re.DOTALL)
_KNOWN: dict[str, Any] = {}


def setup(app: Sphinx) -> dict[str, bool]:
    """Register everything with Sphinx."""
    _KNOWN.update(reference.public_names())
    app.connect("autodoc-process-signature", _shorten)
    app.connect("autodoc-process-docstring", _tell_more, priority=100)  # ahead of napoleon
    app.connect("doctree-read", _link_code)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _shorten(app: Sphinx, what: str, name: str, thing: object, options: object, signature: str, returns: str) -> Any:
    """Leave out types that say nothing, and the arguments of what is not called."""
    if name == "asyncgrad.Tensor":
        return None, None
    if signature:
        signature = re.sub(r": (?:~?typing\.)?Any(?=[,)]| = )", "", signature)
        signature = re.sub(r"(?<=\w) = ", "=", signature) if ": " not in signature else signature
    return signature, None if returns in ("Any", "~typing.Any") else returns


def _tell_more(app: Sphinx, what: str, name: str, thing: object, options: object, lines: list[str]) -> None:
    """Add what a function of NumPy's names cannot say itself, and make links of the pages that are named."""
    if what == "function" and (told := reference.derivative_of(name)):
        lines[:] = [*lines, "", told]
    if what in ("attribute", "data", "property"):
        lines[:0] = ["..", ""]  # a comment, or napoleon takes what stands before a colon for a type
    lines[:] = [
        line if line.lstrip().startswith((">>>", "...")) else reference.as_restructured_text(line) for line in lines
    ]


def _link_code(app: Sphinx, doctree: nodes.document) -> None:
    """Make a link of each name in code that the reference has."""
    for literal in list(doctree.findall(nodes.literal)):
        found = _NAME.fullmatch(literal.astext())
        if found is None or isinstance(literal.parent, (nodes.reference, nodes.title, addnodes.pending_xref)):
            continue
        head, _, rest = found[1].partition(".")
        target = f"{_SHORT.get(head, head)}.{rest}"
        if not target.startswith("asyncgrad.") or _is_within_its_entry(literal, target):
            continue
        link = addnodes.pending_xref(
            "", refdomain="py", reftype="obj", reftarget=target, refexplicit=True, refdoc=app.env.docname
        )
        literal.replace_self(link)
        link += literal


def _is_within_its_entry(node: nodes.Node, target: str) -> bool:
    while node.parent is not None:
        node = node.parent
        if isinstance(node, addnodes.desc) and any(
            target in one.get("ids", ()) for one in node.findall(addnodes.desc_signature)
        ):
            return True
    return False
