"""Put small mistakes into muntin, one at a time, and see whether the tests notice: `python -m mutants [--sample N]`."""

from __future__ import annotations

import argparse
import os
import sys

from mutants.candidates import candidates
from mutants.equivalents import equivalents
from mutants.jury import Jury
from mutants.mutation import Mutation
from mutants.project import SCRATCH, read, sources
from mutants.recorded import record, unrecorded
from mutants.results import entry_of, load, report
from mutants.sample import sample

_ENOUGH = 90  # of a hundred mutants


def main(arguments: list[str] | None = None) -> int:
    """Judge a sample; 0 if enough of the mutants were killed."""
    options = parse(arguments)
    chosen = choose(options)
    if options.list:
        for each in chosen:
            _, before, after = entry_of(each)
            print(f"{each.path}:{each.line}  {each.kind}\n    - {before}\n    + {after}")
        return 0
    SCRATCH.mkdir(exist_ok=True)
    kept = SCRATCH / "results.jsonl"
    if not options.resume:
        kept.unlink(missing_ok=True)
    known = {result.mutation for result in load(kept)}
    try:
        if missing := unrecorded():
            print(f"recording which lines the tests of {len(missing)} files reach", flush=True)
            record(options.jobs)
        Jury(kept, [each for each in chosen if each not in known]).run(options.jobs, options.seconds)
    except KeyboardInterrupt:
        print("\nstopped; `--resume` goes on from here", flush=True)
    wanted = set(chosen)
    results = [result for result in load(kept) if result.mutation in wanted]
    print(f"\n{report(results)}")
    killed = sum(result.outcome == "killed" for result in results)
    return 0 if 100 * killed >= _ENOUGH * len(chosen) else 1


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """The options of the command."""
    parser = argparse.ArgumentParser(prog="python -m mutants", description=__doc__.partition(": ")[0] + ".")
    parser.add_argument("--sample", type=int, default=200, metavar="N", help="how many mutants (200)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="which ones (1)")
    parser.add_argument(
        "--only", action="append", metavar="PATH", help="a file or folder; may be repeated (src)"
    )
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count(), metavar="N", help="processes (one a core)"
    )
    parser.add_argument(
        "--seconds", type=float, default=30, metavar="S", help="of tests for each mutant (30)"
    )
    parser.add_argument("--resume", action="store_true", help="keep the verdicts of the last run")
    parser.add_argument("--list", action="store_true", help="show the sample, judge nothing")
    return parser.parse_args(arguments)


def choose(options: argparse.Namespace) -> list[Mutation]:
    """The sample: nothing that is known to be equivalent."""
    wanted = tuple(f"{each.rstrip('/')}/" for each in options.only or ["src"])
    known = equivalents()
    listed = {path for path, _, _ in known}
    found = [
        each
        for path in sources()
        if f"{path}/".startswith(wanted)
        for each in candidates(path, read(path))
        if path not in listed or entry_of(each) not in known
    ]
    return sample(found, options.sample, options.seed)


if __name__ == "__main__":
    sys.exit(main())
