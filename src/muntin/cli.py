"""The command line. Each command imports what it needs when it runs, so that `--help` is quick."""

from __future__ import annotations

import os
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

STARTED = time.perf_counter()

app = typer.Typer(
    help="Thousands of sliding-window queries over one stream, sharing their state and work.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


class SourceName(StrEnum):
    """What the demo can replay."""

    trades = "trades"
    flights = "flights"


class FileFormat(StrEnum):
    """Formats of the files in an output directory."""

    parquet = "parquet"
    csv = "csv"
    jsonl = "jsonl"


class Runtime(StrEnum):
    """What drives the queries."""

    embedded = "embedded"
    spark = "spark"


SqlFile = Annotated[
    Path, typer.Argument(metavar="FILE.sql", help="CREATE STREAM and REGISTER QUERY statements.")
]


def _import_functions(modules: list[str] | None) -> list[str] | None:
    for module in modules or ():
        from muntin.own.registered import import_functions

        if os.getcwd() not in sys.path:  # as `python script.py` finds modules beside a script
            sys.path.insert(0, os.getcwd())
        with _errors_reported():
            import_functions(module)
    return modules


Functions = Annotated[
    list[str] | None,
    typer.Option(
        "--functions",
        metavar="MODULE",
        callback=_import_functions,
        help="A module that defines functions of your own (@muntin.aggregate, @muntin.function).",
    ),
]
Threads = Annotated[
    int, typer.Option(min=1, max=1_024, help="How many threads share the work of large batches.")
]


def main() -> None:
    """The `muntin` command."""
    # the line of ours that warns says nothing to whoever runs a command
    warnings.formatwarning = lambda message, *_, **__: f"warning: {message}\n"
    app()


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"muntin {version('muntin')}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Options of `muntin` itself."""


@app.command()
def demo(
    source: Annotated[SourceName, typer.Option(help="The stream to replay.")] = SourceName.trades,
    queries: Annotated[int, typer.Option(min=1, max=100_000, help="How many queries watch it.")] = 1_000,
    seconds: Annotated[float, typer.Option(min=0.1, help="How long to replay, at most.")] = 20.0,
    seed: Annotated[int, typer.Option(min=0, help="Another seed, another stream and other queries.")] = 0,
    events: Annotated[int | None, typer.Option(min=1, help="Stop after so many events.")] = None,
) -> None:
    """Replay a stream under a thousand queries and watch them share their work."""
    with _errors_reported():
        from muntin.demo import open_display, open_source, play

        play(open_source(source.value, queries, seed, events), open_display(), seconds, STARTED)


@app.command()
def run(
    script: SqlFile,
    out: Annotated[
        Path,
        typer.Option("--out", help="A .parquet, .csv or .jsonl file, a directory, or - for standard output."),
    ],
    input: Annotated[
        list[str] | None,
        typer.Option(
            "--input",
            metavar="[STREAM=]PATH",
            help="Events: .parquet, .arrow, .csv or .jsonl (also .csv.gz …), a folder, or - for standard input; once "
            "for each stream. On Spark, streams without one are read from their topics of Kafka.",
        ),
    ] = None,
    stream: Annotated[str | None, typer.Option(help="The stream of the input, if there are several.")] = None,
    batch_rows: Annotated[int, typer.Option(min=1, help="Events pushed at once.")] = 65_536,
    flush: Annotated[
        bool, typer.Option("--flush/--no-flush", help="At the end of the file, emit the windows still open.")
    ] = True,
    format: Annotated[
        FileFormat | None,
        typer.Option(help="Format of the files in a directory (parquet), or of standard output (jsonl)."),
    ] = None,
    engine: Annotated[Runtime, typer.Option(help="What drives the queries.")] = Runtime.embedded,
    archive: Annotated[
        Path | None, typer.Option(help="The folder of the script's materialized views.")
    ] = None,
    table: Annotated[
        list[str] | None,
        typer.Option(
            "--table", metavar="TABLE=PATH", help="Rows of a table of the script, loaded before the events."
        ),
    ] = None,
    threads: Threads = 1,
    functions: Functions = None,
    packages: Annotated[
        str | None,
        typer.Option(
            metavar="COORDINATES", help="On Spark: jars that Maven brings, such as its connector for Kafka."
        ),
    ] = None,
    conf: Annotated[
        list[str] | None,
        typer.Option("--conf", metavar="NAME=VALUE", help="On Spark: a setting, such as spark.master."),
    ] = None,
) -> None:
    """Answer the queries of FILE.sql over a file of events.

    With one query, or with a directory as --out, answers have typed columns; several queries in one
    file become a long table: query, key, window_start, window_end, complete, column, value, text.
    """
    with _errors_reported():
        from muntin.run import open_progress, refuse_settings, run_file
        from muntin.run.standard import STANDARD, standard_streams

        wanted = format or (FileFormat.jsonl if str(out) == STANDARD else FileFormat.parquet)
        progress = open_progress(sys.stderr)
        with standard_streams(input or (), out, wanted.value) as (inputs, answers):
            if engine is Runtime.spark:
                from muntin.run.on_spark import run_on_spark, settings_of

                report = run_on_spark(
                    script, inputs, answers, stream=stream, flush=flush, format=wanted.value, progress=progress,
                    tables=table or (), archive=archive, settings=settings_of(conf or (), packages),
                )  # fmt: skip
            else:
                refuse_settings(conf, packages)
                report = run_file(
                    script, inputs, answers, stream=stream, batch_rows=batch_rows, flush=flush, format=wanted.value,
                    progress=progress, archive=archive, tables=table or (), threads=threads,
                )  # fmt: skip
        report.out = out
    typer.echo(str(report), err=True)


@app.command("lookup-at")
def lookup_at(
    script: SqlFile,
    history: Annotated[Path, typer.Option(help="Events in order of time: a file or folder as for run.")],
    requests: Annotated[Path, typer.Option(help="A file of keys and instants, in any order.")],
    out: Annotated[Path, typer.Option(help="A .parquet, .csv or .jsonl file.")],
    at: Annotated[str, typer.Option(help="The column of the requests that has the instants.")] = "at",
    stream: Annotated[
        str | None, typer.Option(help="The stream of the history, if there are several.")
    ] = None,
    batch_rows: Annotated[int, typer.Option(min=1, help="Events taken in at once.")] = 524_288,
    functions: Functions = None,
) -> None:
    """Answer the queries of FILE.sql for each row of a file of requests.

    A request has a column for each key of the queries, and an instant. The answers have a row for each
    request, in the same order: its own columns, then query.column, query.found and query.complete of each query.
    """
    with _errors_reported():
        from muntin.run import lookup_file, open_progress

        report = lookup_file(
            script, history, requests, out, stream=stream, at=at, batch_rows=batch_rows,
            progress=open_progress(sys.stderr),
        )  # fmt: skip
    typer.echo(str(report), err=True)


@app.command()
def explain(
    script: SqlFile,
    engine: Annotated[Runtime, typer.Option(help="What drives the queries.")] = Runtime.embedded,
    functions: Functions = None,
) -> None:
    """Print the plan for FILE.sql: which queries share what, and why."""
    with _errors_reported():
        if engine is Runtime.spark:
            from muntin.run.on_spark import explain_on_spark

            typer.echo(explain_on_spark(script))
            return
        from muntin.run import explain_file

        typer.echo(explain_file(script))


@app.command()
def serve(
    script: SqlFile,
    data: Annotated[
        Path | None, typer.Option(help="The folder that keeps log, checkpoints and answers.")
    ] = None,
    listen: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="The address to listen at.")
    ] = "127.0.0.1:8088",
    tokens: Annotated[
        Path | None, typer.Option(help="A file of lines 'role token': read, write or admin.")
    ] = None,
    certificate: Annotated[Path | None, typer.Option(help="A certificate, for TLS.")] = None,
    key: Annotated[Path | None, typer.Option(help="The private key of the certificate.")] = None,
    checkpoint_seconds: Annotated[float, typer.Option(min=0.1, help="Time between checkpoints.")] = 60.0,
    answers_seconds: Annotated[
        float, typer.Option(min=0, help="For how long answers are kept to be read again.")
    ] = 3_600.0,
    folder: Annotated[
        list[Path] | None,
        typer.Option(
            "--folder",
            help="A folder in which files of BACKFILL, sources and sinks may lie; may be repeated.",
        ),
    ] = None,
    skip_lost: Annotated[
        bool,
        typer.Option("--skip-lost", help="Start although a source no longer has messages that are needed."),
    ] = False,
    skip_record: Annotated[
        list[int] | None,
        typer.Option(
            "--skip-record",
            metavar="NUMBER",
            min=1,
            help="Start without what a record of the log says, which is lost then; may be repeated.",
        ),
    ] = None,
    limit: Annotated[
        list[str] | None,
        typer.Option("--limit", metavar="NAME=NUMBER", help="A limit, such as body_bytes=1000000."),
    ] = None,
    cors: Annotated[
        list[str] | None,
        typer.Option("--cors", metavar="ORIGIN", help="A site whose pages may call from a browser."),
    ] = None,
    log_format: Annotated[str, typer.Option(help="text or json, on stderr.")] = "text",
    threads: Threads = 1,
    functions: Functions = None,
    check: Annotated[
        bool, typer.Option("--check", help="Only say what the script declares, or why it cannot be served.")
    ] = False,
) -> None:
    """Serve the streams, tables and queries of FILE.sql over HTTP, until SIGTERM or Ctrl-C.

    All that was acknowledged is in the folder --data: a start goes on from there, whatever ended the process.
    """
    with _errors_reported():
        from muntin.serve.access import Limits
        from muntin.serve.server import Port, check_script, read_script_file
        from muntin.serve.server import serve as serve_script
        from muntin.serve.settings import Settings

        if check:
            typer.echo(f"{script} declares {check_script(read_script_file(script), folder or ())}")
            return
        if data is None:
            raise typer.BadParameter("give the folder that keeps what is served: --data DIR")
        host, number = Port.read(listen)
        limits, origins = Limits.read(limit or ()), tuple(cors or ())
        settings = Settings(
            checkpoint_seconds=checkpoint_seconds,
            answers_seconds=answers_seconds,
            folders=tuple(folder or ()),
            threads=threads,
            instants=limits.instants,
            skips_lost=skip_lost,
            skipped=frozenset(skip_record or ()),
        )
        port = Port(host, number, tokens, certificate, key, limits, origins)
        serve_script(script, data, port, settings, log_format)


