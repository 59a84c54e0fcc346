"""A log: records in the order they happened, on disk before anybody is told that they are.

    data/log/00000000000000000001.log     a segment, called by the number of its first record
    data/log/00000000000000004711.log     the last segment: the one that is written to

    8 bytes   MUNTLOG and the format version
    then for each record
    8 bytes   its number
    8 bytes   the number up to which records were known to be on disk when this one was written
    4 bytes   how long its data is
    4 bytes   CRC-32 of the three and the data
    the data

A process that is killed, or a power cut, may leave records at the end of the last segment half-written. Nobody was
told of them, so they are cut off when the log is opened. Anything else that does not match its checksum is damage: a
disk has lost what it had promised to keep. The log then refuses to open, and names the file and the byte. The two are
told apart by what stands behind: a record that knew the damaged one to be on disk.
"""

from __future__ import annotations

import fcntl
import os
import struct
import zlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from muntin.errors import MuntinError

_MAGIC = b"MUNTLOG1"
_HEAD = struct.Struct("<QQII")
_TOLD = struct.Struct("<QQI")  # of which, with the data, the checksum is
SEGMENT_BYTES = 64 * 2**20
LARGEST = 2**31  # bytes of a record


class LogError(MuntinError):
    """A log that cannot be written, or is damaged."""


@dataclass(frozen=True)
class _Segment:
    path: Path
    first: int  # the number of its first record


class Log:
    """Records by number, from 1 on. One process at a time has it open; `close` lets another one.

    >>> import tempfile
    >>> log = Log(Path(tempfile.mkdtemp()) / "log")
    >>> log.append([b"one", b"two"])
    2
    >>> list(log.read(2))
    [(2, b'two')]
    >>> log.close()
    """

    def __init__(self, folder: Path, segment_bytes: int = SEGMENT_BYTES):
        self._folder = folder
        self._segment_bytes = segment_bytes
        self.cut_off = 0  # bytes at the end that nobody had been told of
        self.written = 0  # bytes, since it was opened
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = open(folder / "lock", "ab")  # noqa: SIM115
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._lock.close()
            raise LogError(f"log '{folder}' is in use by another process") from None
        except OSError as error:
            raise LogError(f"log '{folder}' cannot be opened: {error.strerror or error}") from None
        try:
            self._segments = self._found()
            self._last = self._recover()  # the number of the last record
            self._synced = self._last
            self._file = open(self._segments[-1].path, "ab", buffering=0)  # noqa: SIM115
        except BaseException:
            self._lock.close()
            raise
        self._size = self._file.tell()
        self._is_torn = False  # whether half a record stands at the end

    @property
    def first(self) -> int:
        """The number of the oldest record that is kept, or of the next one if there is none."""
        return self._segments[0].first

    @property
    def last(self) -> int:
        """The number of the newest record; one less than that of the next if there is none."""
        return self._last

    @property
    def nbytes(self) -> int:
        """Bytes on disk."""
        return sum(each.path.stat().st_size for each in self._segments)

    @property
    def end(self) -> tuple[int, int]:
        """Where the next record is written: the first number of the segment, and the byte."""
        return self._segments[-1].first, self._size

    def append(self, records: Sequence[bytes], is_synced: bool = True) -> int:
        """Write records at the end, all or none, and force them to disk; the number of the last one.

        O(bytes), with one sync however many records there are. Without `is_synced`, `sync` has to follow.
        """
        parts = []
        for number, data in enumerate(records, self._last + 1):
            if len(data) > LARGEST:
                raise LogError(f"a record has at most {LARGEST:,} bytes, not {len(data):,}")
            parts += [_head_of(number, self._synced, data), data]
        written = b"".join(parts)
        try:
            if self._is_torn:
                self._mend()
            if self._size > self._segment_bytes and self._segments[-1].first <= self._last:
                self._begin(self._last + 1)
            self._write(written)
            if is_synced:
                os.fsync(self._file.fileno())
        except OSError as error:
            self._take_back()
            raise LogError(
                f"log '{self._folder}' cannot be written: {error.strerror or error}; nothing of it was taken"
            ) from None
        self._size += len(written)
        self.written += len(written)
        self._last += len(records)
        if is_synced:
            self._synced = self._last
        return self._last

    def sync(self) -> None:
        """Force all that was written to disk."""
        try:
            os.fsync(self._file.fileno())
        except OSError as error:
            raise LogError(
                f"log '{self._folder}' cannot be forced to disk: {error.strerror or error}"
            ) from None
        self._synced = self._last

    def read(self, number: int) -> Iterator[tuple[int, bytes]]:
        """Records from a number on, each with its number."""
        if number < self.first:
            raise LogError(f"log '{self._folder}' begins at record {self.first}: {number} is gone")
        segments = list(self._segments)  # another thread may begin or forget some meanwhile
        for place, segment in enumerate(segments):
            is_behind = place + 1 < len(segments) and segments[place + 1].first <= number
            if not is_behind:
                for each, data, _ in _records(segment):
                    if each >= number:
                        yield each, data

    def forget(self, before: int) -> None:
        """Remove segments all of whose records have lower numbers."""
        while len(self._segments) > 1 and self._segments[1].first <= before:
            self._segments.pop(0).path.unlink(missing_ok=True)

    def close(self) -> None:
        """Let another process open it."""
        self._file.close()
        self._lock.close()

    def _found(self) -> list[_Segment]:
        names = sorted(each for each in self._folder.glob("*.log") if each.stem.isdigit())
        segments = [_Segment(path, int(path.stem)) for path in names]
        # a segment is begun by writing its head: one without was never used
        if segments and segments[-1].path.stat().st_size < len(_MAGIC):
            segments.pop().path.unlink()
        if not segments:
            segments = [_Segment(self._folder / f"{1:020}.log", 1)]
            _create(segments[0].path)
        return segments

    def _recover(self) -> int:
        """Check all segments, and cut off what a killed process left half-written; the number of the last record."""
        last = self._segments[0].first - 1
        for place, segment in enumerate(self._segments):
            if segment.first != last + 1:
                raise LogError(
                    f"log '{self._folder}' is damaged: records {last + 1} to {segment.first - 1} are missing"
                )
            end = len(_MAGIC)
            for number, _, after in _records(segment):
                last, end = number, after
            size = segment.path.stat().st_size
            if end < size:
                content = segment.path.read_bytes()
                is_torn = place == len(self._segments) - 1 and not _was_kept(content, end, last + 1)
                if not is_torn:
                    raise LogError(
                        f"log '{segment.path}' is damaged at byte {end:,}: record {last + 1} is not as it was written"
                    )
                self.cut_off = size - end
                with open(segment.path, "r+b") as file:
                    file.truncate(end)
                    os.fsync(file.fileno())
        return last

    def _begin(self, first: int) -> None:
        os.fsync(self._file.fileno())
        path = self._folder / f"{first:020}.log"
        _create(path)
        begun = open(path, "ab", buffering=0)  # noqa: SIM115
        self._file.close()
        self._file = begun
        self._segments.append(_Segment(path, first))
        self._size = len(_MAGIC)

    def _write(self, data: bytes) -> None:
        left = memoryview(data)
        while left:
            left = left[self._file.write(left) :]

    def _take_back(self) -> None:
        """What was half-written goes, so that the next record does not stand behind it."""
        self._is_torn = True
        with suppress(OSError):  # then before the next record, or when the log is next opened
            self._mend()

    def _mend(self) -> None:
        os.ftruncate(self._file.fileno(), self._size)
        self._is_torn = False


