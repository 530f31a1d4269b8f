"""How Sphinx makes the site. `make docs` calls it on what `tools/docs_site.py` has put together."""

import asyncgrad

project = "asyncgrad"
author = "the asyncgrad developers"
copyright = author  # noqa: A001  # Sphinx's name
version = release = asyncgrad.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",  # each entry links to its source
    "myst_nb",
    "tools.docs_extension",
]
root_doc = "index"
exclude_patterns = ["conf.py", "extra"]

# Pages. A heading has the anchor that it has on a page of a repository.
myst_heading_anchors = 4
nb_execution_mode = "off"  # notebooks are shown as they were run
suppress_warnings = ["ref.python"]  # a type in a signature may be public under two names: either entry will do

# Docstrings: Google's sections, and one backtick for code, as in Markdown.
default_role = "code"
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_class_signature = "mixed"
python_maximum_signature_line_length = 120
python_use_unqualified_type_names = True
add_module_names = False
toc_object_entries_show_parents = "hide"

html_math_renderer = "mathml"  # tools/docs_extension.py
html_theme = "furo"
html_title = f"asyncgrad {version}"
html_static_path = ["_static"]
html_extra_path = ["extra"]  # pages that are shown as they are: the graphs of the gallery
html_css_files = ["site.css"]
html_js_files = ["copy.js", "graphs.js", "search.js"]
html_theme_options = {"light_logo": "logo.svg", "dark_logo": "logo-dark.svg", "sidebar_hide_name": True}
html_favicon = "_static/favicon.svg"
html_copy_source = False
html_show_sphinx = False
highlight_language = "text"  # of a block that names none
pygments_style = "default"
pygments_dark_style = "github-dark"
