"""A page for each public package, with a table of its names, and a page for each name, from its docstring.

The pages of names are in no table of contents: there are too many for a menu. Tables, search and links lead there.
"""

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from docutils import nodes
from public_names import PublicName, packages, public_names
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.domains.python._object import PyObject
from sphinx.environment import BuildEnvironment
from sphinx.pycode import ModuleAnalyzer

_STOP = "object, tuple, dict, int, float, str, Exception, BaseException, Protocol, Generic, Mapping"
"""Classes of Python, whose methods are not described again."""


def _title(text: str) -> str:
    return f"{text}\n{'=' * len(text)}\n"


def _said(each: PublicName) -> str:
    """Return what stands below the assignment of a constant, in the module that has it."""
    for name, module in sorted(sys.modules.items()):
        if name.startswith("shoal.") and getattr(module, "__file__", None) and each.name in vars(module):
            said = ModuleAnalyzer.for_module(name).find_attr_docs().get(("", each.name))
            if said and vars(module)[each.name] is each.value:
                return " ".join(said).strip()
    raise LookupError(f"{each.home} is a constant that says nowhere what it is")


def _page(each: PublicName) -> str:
    """Return the page of a name."""
    lines = [":orphan:", "", _title(each.home), f"*In* :doc:`{each.package}`", ""]
    if each.kind == "data":
        lines += [f".. py:data:: {each.home}", "", f"   {_said(each)}"]
    else:
        lines += [f".. auto{each.kind}:: {each.home}"]
    if each.kind == "class":
        lines += ["   :members:", f"   :inherited-members: {_STOP}"]
    if each.kind == "exception":
        lines += ["   :show-inheritance:"]
    return "\n".join(lines) + "\n"


def _overview(package: str, names: list[PublicName]) -> str:
    """Return the page of a package: what it is, and its names in a table."""
    about = (import_module(package).__doc__ or "").strip()
    lines = [_title(package), about, "", ".. list-table::", "   :class: names", ""]
    for each in names:
        if each.kind == "module":
            lines += [f"   * - :doc:`{each.home}`", f"     - {(each.value.__doc__ or '').partition(chr(10))[0]}"]
        else:
            summary = _said(each) if each.kind == "data" else each.summary
            lines += [f"   * - :py:obj:`{each.name.rpartition('.')[2]} <{each.home}>`", f"     - {summary}"]
    return "\n".join(lines) + "\n"


def _write(app: Sphinx) -> None:
    folder = Path(app.srcdir) / "reference" / "api"
    folder.mkdir(parents=True, exist_ok=True)
    names, faces = public_names(), packages()
    for package in faces:
        of_package = [each for each in names if each.package == package]
        (folder / f"{package}.rst").write_text(_overview(package, of_package), encoding="utf-8")
    for each in names:
        if each.home == f"{each.package}.{each.name}" and each.kind != "module":
            (folder / f"{each.home}.rst").write_text(_page(each), encoding="utf-8")
    table = ["# Python API: every public name", "", "| package | |", "|---|---|"]
    for package in faces:
        first = (import_module(package).__doc__ or "").strip().partition("\n")[0]
        table.append(f"| [{package}]({package}.rst) | {first} |")
    toctree = ["", "```{toctree}", ":hidden:", *faces, "```", ""]
    (folder / "index.md").write_text("\n".join([*table, *toctree]), encoding="utf-8")


def _prepared(_app: Sphinx, what: str, _name: str, _value: object, _options: object, lines: list[str]) -> None:
    """Write numpydoc as napoleon reads it: one attribute at a time; and the words before a colon are no type."""
    if what in ("property", "attribute"):
        lines.insert(0, "")
    if "Attributes" not in lines:
        return
    start = lines.index("Attributes") + 2
    end = next((i for i in range(start, len(lines) - 1) if lines[i + 1].startswith("---")), len(lines))
    section: list[str] = []
    names: list[str] = []
    described: list[str] = []
    kind = ""
    for line in [*lines[start:end], "end"]:
        if line[:1].strip():
            section += [text for name in names for text in (f"{name}{kind}", *described)]
            several, colon, rest = line.partition(" : ")
            names, kind, described = several.split(", "), colon + rest, []
        else:
            described.append(line)
    lines[start:end] = section


def _exactly(_app: Sphinx, doctree: nodes.document) -> None:
    """Look names up as they stand: a field called `epsilon` is not the method of some class."""
    for node in doctree.findall(addnodes.pending_xref):
        if node.get("refdomain") == "py":
            node.attributes.pop("refspecific", None)


def _by_last_name(
    app: Sphinx, env: BuildEnvironment, node: addnodes.pending_xref, content: nodes.Element
) -> nodes.reference | None:
    """Link a public class or function by its last name, in whichever package it is documented."""
    if node.get("refdomain") != "py":
        return None
    first, _, rest = node["reftarget"].removeprefix("shoal.").partition(".")
    homes = {each.home for each in public_names() if each.name == first and each.kind in ("class", "exception")}
    if len(homes) != 1:
        return None
    target = f"{homes.pop()}.{rest}".rstrip(".")
    found: Any = env.domains.python_domain.resolve_xref(
        env, node["refdoc"], app.builder, "obj", target, addnodes.pending_xref(""), content
    )
    return found


def setup(app: Sphinx) -> dict[str, bool]:
    """Write the pages before Sphinx looks for pages; fields of classes are no links."""
    for field in PyObject.doc_field_types:
        if field.name == "variable":
            field.rolename, field.label = "", "Attributes"
    app.connect("builder-inited", _write)
    app.connect("autodoc-process-docstring", _prepared, priority=400)
    app.connect("doctree-read", _exactly)
    app.connect("missing-reference", _by_last_name)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
