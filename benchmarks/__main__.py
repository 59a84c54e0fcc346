"""Run benchmarks: `python -m benchmarks [NAME …] [--quick] [--busy] [--list] [--report] [--since COMMIT]`."""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from importlib import import_module

from benchmarks import BENCHMARKS
from benchmarks.machine import describe_commit
from benchmarks.measure import Result
from benchmarks.peace import BusyError, Watch
from benchmarks.report import PAGE, not_measured, table_text, write_page
from benchmarks.since import NoCommit, since_text


def main(arguments: list[str] | None = None) -> int:
    """Run the named benchmarks, or all, and write results and page; 0 if all went well, 3 if
    the machine was too busy to record some."""
    options = parse(arguments)
    if options.list:
        for name in BENCHMARKS:
            print(f"{name:<18}{first_line(name)}{' Not measured yet.' if name in not_measured() else ''}")
        return 0
    if unknown := [name for name in options.names if name not in BENCHMARKS]:
        print(f"there is no benchmark '{unknown[0]}'; there are: {', '.join(BENCHMARKS)}", file=sys.stderr)
        return 2
    if options.since:
        try:
            print(since_text(options.since))
        except NoCommit as error:
            print(error, file=sys.stderr)
            return 2
        return 0
    refused = False
    if not options.report:
        for name in options.names or BENCHMARKS:
            commit = describe_commit()  # now: the tree may move on while the benchmark runs
            print(f"{name}: {first_line(name)}", flush=True)
            try:
                watch = None if options.quick else Watch(refuses=not options.busy)
                result: Result = import_module(f"benchmarks.{name}").run(options.quick)
                print(table_text([asdict(column) for column in result.columns], result.rows), flush=True)
                if watch:
                    print(f"written: {result.save(commit, watch.end())}\n", flush=True)
            except BusyError as busy:
                print(f"{name}: {busy}", file=sys.stderr)
                refused = True
    if not options.quick:
        write_page()
        print(f"written: {PAGE}")
    return 3 if refused else 0


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """The options of the command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Run muntin's benchmarks.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="which ones; all by default")
    parser.add_argument("--quick", action="store_true", help="small and rough, nothing is written")
    parser.add_argument("--busy", action="store_true", help="record on a busy machine, too, and say so")
    parser.add_argument("--list", action="store_true", help="name the benchmarks and stop")
    parser.add_argument(
        "--report", action="store_true", help="only write the page from the results there are"
    )
    parser.add_argument(
        "--since", metavar="COMMIT", help="only compare the results there are with those of a commit"
    )
    return parser.parse_args(arguments)


def first_line(name: str) -> str:
    """What a benchmark measures, from its docstring."""
    return (import_module(f"benchmarks.{name}").__doc__ or "").partition("\n")[0]


if __name__ == "__main__":
    sys.exit(main())
