"""Make the site of this version in build/site/VERSION, beside those of other versions: `make site`."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path

from sphinx.cmd.build import build_main

DOCS = Path(__file__).parent
SITE = DOCS.parent / "build" / "site"


def main() -> int:
    """Every warning is an error: a link that leads nowhere, a page that no index names."""
    release = runpy.run_path(str(DOCS / "conf.py"))["release"]
    failed = build_main(
        ["-q", "-W", "--keep-going", "-b", "html", "-c", str(DOCS), str(DOCS.parent), str(SITE / release)]
    )
    if failed:
        return int(failed)
    versions = sorted(
        (each.name for each in SITE.iterdir() if (each / "docs" / "index.html").exists()),
        key=_numbers,
        reverse=True,
    )
    (SITE / "versions.json").write_text(json.dumps(versions))
    newest = (
        f'<meta http-equiv="refresh" content="0; url={versions[0]}/docs/index.html"><title>muntin</title>'
    )
    (SITE / "index.html").write_text(newest)
    print(f"open {SITE / 'index.html'}")
    return 0


def _numbers(version: str) -> list[int]:
    return [int(part) if part.isdecimal() else 0 for part in version.split(".")]


if __name__ == "__main__":
    sys.exit(main())
