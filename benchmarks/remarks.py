"""What has to be said of single results: each remark holds for the result of one commit, and goes with it."""

from __future__ import annotations

# Commits of branches that were rewritten before they were merged. A test compares with git.
LOST = frozenset({"6d1afe757634", "7248938a62cb", "d712cdcfdaaf"})

REMARKS = {
    ("spark", "0765d894406a"): """\
Rates by the clock are those of a machine that others used as well, as the load average below says: look at CPU
seconds.""",
}


def remark_on(name: str, commit: str) -> str:
    """What has to be said of a result, if anything."""
    return REMARKS.get((name, commit), "")
