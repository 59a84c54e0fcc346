"""How Sphinx makes a site of these pages: `make site` writes it to build/site.

The pages read well as they are, on a code host too. Sphinx adds navigation, search and a list of versions. The
navigation is made from the lists of links in the index pages, so that there is no second list to be kept.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

_DOCS = Path(__file__).parent
_CAPTION = r"^\*\*(?P<caption>[^*]+)\*\*$"
_LINK = r"^[*|] .*?\[[^\]]+\]\((?P<page>[\w./-]+)\.md\)"
_LISTED = re.compile(f"{_CAPTION}|{_LINK}", re.MULTILINE)

project = "muntin"
author = "The muntin authors"
copyright = author
release = tomllib.loads((_DOCS.parent / "pyproject.toml").read_text())["project"]["version"]
extensions = ["myst_parser", "sphinx_copybutton"]
myst_heading_anchors = 4
root_doc = "docs/index"
# The source folder is the repository's, so that links to pages beside docs/ lead somewhere on the site, too.
include_patterns = [
    "docs/*.md",
    "docs/**/*.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "*/README.md",
]
exclude_patterns = [".*", "build", "src", "tests", "mutants"]
# A page may show a console's session or a grammar: what Pygments cannot read stays as it is.
suppress_warnings = ["misc.highlighting_failure"]
html_theme = "furo"
html_title = f"muntin {release}"
templates_path = ["_templates"]
html_sidebars = {
    "**": [
        "sidebar/scroll-start.html",
        "sidebar/brand.html",
        "versions.html",
        "sidebar/search.html",
        "sidebar/navigation.html",
        "sidebar/scroll-end.html",
    ]
}


def navigation(index: str) -> str:
    """The tables of contents that Sphinx wants, from the links of an index page: one for each bold line.

    >>> print(navigation("**Start here**\\n\\n* [Your first query](tutorial/first-query.md): ten minutes"))
    ```{toctree}
    :hidden:
    :caption: Start here
    <BLANKLINE>
    tutorial/first-query
    ```
    """
    sections: list[tuple[str, list[str]]] = [("", [])]
    for found in _LISTED.finditer(index):
        if found["caption"]:
            sections.append((found["caption"], []))
        else:
            sections[-1][1].append(found["page"])
    return "\n\n".join(
        "\n".join(
            ["```{toctree}", ":hidden:", *([f":caption: {caption}"] if caption else []), "", *pages, "```"]
        )
        for caption, pages in sections
        if pages
    )


def _add_navigation(app: Any, page: str, source: list[str]) -> None:
    if page.rpartition("/")[2] == "index" and page != "docs/algorithms/index":
        source[0] += "\n" + navigation(source[0])


def setup(app: Any) -> None:
    """Called by Sphinx."""
    app.connect("source-read", _add_navigation)
