"""The window clause: `[RANGE 1 DAY TO 1 HOUR SLIDE 1 DAY OFFSET 9 HOURS]` `[ROWS 100 SLIDE 10]`,
`[SINCE DAY SLIDE 1 MINUTE]` or `[SESSION 30 MINUTES]`.

The same clause stands after a stream in FROM and after OVER; both become a `Window`. After FROM its length may be that
of each row of a table: `[RANGE s.span UP TO 1 DAY STEP 1 SECOND SLIDE 1 MINUTE]`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction
from typing import NoReturn

from sqlglot import Token, TokenType
from sqlglot.parser import Parser

from muntin.errors import nearest
from muntin.sql.place import Misfit
from muntin.sql.syntax import SpanSyntax
from muntin.window import LANDMARKS, LONGEST_TIME, Window, span

UNITS = {
    "MICROSECOND": 1, "MILLISECOND": 1_000, "SECOND": 1_000_000, "MINUTE": 60_000_000,
    "HOUR": 3_600_000_000, "DAY": 86_400_000_000, "WEEK": 604_800_000_000,
}  # fmt: skip
_LONGEST = 2**62  # so that the sum of two durations still fits 64 bits
_LONGEST_SHOWN = 80  # characters of a word in an error
_DECIMAL = re.compile(r"\d{1,30}(\.\d{0,30})?")
_PART = re.compile(r"\s*([+-]?\d{1,30}(?:\.\d{0,30})?|\.\d{1,30})\s*([A-Za-z]+)")


def unit_length(word: str) -> int | None:
    """Microseconds in a unit of fixed length, in any case, singular or plural.

    >>> unit_length("minutes"), unit_length("MONTH")
    (60000000, None)
    """
    return UNITS.get(word.upper().removesuffix("S"))


def unit_fault(word: str) -> str:
    """Why a word is no unit, and which one was meant."""
    if word.upper().removesuffix("S") in ("MONTH", "QUARTER", "YEAR"):
        return f"a {word.upper().removesuffix('S')} has no fixed length; use DAYS"
    return f"unknown unit '{word}'{nearest(word.upper(), [unit + 'S' for unit in UNITS])}"


def duration_of(text: str) -> int:
    """Microseconds of a text such as `1 hour 30 minutes`; ValueError says what is wrong with it.

    >>> duration_of("1 hour 30 minutes")
    5400000000
    """
    total, end = Fraction(0), 0
    while part := _PART.match(text, end):
        unit = unit_length(part[2])
        if unit is None:
            raise ValueError(unit_fault(part[2]))
        total, end = total + Fraction(part[1]) * unit, part.end()
    if not end or text[end:].strip():
        raise ValueError(f"'{text}' is not a length of time such as '5 minutes'")
    return whole(total)


def whole(microseconds: Fraction) -> int:
    if microseconds.denominator != 1:
        raise ValueError("a length of time must be a whole number of microseconds")
    if abs(microseconds) > _LONGEST:
        raise ValueError("a length of time must fit 64 bits of microseconds")
    return int(microseconds)


class WindowParser(Parser):
    """Reads the window clause and durations; each method starts at the current token."""

    def window_clause(self) -> Window:
        """`[` … `]`, checked; a fault points at the word that is wrong."""
        opening = self._curr
        window, span = self.windowed()
        if span is not None:
            self.fault(
                "a window whose length is a column of a table stands after FROM, not after OVER", opening
            )
        if window.is_session:
            self.fault(
                "a session is a window of the whole query: write FROM stream [SESSION …], not OVER", opening
            )
        return window

    def windowed(self) -> tuple[Window, SpanSyntax | None]:
        """The same, also with a length that rows of a table say."""
        opening = self._curr
        self._advance()
        kind = self._curr
        span: SpanSyntax | None = None
        if self.word("RANGE"):
            if self._is_column():
                window, span = self._window_of_rows()
            else:
                window = self._window_of("time", kind)
        elif self.word("ROWS"):
            window = self._window_of("rows", kind)
        elif self.word("SINCE"):
            window = self._landmark_window()
        elif self.word("SESSION"):
            window = self._session()
        else:
            self.fault(f"expected RANGE, ROWS, SINCE or SESSION, found {self.found()}", kind)
        if not self._match(TokenType.R_BRACKET):
            if not self._curr:
                self.fault("the window clause is not closed; add ]", opening)
            self.fault(
                f"unexpected {self.found()} in a window clause; it reads "
                "[RANGE 5 MINUTES TO 1 MINUTE SLIDE 1 MINUTE], [ROWS 100 TO 5 SLIDE 10], [SINCE DAY SLIDE 1 MINUTE] "
                "or [SESSION 30 MINUTES]"
            )
        return window, span

    def _is_column(self) -> bool:
        """Whether a column comes next: `s.span`, or a name before UP TO."""
        is_name = self._curr.token_type in (TokenType.VAR, TokenType.IDENTIFIER)
        return is_name and (self._next.token_type == TokenType.DOT or _is_word(self._next, "UP"))

    def _window_of_rows(self) -> tuple[Window, SpanSyntax]:
        column = self._parse_column()
        assert column is not None
        if not self.word("UP", "TO"):
            self.fault(
                "a window whose length is a column of a table says how far back it may reach: "
                "[RANGE s.span UP TO 1 DAY SLIDE 1 MINUTE]"
            )
        size = self._positive("UP TO is a length of time above 0")
        step = self._positive("STEP is a length of time above 0") if self.word("STEP") else 0
        if self._at_word("TO"):
            self.fault("a window whose length is a column of a table ends now; leave out TO")
        slide, offset = self._slide("time")
        if not step and not slide:
            self.fault("say which lengths there are: add STEP 1 SECOND, or a SLIDE, whose multiples they are")
        return Window("time", size, 0, slide, offset=offset), SpanSyntax(column, step or slide)

    def _positive(self, refusal: str) -> int:
        at = self._curr
        length = self.duration()
        if length < 1:
            self.fault(refusal, at)
        self._check_reach("time", length, at)
        return length

    def _window_of(self, unit: str, kind: Token) -> Window:
        length = self.duration if unit == "time" else self._row_count
        at = self._curr
        size = length()
        if size < 1:
            self.fault("a window needs a size above zero", at)
        self._check_reach(unit, size, at)
        to = 0
        if self.word("TO"):
            at = self._curr
            to = length()
            if to < 0:
                self.fault("TO cannot be negative", at)
            if to > size:
                self.fault(
                    f"TO lies before the start of the window; it must not exceed {kind.text.upper()}", at
                )
        slide, offset = self._slide(unit)
        return Window("time" if unit == "time" else "rows", size, to, slide, offset=offset)

    def _landmark_window(self) -> Window:
        size = LANDMARKS.get(self._curr.text.upper()) if self._curr else None
        if size is None:
            self.fault(f"SINCE takes HOUR, DAY or WEEK, found {self.found()}")
        self._advance()
        if self._at_word("TO"):
            self.fault("a window since a landmark ends now; leave out TO")
        slide, offset = self._slide("time")
        return Window("time", size, 0, slide, offset=offset, since=True)

    def _session(self) -> Window:
        gap = self._positive("the gap that ends a session is a length of time above 0")
        if self._at_word("TO", "STEP", "SLIDE", "OFFSET"):
            word = self._curr.text.upper()
            self.fault(
                f"a session begins with an event and ends by a gap; leave out {word}, or write [RANGE …]"
            )
        return Window("session", gap)

    def _slide(self, unit: str) -> tuple[int, int]:
        """`SLIDE 1 DAY OFFSET 9 HOURS`: how far a window moves at a time, and from where; 0 if that is not said."""
        slide = 0
        if self.word("SLIDE"):
            at = self._curr
            slide = self.duration() if unit == "time" else self._row_count()
            if slide < 1:
                self.fault(
                    "SLIDE must be above zero; leave it out for a window that moves with every event", at
                )
            self._check_reach(unit, slide, at)
        if not self._at_word("OFFSET"):
            return slide, 0
        if unit != "time":
            self.fault("OFFSET moves instants, and this window moves by events; leave it out")
        if not slide:
            self.fault("OFFSET says where a SLIDE begins: write SLIDE 1 DAY OFFSET 9 HOURS")
        self._advance()
        at = self._curr
        offset = self.duration()
        if not 0 <= offset < slide:
            self.fault(f"OFFSET lies within a SLIDE: from 0 to less than {span(slide)}", at)
        return slide, offset

    def _check_reach(self, unit: str, length: int, at: Token) -> None:
        if unit == "time" and length > LONGEST_TIME:
            self.fault(
                f"{span(length)} reach back before the year 1, which no time stamp can say; "
                f"the longest that works is {span(LONGEST_TIME)}",
                at,
            )

    def duration(self) -> int:
        """`5 MINUTES`, `1.5 SECONDS`, `1 HOUR 30 MINUTES` or `INTERVAL '5 minutes'`, in microseconds."""
        start = self._curr
        self._match(TokenType.INTERVAL)
        quoted = self._curr
        if quoted.token_type == TokenType.STRING and unit_length(self._next.text) is None:
            self._advance()
            return self._whole(lambda: duration_of(quoted.text), quoted, quoted)
        total = self._duration_part()
        while self._curr.token_type == TokenType.NUMBER:
            total += self._duration_part()
        return self._whole(lambda: whole(total), start, self._prev)

    def _duration_part(self) -> Fraction:
        number = self._number("a length of time such as 5 MINUTES")
        unit = self._curr
        if (
            not unit
            or unit.token_type in (TokenType.R_BRACKET, TokenType.NUMBER)
            or self._at_word("TO", "STEP", "SLIDE", "OFFSET")
        ):
            self.fault(f"{self._prev.text} needs a unit, such as {self._prev.text} SECONDS", self._prev)
        length = unit_length(unit.text)
        if length is None:
            if self._at_word("ROW", "ROWS"):
                self.fault("RANGE counts time; write [ROWS …] to count events", unit)
            self.fault(unit_fault(unit.text), unit)
        self._advance()
        return number * length

    def _row_count(self) -> int:
        number = self._number("a number of events")
        if number.denominator != 1:
            self.fault("ROWS counts events: it takes a whole number", self._prev)
        if unit_length(self._curr.text) is not None:
            self.fault("ROWS counts events; write [RANGE …] for a length of time", self._curr)
        if number > _LONGEST:
            self.fault("a number of events must fit 64 bits", self._prev)
        return int(number)

    def _number(self, wanted: str) -> Fraction:
        is_negative = self._match(TokenType.DASH)
        dot = self._match(TokenType.DOT)
        if self._curr.token_type not in (TokenType.NUMBER, TokenType.STRING):
            self.fault(f"expected {wanted}, found {self.found()}")
        if not _DECIMAL.fullmatch(self._curr.text):  # no exponents: 1e999999999 would not end
            self.fault(f"'{self._curr.text}' is not a plain number such as 5 or 1.5")
        number = Fraction(("0." if dot else "") + self._curr.text)
        self._advance()
        return -number if is_negative else number

    def _whole(self, read: Callable[[], int], first: Token, last: Token) -> int:
        try:
            return read()
        except ValueError as error:
            raise Misfit(str(error), (first.start, last.end + 1)) from None

    def word(self, *words: str) -> bool:
        """Step over the next tokens if they are these words, unquoted and in any case."""
        ahead = self._tokens[self._index : self._index + len(words)]
        if len(ahead) < len(words) or not all(_is_word(*pair) for pair in zip(ahead, words, strict=True)):
            return False
        self._advance(len(words))
        return True

    def _at_word(self, *words: str) -> bool:
        return any(_is_word(self._curr, word) for word in words)

    def found(self) -> str:
        """The current token as it should be named in an error."""
        text = self._curr.text if self._curr else ""
        if len(text) > _LONGEST_SHOWN:
            text = f"{text[:_LONGEST_SHOWN]}…"
        return f"'{text}'" if self._curr else "the end of the text"

    def fault(self, message: str, token: Token | None = None) -> NoReturn:
        """Refuse a token (the current one; at the end of the text, the last one)."""
        token = token or self._curr or self._prev
        raise Misfit(message, (token.start, token.end + 1) if token else None)


def _is_word(token: Token, word: str) -> bool:
    return token.text.upper() == word and token.token_type not in (TokenType.IDENTIFIER, TokenType.STRING)