class LogReader:
    """Who reads a log that grows, from a number on: each record once, without a look at those before it."""

    def __init__(self, log: Log, number: int):
        segments = [each for each in log._segments if each.first <= number] or log._segments[:1]
        self._log, self._number, self._segment = log, number, segments[-1]
        self._behind: tuple[int, int] | None = None

    def next(self) -> Iterator[tuple[int, bytes]]:
        """Records that have come since, each with its number. O(bytes of them)."""
        while True:
            for number, data, end in _records(self._segment, self._behind):
                self._behind = number, end
                if number >= self._number:
                    yield number, data
            last = self._behind[0] if self._behind else self._segment.first - 1
            after = next(
                (each for each in list(self._log._segments) if each.first > self._segment.first), None
            )
            if after is None or after.first > last + 1:
                return
            self._segment, self._behind = after, None


def _create(path: Path) -> None:
    with open(path, "wb") as file:  # what an attempt that failed has left there has no record
        file.write(_MAGIC)
        file.flush()
        os.fsync(file.fileno())
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _head_of(number: int, synced: int, data: bytes) -> bytes:
    told = _TOLD.pack(number, synced, len(data))
    return told + struct.pack("<I", zlib.crc32(data, zlib.crc32(told)))


def _records(segment: _Segment, behind: tuple[int, int] | None = None) -> Iterator[tuple[int, bytes, int]]:
    """Number, data and end of each record, up to the first that is not whole; `behind` one, with its number and end."""
    with open(segment.path, "rb") as file:
        if file.read(len(_MAGIC)) != _MAGIC:
            raise LogError(f"'{segment.path}' is no log of muntin's, or of another version")
        last, end = behind or (segment.first - 1, len(_MAGIC))
        expected = last + 1
        file.seek(end)
        while len(head := file.read(_HEAD.size)) == _HEAD.size:
            number, _, length, checksum = _HEAD.unpack(head)
            if number != expected or length > LARGEST:
                return
            data = file.read(length)
            if len(data) < length or zlib.crc32(data, zlib.crc32(head[: _TOLD.size])) != checksum:
                return
            expected, end = expected + 1, end + _HEAD.size + length
            yield number, data, end


def _was_kept(content: bytes, start: int, number: int) -> bool:
    """Whether a whole record behind `start` says that the record of this number was on disk."""
    # the last records are what is left of a crash; of thousands behind, one of the first will do
    for later in range(number + 1, number + 1_000):
        place = content.find(struct.pack("<Q", later), start)
        while place >= 0:
            head = content[place : place + _HEAD.size]
            if len(head) == _HEAD.size:
                _, synced, length, checksum = _HEAD.unpack(head)
                data = content[place + _HEAD.size : place + _HEAD.size + length]
                is_whole = len(data) == length
                if is_whole and zlib.crc32(data, zlib.crc32(head[: _TOLD.size])) == checksum:
                    if synced >= number:
                        return True
                    break
            place = content.find(struct.pack("<Q", later), place + 1)
    return False
