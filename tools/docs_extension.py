"""What the site does beyond Sphinx: names in code lead to their entries, docstrings are read as Markdown.

Formulas are shown as MathML, which needs no script. Each page has a link to its source and tags for cards of links.
"""

from __future__ import annotations

import html
import inspect
import re
from typing import TYPE_CHECKING, Any

from docutils import nodes
from sphinx import addnodes
from sphinx.util.inspect import signature as signature_of
from sphinx.util.inspect import stringify_signature

from tools import reference
from tools.derivative_examples import example_of
from tools.formulas import as_mathml, formula_of
from tools.stand_ins import import_modules

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


#: What a signature calls a type for short, and what the reader is told.
_ALIASES = {"Place": "str | Device | None", "npt.DTypeLike": "DTypeLike"}
#: Where PyTorch describes a name.
_TORCH = "https://docs.pytorch.org/docs/stable/generated"
_SOURCE = re.compile(r"(^|\s)Source: ((?:torch|scipy|jax)(?:\.\w+)+)(?=[.,;]|\s)")
_LIBRARIES = {"torch": "PyTorch", "scipy": "SciPy", "jax": "JAX"}


def setup(app: Sphinx) -> dict[str, bool]:
    """Register everything with Sphinx."""
    import_modules()
    _KNOWN.update(reference.public_names())
    app.add_html_math_renderer("mathml", (_show_formula, None), (_show_formula, None))
    app.connect("autodoc-process-signature", _shorten)
    app.connect("autodoc-process-docstring", _tell_more, priority=100)  # ahead of napoleon
    app.connect("autodoc-skip-member", _is_told_above)
    app.connect("doctree-read", _link_code)
    app.connect("doctree-read", _shorten_types)
    app.connect("html-page-context", _describe)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _show_formula(writer: Any, node: nodes.math | nodes.math_block) -> None:
    is_block = isinstance(node, nodes.math_block)
    formula = as_mathml(node.astext(), is_block)
    writer.body.append(f'<div class="math">{formula}</div>\n' if is_block else formula)
    raise nodes.SkipNode


def _shorten(app: Sphinx, what: str, name: str, thing: Any, options: object, signature: str, returns: str) -> Any:
    """Leave out types that say nothing, the arguments of what is not called, and what Python prints of objects."""
    if name in reference.GIVEN:
        return "", ""
    if what in ("class", "exception") and re.fullmatch(r"\(\*args(: \S+)?, \*\*kwargs(: \S+)?\)", signature or ""):
        signature = _constructor(thing)
    if signature:
        signature = as_written(signature)
        signature = re.sub(r": (?:~?typing\.)?Any(?=[,)]| = )", "", signature)
        signature = re.sub(r"(?<=\w) = ", "=", signature) if ": " not in signature else signature
    return signature, None if returns in ("Any", "~typing.Any") else returns


def _constructor(cls: Any) -> str:
    """Return the arguments of `__init__`, where Sphinx has taken those of a `__new__` that only passes them on."""
    if cls.__init__ is object.__init__:
        return "()"
    parameters = signature_of(cls.__init__, bound_method=True)
    written: str = stringify_signature(parameters, show_return_annotation=False, unqualified_typehints=True)
    return written


def as_written(signature: str) -> str:
    """Return a signature with its defaults as a program writes them: `float`, not `<class 'float'>`."""
    signature = re.sub(r"<class '([\w.]+)'>", r"\1", signature)
    signature = re.sub(r"<(?:built-in )?function ([A-Za-z]\w*)>", r"\1", signature)
    signature = re.sub(r"~(?:\w+\.)*~(?=\w)", "", signature)  # of a ParamSpec
    signature = signature.replace("<no value>", "...")
    signature = re.sub(r"<(?:function|factory|\w[\w.]* object)\b[^<>]*>", "...", signature)
    for alias, meaning in _ALIASES.items():
        signature = re.sub(rf": {re.escape(alias)}(?= |,|\)|$)", f": {meaning}", signature)
    return signature


#: What the docstrings of members begin with that say nothing of their own: Python's of the fields of a tuple, which the
#: signature of its class has; what a loop for tests refuses; and methods that are those of NumPy's arrays.
_UNTOLD = ("Alias for field number", "Refuse: ", "As numpy.ndarray.")


