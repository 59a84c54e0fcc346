"""A view on Spark belongs to the checkpoint that began it: its archive holds the id of that streaming query and the
last micro-batch. Only that query goes on with it, with the micro-batch after that one, or with that one again."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from muntin.archive import Archive, View
from muntin.archive.epoch import NAME as DIRECTORY
from muntin.errors import ArchiveError, NameTaken
from muntin.spark.told_view import Told, view_of
from muntin.sql.type_name import type_name
from muntin.view.materialized_view import KEPT_BY, MaterializedView, definition_of
from muntin.view_query import HIDDEN, ViewQuery

BEGIN_ANEW = "start with a new checkpoint and without this view: DROP MATERIALIZED VIEW removes it"


@dataclass(frozen=True)
class OwnedView:
    """A view in its folder, and the checkpoint of the streaming query that keeps it."""

    query: ViewQuery
    folder: Path
    checkpoint: Path

    def __reduce__(self) -> Any:
        # with Spark Connect it travels to the process that keeps the view, and conditions of a query do not travel
        streams = {side.stream.name: side.stream for side in self.query.source.sides}
        return _arrived, (Told.of(self.query, streams.values()), self.folder, self.checkpoint)

    def open(self, batch: int) -> Archive:
        """The archive, for one micro-batch: a query that has stopped, for whatever reason, then holds nothing, and can
        be started again where it was, or its view be dropped. An error unless the checkpoint has written the archive
        up to there."""
        apart = f"checkpoint '{self.checkpoint}' goes on with micro-batch {batch}, but"
        if batch and not (self.folder / DIRECTORY).exists():
            raise ArchiveError(f"{apart} there is no view in '{self.folder}'; start with a new checkpoint")
        owner = json.loads((self.checkpoint / "metadata").read_text())["id"]
        try:
            archive = MaterializedView(self.query, self.folder, kept_by=owner).archive
        except NameTaken as error:
            begun_by = View.open(self.folder).epoch.about.get(KEPT_BY)  # version 0.1.0 did not write it
            words = (
                "Go on from the checkpoint that began it, or"
                if begun_by
                else "No checkpoint can go on with it:"
            )
            raise NameTaken(f"{error}. {words} {BEGIN_ANEW}") from None
        try:
            self._check_types(archive)
            last = archive.view.epoch.batch
            if batch not in (last, 0 if last is None else last + 1):
                raise ArchiveError(f"{apart} the view in '{self.folder}' has come to {last}; {BEGIN_ANEW}")
        except BaseException:
            archive.close()
            raise
        return archive

    def _check_types(self, archive: Archive) -> None:
        """The text is the same as before; the columns of the DataFrames may have become others."""
        held, wanted = archive.definition.columns, definition_of(self.query).columns
        if held != wanted:
            was, would = (
                ", ".join(
                    f"{each.name} {type_name(each.type)}"
                    for each in columns
                    if not each.name.startswith(HIDDEN)
                )
                for columns in (held, wanted)
            )
            raise ArchiveError(
                f"view '{self.query.name}' in '{self.folder}' has the columns {was}, and would now have {would}: CAST "
                f"what they are made of in the DataFrames, or {BEGIN_ANEW}"
            )


def _arrived(told: Told, folder: Path, checkpoint: Path) -> OwnedView:
    return OwnedView(view_of(told), folder, checkpoint)
