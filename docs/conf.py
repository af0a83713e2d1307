"""The settings of the site: `make docs` copies this folder to build/docs, where pages are generated, and builds it."""

import sys
from pathlib import Path

_DOCS = Path(__file__).parent
sys.path.insert(0, str(_DOCS / "extensions"))

import shoal  # noqa: E402
from shoal.documentation import REPOSITORY, SITE  # noqa: E402

project = "shoal"
author = "The shoal authors"
copyright = "The shoal authors"
version = release = shoal.__version__
language = "en"
smartquotes_action = "De"  # dashes and dots; what stands between straight quotes is often code

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "katex_formulas",
    "repository_pages",
    "api_pages",
    "command_pages",
    "schema_pages",
]
exclude_patterns = ["static", "extensions", "tutorials/*.ipynb", "**/sg_execution_times.rst"]
# Folders whose pages may not be there, and addresses of other sites, are no reason to stop.
suppress_warnings = ["toc.empty_glob", "config.cache"]
nitpicky = True
# Types in docstrings are words of numpydoc ("tuple of str, optional"): what is a class is linked, the rest is not.
nitpick_ignore_regex = [("py:(class|obj|exc|meth|attr|func)", ".*")]
default_role = "py:obj"

myst_enable_extensions = ["attrs_inline", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4
myst_dmath_double_inline = True

autodoc_member_order = "bysource"
autodoc_typehints = "none"
maximum_signature_line_length = 70
python_display_short_literal_types = True
add_module_names = False
napoleon_google_docstring = False
napoleon_use_ivar = True
napoleon_use_rtype = False

html_theme = "furo"
html_title = f"shoal {release}"
html_baseurl = SITE
html_static_path = ["static"]
html_css_files = ["site.css"]
html_favicon = "../src/shoal/web/static/icon.svg"
html_copy_source = False
html_domain_indices = False
html_show_sourcelink = False
html_math_renderer = "katex"
pygments_style = "friendly"
pygments_dark_style = "github-dark"
html_theme_options = {
    "top_of_page_buttons": [],  # many pages are generated, and have no source to edit
    "footer_icons": [{"name": "Source", "url": REPOSITORY, "html": "Source", "class": ""}],
    "light_css_variables": {"color-brand-primary": "#0b4fa5", "color-brand-content": "#0b4fa5"},
    "dark_css_variables": {"color-brand-primary": "#58aeea", "color-brand-content": "#58aeea"},
}

_TUTORIALS = _DOCS / "tutorials"
if any(_TUTORIALS.glob("plot_*.py")):
    extensions.append("sphinx_gallery.gen_gallery")
    sphinx_gallery_conf = {
        "examples_dirs": str(_TUTORIALS),
        "gallery_dirs": "tutorials",
        "abort_on_example_error": True,
        "download_all_examples": False,
        "min_reported_time": 1_000_000,
        "show_memory": False,
        "show_signature": False,
        "remove_config_comments": True,
        "within_subsection_order": "FileNameSortKey",
        "write_computation_times": False,
    }