@app.command()
def doctor() -> None:
    """Say which Python, Java and packages muntin finds, and what is missing."""
    from muntin.doctor import examine

    for finding in examine():
        typer.echo(str(finding))


spark_app = typer.Typer(help="Look into what runs on Spark.", no_args_is_help=True, rich_markup_mode=None)
app.add_typer(spark_app, name="spark")


@spark_app.command()
def state(
    checkpoint: Annotated[
        Path,
        typer.Argument(metavar="CHECKPOINT", help="The checkpoint folder of a query that is not running."),
    ],
) -> None:
    """Print the shards in a checkpoint: entries, bytes, late events, how far time has come."""
    with _errors_reported():
        from muntin.spark import local_session, read_state
        from muntin.spark.state import show_state

        session = local_session(cores=1)
        try:
            typer.echo(show_state(read_state(session, str(checkpoint))))
        finally:
            session.stop()


@app.command("warm-up")
def warm_up() -> None:
    """Compile all kernels now, so that no query has to wait for it later."""
    from muntin.engine.warm_up import warm_up
    from muntin.kernels.jit import CACHE

    typer.echo("compiling all kernels: a minute or two the first time, seconds if they are there")
    seconds = warm_up(processes=min(2, os.cpu_count() or 1))
    where = f"kept in {CACHE}" if CACHE else "not kept: there is no writable cache directory"
    typer.echo(f"compiled or loaded in {seconds:.1f} s, {where}")


@app.command()
def bench(
    name: Annotated[str | None, typer.Argument(help="One benchmark; without it all of them.")] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Measure little, only to see whether it runs.")
    ] = False,
    list_them: Annotated[bool, typer.Option("--list", help="Name the benchmarks and stop.")] = False,
) -> None:
    """Run the benchmarks of a source checkout."""
    import subprocess

    root = Path(__file__).parents[2]
    if not (root / "benchmarks" / "__main__.py").is_file():
        typer.echo(
            "error: the benchmarks are part of the source checkout: see benchmarks/README.md there", err=True
        )
        raise typer.Exit(2)
    flags = ["--quick"] * quick + ["--list"] * list_them
    command = [sys.executable, "-m", "benchmarks", *([name] if name else []), *flags]
    raise typer.Exit(subprocess.run(command, cwd=root, check=False).returncode)


@contextmanager
def _errors_reported() -> Iterator[None]:
    """What went wrong as one message on stderr, and exit code 2; a bug still shows its traceback."""
    from muntin.errors import MuntinError

    try:
        yield
    except MuntinError as fault:
        typer.echo(f"error: {fault}", err=True)
        raise typer.Exit(2) from None
