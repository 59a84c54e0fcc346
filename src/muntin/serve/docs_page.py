"""A page of all addresses, made of the OpenAPI description: plain HTML that loads nothing from elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Any

POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_STYLE = """
:root { color-scheme: light dark }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 56rem; margin: 2rem auto; padding: 0 1rem }
code, th { font-family: ui-monospace, monospace; font-weight: normal; text-align: left }
section { border-top: 1px solid color-mix(in srgb, currentcolor 25%, transparent); padding: .5rem 0 }
h3 { font-size: 1rem; margin: .5rem 0 } td, th { padding-right: 1.5rem; vertical-align: top }
"""


def docs_page(described: dict[str, Any]) -> str:
    """HTML of an OpenAPI description."""
    by_tag: dict[str, list[str]] = {}
    for path, methods in described["paths"].items():
        for method, each in methods.items():
            for tag in each.get("tags", ["other"]):
                by_tag.setdefault(tag, []).append("".join(_address(method, path, each)))
    parts = "".join(f"<h2>{escape(tag)}</h2>{''.join(some)}" for tag, some in by_tag.items())
    title, about = escape(described["info"]["title"]), escape(described["info"].get("description", ""))
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}: addresses</title>'
        '<meta name="viewport" content="width=device-width"><style>' + _STYLE + "</style>"
        f'<h1>{title}</h1><p>{about}</p><p>For programs: <a href="openapi.json">openapi.json</a>.</p>{parts}</html>'
    )


def _address(method: str, path: str, told: dict[str, Any]) -> Iterator[str]:
    yield f"<section><h3><code>{method.upper()} {escape(path)}</code></h3><p>{escape(told.get('description', ''))}</p>"
    if given := told.get("parameters"):
        rows = (
            f"<tr><th>{escape(each['name'])}</th><td>{escape(each['in'])}{', required' if each.get('required') else ''}"
            f"</td><td>{escape(_kind(each['schema']))}</td></tr>"
            for each in given
        )
        yield f"<table>{''.join(rows)}</table>"
    if body := told.get("requestBody"):
        yield f"<p>Body: {', '.join(f'<code>{escape(kind)}</code>' for kind in body['content'])}</p>"
    yield "</section>"


def _kind(schema: dict[str, Any]) -> str:
    """The type of a parameter in a word or two, with its default."""
    kinds = [each.get("type", "any") for each in schema.get("anyOf", [schema]) if each.get("type") != "null"]
    default = "" if schema.get("default") is None else f", {schema['default']!r} if it is left out"
    return " or ".join(kinds) + default
