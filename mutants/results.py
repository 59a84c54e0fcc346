"""Results: what became of each mutant, kept line by line, so that a run that was stopped can be resumed."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from mutants.mutation import Mutation
from mutants.project import read

Entry = tuple[str, str, str]  # a file, a line as it is, and as it would be


@dataclass(frozen=True)
class Result:
    """A mutant and its end."""

    mutation: Mutation
    outcome: str  # killed, survived, unreached
    by: str
    tests: int
    seconds: float

    @property
    def entry(self) -> Entry:
        """The mutant, however the lines of its file move."""
        return entry_of(self.mutation)


def entry_of(mutation: Mutation) -> Entry:
    source = read(mutation.path)
    return mutation.path, mutation.before(source), mutation.after(source)


def append(file: Path, result: Result) -> None:
    """Keep a result."""
    with file.open("a", encoding="utf-8") as out:
        print(json.dumps(asdict(result)), file=out)


def load(file: Path) -> list[Result]:
    """The results that were kept; those of sources that have changed since must not be asked for."""
    if not file.exists():
        return []
    kept = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    return [Result(**(each | {"mutation": Mutation(**each["mutation"])})) for each in kept]


def report(results: Iterable[Result]) -> str:
    """The mutants that no test noticed, and a line for each folder."""
    results = sorted(results, key=lambda each: (each.mutation.path, each.mutation.line))
    lines = []
    for each in results:
        if each.outcome in ("survived", "unreached"):
            _, before, after = each.entry
            reached = f"{each.tests} tests passed" if each.tests else "no quick test runs this line"
            lines += [f"{each.mutation.path}:{each.mutation.line}  {each.mutation.kind}, {reached}"]
            lines += [f"    - {before}", f"    + {after}", ""]
    return "\n".join([*lines, *_table(results)])


def _table(results: list[Result]) -> list[str]:
    outcomes = ("killed", "survived", "unreached")
    counts = Counter((each.mutation.folder, each.outcome) for each in results)
    folders = sorted({each.mutation.folder for each in results})
    total = Counter(each.outcome for each in results)
    rows = [("folder", "mutants", *outcomes)]
    for folder in folders:
        counted = [counts[folder, outcome] for outcome in outcomes]
        rows.append((folder, *(str(number) for number in (sum(counted), *counted))))
    rows.append(("all", str(len(results)), *(str(total[outcome]) for outcome in outcomes)))
    return ["".join(f"{cell:<12}" if not i else f"{cell:>11}" for i, cell in enumerate(row)) for row in rows]
