"""Answers into files of a folder: Parquet, or JSON lines.

    alerts-00000000000000000017.0.parquet     called by the sink and the place of the first answer in it

A file is written under a name that begins with a dot, forced to disk and renamed: what has a name is whole. Names
ascend. A folder like that can be the source of another server.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet

from muntin.serve.options import Given, filled
from muntin.serve.portion import Part, PortionPlace
from muntin.serve.told_answers import chunks, with_ids
from muntin.view.folders import Folders, folder_name

_ROWS = 10_000  # written at once


class FileOutlet:
    """A folder that files are put into."""

    def __init__(self, name: str, given: Given, folders: Folders):
        options = filled(given, "sink")
        self._folder, self._name = Path(str(options["path"])), folder_name(name)
        folders.require(self._folder, "the folder of a sink")
        self._folder.mkdir(parents=True, exist_ok=True)
        self._is_parquet = options["format"] == "parquet"
        self.most_bytes, self.most_seconds = int(options["bytes"] or 0), float(options["seconds"] or 0)
        for left in self._folder.glob(f".{self._name}-*.part"):  # of a process that was killed
            left.unlink(missing_ok=True)

    def send(self, parts: Sequence[tuple[PortionPlace, Part]], stopping: threading.Event) -> None:
        """A file; several if the query was replaced meanwhile by one with other columns."""
        for _, group in groupby(parts, lambda each: each[1].table.schema):
            self._write(list(group))

    def close(self) -> None:
        """Nothing is held."""

    def _write(self, parts: list[tuple[PortionPlace, Part]]) -> None:
        record, portion = parts[0][0]
        ending = "parquet" if self._is_parquet else "jsonl"
        path = self._folder / f"{self._name}-{record:020}.{portion}.{ending}"
        hidden = path.with_name(f".{path.stem}.part")
        with open(hidden, "wb") as file:
            if self._is_parquet:
                pa.parquet.write_table(pa.concat_tables([with_ids(part) for _, part in parts]), file)
            else:
                for rows in chunks(parts, _ROWS):
                    file.write("".join(f"{json.dumps(row)}\n" for row in rows).encode())
            file.flush()
            os.fsync(file.fileno())
        os.replace(hidden, path)
        folder = os.open(self._folder, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
