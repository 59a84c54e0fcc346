"""Every relative link leads somewhere, and every page can be reached."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from tests.docs.markdown import ROOT, anchors, links, pages


def relative(page: Path) -> list[str]:
    return [target for target in links(page) if "://" not in target]


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_relative_links_resolve(page):
    for target in relative(page):
        path, _, fragment = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), f"{target} leads nowhere"
        assert not fragment or fragment in anchors(file), f"{target}: no such heading"


def test_every_page_can_be_reached_from_the_readme():
    reached, todo = set(), [ROOT / "README.md"]
    while todo:
        page = todo.pop()
        if page in reached or page.suffix != ".md":
            continue
        reached.add(page)
        todo += [(page.parent / target.partition("#")[0]).resolve() for target in relative(page)]
    assert set(pages()) - reached - {ROOT / "CHANGELOG.md"} == set()


def test_every_page_of_the_site_stands_in_its_navigation():
    """Once: Sphinx reads a page's place off the index that names it."""
    navigation = runpy.run_path(str(ROOT / "docs" / "conf.py"))["navigation"]
    named = []
    for index in ROOT.glob("docs/**/index.md"):
        named += [
            (index.parent / f"{line}.md").resolve()
            for line in navigation(index.read_text()).splitlines()
            if line and not line.startswith(("```", ":"))
        ]
    assert len(named) == len(set(named))
    missing = set(ROOT.glob("docs/**/*.md")) - set(named) - {ROOT / "docs" / "index.md"}
    assert not {page for page in missing if page.name != "README.md"}


def test_no_two_pages_of_the_navigation_have_one_title():
    """A reader of the sidebar sees titles alone."""
    index = ROOT / "docs" / "index.md"
    named = {(index.parent / target).resolve() for target in relative(index) if target.endswith(".md")}
    titles = [page.read_text().partition("\n")[0] for page in sorted(named)]
    assert len(titles) > 25
    assert len(set(titles)) == len(titles)
