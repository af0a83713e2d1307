"""Formulas by KaTeX, which the site carries: nothing is fetched, and a page without formulas does not load it."""

from html import escape
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx


def _inline(translator: Any, node: nodes.math) -> None:
    translator.body.append(f'<span class="formula">{escape(node.astext())}</span>')
    raise nodes.SkipNode


def _block(translator: Any, node: nodes.math_block) -> None:
    identifiers = "".join(f'<span id="{name}"></span>' for name in node.get("ids", ()))
    formula = escape(node.astext())
    translator.body.append(f'{identifiers}<div class="formula display" tabindex="0">{formula}</div>\n')
    raise nodes.SkipNode


def _load(app: Sphinx, _page: str, _template: str, _context: dict[str, Any], doctree: nodes.document | None) -> None:
    """Load KaTeX on pages that have a formula."""
    if doctree is not None and any(doctree.findall(lambda node: isinstance(node, nodes.math | nodes.math_block))):
        app.add_css_file("katex/katex.min.css")
        app.add_js_file("katex/katex.min.js", loading_method="defer")
        app.add_js_file("formulas.js", loading_method="defer")


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the renderer."""
    app.add_html_math_renderer("katex", inline_renderers=(_inline, None), block_renderers=(_block, None))
    app.connect("html-page-context", _load)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