def _is_told_above(app: Sphinx, what: str, name: str, thing: object, skip: bool, options: object) -> bool | None:
    """Leave out members of which nothing is to be said, and each layer's way to show itself, but for Module's."""
    if name == "extra_repr" and getattr(thing, "__qualname__", "") != "Module.extra_repr":
        return True
    return True if (inspect.getdoc(thing) or "").startswith(_UNTOLD) else None


def _tell_more(app: Sphinx, what: str, name: str, thing: object, options: object, lines: list[str]) -> None:
    """Add what a docstring does not say itself: formulas, derivatives, links; make links of pages that are named."""
    if what == "function" and (told := reference.derivative_of(name)):
        lines[:] = [*lines, "", told]
        if ">>>" not in "\n".join(lines) and (example := example_of(name)):
            lines += ["", "Example:", *(f"    {line}" for line in example)]
    if what in ("attribute", "data", "property"):
        lines[:0] = ["..", ""]  # a comment, or napoleon takes what stands before a colon for a type
    text = "\n".join(
        line if line.lstrip().startswith((">>>", "...")) else reference.as_restructured_text(line) for line in lines
    )
    lines[:] = _SOURCE.sub(_counterpart, text).split("\n")
    if what in ("class", "data", "function"):
        lines[:] = _with_page(name, lines)
    if what in ("class", "function") and (formula := formula_of(name)):
        first = lines.index("") if "" in lines else len(lines)
        lines[first:first] = ["", ".. math::", "", f"   {formula}", ""]


def _with_page(name: str, lines: list[str]) -> list[str]:
    """Return a docstring with a link to NumPy's or SciPy's page ahead of its example, if there is such a page."""
    page = reference.page_of(name)
    if page is None or any(page in line for line in lines):
        return lines
    theirs = name.replace("asyncgrad.", "", 1)
    link = ["", f"{'SciPy' if theirs.startswith('scipy') else 'NumPy'}'s page: `{theirs} <{page}>`__.", ""]
    place = next((at for at, line in enumerate(lines) if line.startswith("Example")), len(lines))
    return [*lines[:place], *link, *lines[place:]]


def _counterpart(match: re.Match[str]) -> str:
    """Return which function of another library this is, with a link to its page there."""
    before, name = match.groups()
    library = name.partition(".")[0]
    if library == "scipy":
        page = f"https://docs.scipy.org/doc/scipy/reference/generated/{name}.html"
    elif re.fullmatch(r"torch\.(?:nn\.(?:functional\.)?|optim\.(?:lr_scheduler\.)?)\w+", name):
        page = f"{_TORCH}/{name}.html"
    else:
        return f"{before}In {_LIBRARIES[library]}: `{name}`"
    return f"{before}In {_LIBRARIES[library]}: `{name} <{page}>`__"


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


def _shorten_types(app: Sphinx, doctree: nodes.document) -> None:
    """Leave out what a further form of a function, which is no event of autodoc's, says of a type variable."""
    for signature in doctree.findall(addnodes.desc_signature):
        for text in list(signature.findall(nodes.Text)):
            if "~" in text and "'" not in text:
                text.parent.replace(text, nodes.Text(re.sub(r"~(?:\w+\.)*~?(?=\w)", "", text)))


def _describe(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: nodes.document | None) -> None:
    """Add what a search engine and a card of a link show of a page: its title, and its first paragraph."""
    title = html.escape(re.sub(r"<[^>]*>", "", html.unescape(context.get("title") or app.config.project)))
    tags = {"og:type": "website", "og:site_name": app.config.project, "og:title": title}
    told = first_paragraph(doctree) if doctree is not None else ""
    words = html.escape(told) or f"{title}: {app.config.project}"
    tags["og:description"] = words
    lines = [f'<meta property="{name}" content="{text}" />' for name, text in tags.items()]
    lines.append('<meta name="twitter:card" content="summary" />')
    lines.append(f'<meta name="description" content="{words}" />')
    context["metatags"] = context.get("metatags", "") + "\n".join(lines)


def first_paragraph(doctree: nodes.document) -> str:
    """Return the text of the first paragraph of a page, at most 200 characters, up to the end of a word."""
    found = next(iter(doctree.findall(nodes.paragraph)), None)
    words = " ".join(found.astext().split()) if found is not None else ""
    return words if len(words) <= 200 else words[:199].rsplit(" ", 1)[0] + "…"


def _is_within_its_entry(node: nodes.Node, target: str) -> bool:
    while node.parent is not None:
        node = node.parent
        if isinstance(node, addnodes.desc) and any(
            target in one.get("ids", ()) for one in node.findall(addnodes.desc_signature)
        ):
            return True
    return False
