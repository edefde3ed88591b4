"""How Sphinx makes the site of the pages that `tools/site.py` lays out (`make site`)."""

import re
from typing import Any

from pygments.lexers.special import TextLexer
from sphinx.application import Sphinx

from geoveil.gp.version import __version__

project = "geoveil"
copyright = "the geoveil authors"  # noqa: A001 - Sphinx's own name
release = __version__
root_doc = "docs/index"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
html_theme = "furo"
html_title = f"geoveil {release}"
html_static_path = ["../build/site/static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4  # slugs are those of the pages' own links, as at code forges
# A level of headings that is left out is a matter of taste; types of arguments are not links.
suppress_warnings = ["myst.header", "ref.python"]

add_module_names = False
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
maximum_signature_line_length = 88
napoleon_numpy_docstring = False
napoleon_use_rtype = False

CODE = re.compile(r"``.+?``|`([^`]+)`", re.DOTALL)
MARKED = re.compile(r"([\\*|_])")


def as_rst(
    _app: Sphinx, _what: str, _name: str, _obj: Any, _options: Any, lines: list[str]
) -> None:
    """Turn a docstring, plain text with `code`, into what Sphinx reads, before its sections are."""
    blocks = re.split(r"(^ *>>> .*?(?:\n\s*\n|\Z))", "\n".join(lines), flags=re.M | re.S)
    blocks[::2] = [_prose(block) for block in blocks[::2]]
    lines[:] = "".join(blocks).split("\n")


def _prose(text: str) -> str:
    """Mark code twice, as Sphinx wants it, also within a word; no other character is a mark."""
    made, end = "", 0
    for code in CODE.finditer(text):
        made += MARKED.sub(r"\\\1", text[end : code.start()])
        before, after = text[code.start() - 1 : code.start()], text[code.end() : code.end() + 1]
        made += (
            "\\ " * before.isalnum() + f"``{code[1] or code[0][2:-2]}``" + "\\ " * after.isalnum()
        )
        end = code.end()
    return made + MARKED.sub(r"\\\1", text[end:])


def setup(app: Sphinx) -> None:
    """Register what turns docstrings, before napoleon does."""
    app.add_lexer("csv", TextLexer)
    app.connect("autodoc-process-docstring", as_rst, priority=100)
