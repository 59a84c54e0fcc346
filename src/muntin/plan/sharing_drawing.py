"""The drawing of what is shared, as SVG: queries on the left, structures with their rules, stores on the right.

A ribbon is as thick as many queries run through it (by the square root, so that a single one can be seen beside a
thousand), and has the colour of the store where it ends. All texts are escaped: names of queries are anybody's.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from html import escape
from itertools import count
from math import sqrt
from typing import TYPE_CHECKING, NamedTuple

from muntin.plan.sharing_bundles import Bundle, Card, bundles_of, cards_of, readers_of, stores_of
from muntin.plan.sharing_style import COLOURS, STYLE, WIDTH

if TYPE_CHECKING:
    from muntin.plan.sharing import SharedGroup, SharedStore, Sharing

_TOP, _GAP = 118, 14
_LEFT, _MIDDLE, _RIGHT = (
    (0, 270),
    (400, 370),
    (900, 280),
)  # of each column: where it begins, and how wide it is
_THICKEST = 44.0  # of a ribbon


class _Box(NamedTuple):
    """Where something is drawn."""

    x: float
    y: float
    width: float
    height: float


class _Ribbon(NamedTuple):
    """Queries on their way from box to box."""

    source: tuple[str, int]  # which column, and which box of it
    target: tuple[str, int]
    queries: int
    colour: int


def draw_sharing(sharing: Sharing, is_styled: bool = True) -> str:
    """The drawing; without its style for pages that have it already."""
    if not sharing.groups:
        return _page(
            150, [_head(sharing), _text(0, 132, "There is nothing to share yet.", "mw-note")], is_styled
        )
    stores = stores_of(sharing)
    place = {id: number for number, some in enumerate(stores) for id in (each.id for each in some)}
    cards = sorted(cards_of(sharing, place), key=lambda each: min(place[id] for id in each.stores))
    bundles = sorted(
        bundles_of(cards), key=lambda each: (sum(each.cards) / len(each.cards), -len(each.queries))
    )
    ribbons = _ribbons(bundles, cards, place)
    heights = {
        "queries": [_height_of("queries", number, 70, ribbons) for number in range(len(bundles))],
        "groups": [
            _height_of("groups", number, 66 + 15 * len(_rule(card)), ribbons)
            for number, card in enumerate(cards)
        ],
        "stores": [_height_of("stores", number, 96, ribbons) for number in range(len(stores))],
    }
    tallest = max(sum(some) + _GAP * (len(some) - 1) for some in heights.values())
    boxes = {
        name: _stacked(*column, heights[name], tallest)
        for name, column in (("queries", _LEFT), ("groups", _MIDDLE), ("stores", _RIGHT))
    }
    parts = [_head(sharing), *_titles()]
    parts += _drawn_ribbons(ribbons, boxes)
    parts += [_drawn_bundle(*each) for each in zip(count(), bundles, boxes["queries"], strict=False)]
    parts += [
        _drawn_card(number, card, box, place[card.stores[0]])
        for number, (card, box) in enumerate(zip(cards, boxes["groups"], strict=True))
    ]
    parts += [
        _drawn_store(number, some, box, sharing)
        for number, (some, box) in enumerate(zip(stores, boxes["stores"], strict=True))
    ]
    return _page(_TOP + tallest + 8, parts, is_styled)


def _ribbons(bundles: Sequence[Bundle], cards: Sequence[Card], place: dict[str, int]) -> list[_Ribbon]:
    found = [
        _Ribbon(("queries", number), ("groups", card), len(bundle.queries), place[cards[card].stores[0]])
        for number, bundle in enumerate(bundles)
        for card in sorted(bundle.cards)
    ]
    for number, card in enumerate(cards):
        many = len({name for group in card.groups for name in group.queries})
        reads = sorted({place[id] for id in card.stores})
        found += [_Ribbon(("groups", number), ("stores", store), many, store) for store in reads]
    return found


# Where it is drawn.


def _thickness(queries: int, most: int) -> float:
    return max(2.5, _THICKEST * sqrt(queries / most))


def _height_of(column: str, number: int, least: float, ribbons: Sequence[_Ribbon]) -> float:
    """High enough for its texts, and for the ribbons on either side."""
    most = max(each.queries for each in ribbons)
    ends = [[each.source for each in ribbons], [each.target for each in ribbons]]
    sides = [
        [
            _thickness(each.queries, most)
            for each, end in zip(ribbons, some, strict=True)
            if end == (column, number)
        ]
        for some in ends
    ]
    return max(least, *(sum(side) + 4 * len(side) + 8 for side in sides))


def _stacked(x: float, width: float, heights: Sequence[float], tallest: float) -> list[_Box]:
    """Boxes below each other, spread over the height of the tallest column, as far as it looks well."""
    free = tallest - sum(heights) - _GAP * (len(heights) - 1)
    gap = _GAP + (min(free / (len(heights) - 1), 60.0) if len(heights) > 1 else 0.0)
    y = _TOP + (tallest - sum(heights) - gap * (len(heights) - 1)) / 2
    boxes = []
    for height in heights:
        boxes.append(_Box(x, y, width, height))
        y += height + gap
    return boxes


def _drawn_ribbons(ribbons: Sequence[_Ribbon], boxes: dict[str, list[_Box]]) -> list[str]:
    """Each leaves its box beside those to neighbouring targets, and none crosses another without need."""
    most = max(each.queries for each in ribbons)

    def ends(is_source: bool) -> dict[int, float]:
        """The middle of each ribbon at one of its ends."""
        middles: dict[int, float] = {}
        by_box: dict[tuple[str, int], list[int]] = {}
        for number, each in enumerate(ribbons):
            by_box.setdefault(each.source if is_source else each.target, []).append(number)
        for (column, place), numbers in by_box.items():
            box = boxes[column][place]
            other = [(ribbons[each].target if is_source else ribbons[each].source) for each in numbers]
            order = [each for _, each in sorted(zip((boxes[c][p].y for c, p in other), numbers, strict=True))]
            thick = [_thickness(ribbons[each].queries, most) for each in order]
            y = box.y + (box.height - sum(thick) - 4 * (len(thick) - 1)) / 2
            for number, height in zip(order, thick, strict=True):
                middles[number] = y + height / 2
                y += height + 4
        return middles

    starts, stops = ends(True), ends(False)
    drawn = []
    for number, each in enumerate(ribbons):
        source, target = (boxes[column][place] for column, place in (each.source, each.target))
        half = _thickness(each.queries, most) / 2
        x, to, y, down = source.x + source.width, target.x, starts[number], stops[number]
        bend = (x + to) / 2
        path = (
            f"M{x:.1f} {y - half:.1f}C{bend:.1f} {y - half:.1f} {bend:.1f} {down - half:.1f} {to:.1f} {down - half:.1f}"
            f"V{down + half:.1f}C{bend:.1f} {down + half:.1f} {bend:.1f} {y + half:.1f} {x:.1f} {y + half:.1f}Z"
        )
        (start, first), (stop, last) = each.source, each.target
        names = f'data-from="{start}-{first}" data-to="{stop}-{last}"'
        told = f"<title>{_counted(each.queries, 'query', 'queries')}</title>"
        drawn.append(f'<path class="mw-ribbon mw-c{each.colour % COLOURS}" {names} d="{path}">{told}</path>')
    return drawn


# What is written into it.


def _head(sharing: Sharing) -> str:
    queries, stores = len(sharing.groups_of), _counted(len(sharing.stores), "store", "stores")
    groups, kept = _counted(len(sharing.groups), "group", "groups"), in_bytes(sharing.nbytes)
    if sharing.query:
        others = _counted(queries - 1, "other query", "other queries") if queries > 1 else "no other query"
        title = f"{_short(sharing.query, 40)} shares with {others}"
        share = in_bytes(sharing.share(sharing.query).nbytes)
        note = f"{groups} over {stores} · {kept}, of which {share} are its share"
    else:
        title = f"{_counted(queries, 'query', 'queries')} {'reads' if queries == 1 else 'read'} {stores}"
        each = f" · {in_bytes(sharing.nbytes / queries)} for each query" if queries else ""
        note = f"{groups} · {kept} in all{each}"
    return _text(0, 30, title, "mw-title") + _text(0, 54, note, "mw-note")


def _titles() -> list[str]:
    return [
        _text(_LEFT[0], _TOP - 18, "QUERIES", "mw-column"),
        _text(_MIDDLE[0], _TOP - 18, "STRUCTURES, AND THE RULE THAT CHOSE THEM", "mw-column"),
        _text(_RIGHT[0], _TOP - 18, "STORES · KEPT ONCE", "mw-column"),
    ]


def _drawn_bundle(number: int, bundle: Bundle, box: _Box) -> str:
    single = len(bundle.queries) == 1
    title = bundle.queries[0] if single else _counted(len(bundle.queries), "query", "queries")
    if bundle.combinations > 1:
        title = f"{title} in {bundle.combinations:,} other ways"
    lines = [] if single else _stems(bundle.queries)
    y = box.y + box.height / 2 + (6 if not lines else -4 - 8 * (len(lines) - 1))
    parts = [_text(box.x + 16, y, _short(title, 27), "mw-name")]
    parts += [
        _text(box.x + 16, y + 19 + 16 * row, _short(line, 40), "mw-note") for row, line in enumerate(lines)
    ]
    shown = ", ".join(bundle.queries[:20]) + (" …" if len(bundle.queries) > 20 else "")
    return _node("queries", number, box, "mw-queries", shown, parts)


def _stems(names: Sequence[str]) -> list[str]:
    """Names that differ only in their numbers, counted; in two lines at most.

    >>> _stems(["volume_1", "volume_2", "high_1", "market"])
    ['volume ×2 · high_1 · market']
    """
    if len(names) <= 3:
        return _in_lines(names, 33, 2, " · ")
    found = Counter(_stem(name) for name in names)
    first = {_stem(name): name for name in reversed(names)}
    told = [f"{stem} ×{many:,}" if many > 1 else first[stem] for stem, many in found.most_common()]
    return _in_lines(told, 33, 2, " · ")


def _stem(name: str) -> str:
    return re.sub(r"[\W_]*\d+$", "", name) or name


def _drawn_card(number: int, card: Card, box: _Box, colour: int) -> str:
    groups = card.groups
    title = groups[0].structure if card.kinds == 1 else f"{card.kinds:,} more structures"
    parts = [
        f'<rect class="mw-edge mw-c{colour % COLOURS}" x="{box.x:.1f}" y="{box.y:.1f}" width="5" '
        f'height="{box.height:.1f}" rx="2.5"/>',
        _text(box.x + 20, box.y + 26, title, "mw-code"),
        _text(box.x + box.width - 14, box.y + 26, _counted(len(groups), "group", "groups"), "mw-note mw-end"),
        _text(box.x + 20, box.y + 46, _short(_windows_of(groups), 44), "mw-note"),
    ]
    parts += [
        _text(box.x + 20, box.y + 66 + 15 * row, line, "mw-rule") for row, line in enumerate(_rule(card))
    ]
    told = "\n".join(dict.fromkeys(f"{each.structure}: {each.because}" for each in groups))
    return _node("groups", number, box, "mw-group", told, parts)


def _rule(card: Card) -> list[str]:
    """Why, in three lines at most."""
    because = card.groups[0].because if card.kinds == 1 else "each by a rule of its own"
    return _in_lines(because.split(), 49, 3, " ")


def _windows_of(groups: Iterable[SharedGroup]) -> str:
    windows = list(dict.fromkeys(window for each in groups for window in each.windows))
    nbytes = sum(each.nbytes for each in groups)
    own = f" · {in_bytes(nbytes)} of its own" if nbytes else ""
    if not windows:
        return own.removeprefix(" · ") or "no windows of its own"
    return (windows[0] if len(windows) == 1 else f"{len(windows):,} windows") + own


def _drawn_store(number: int, stores: Sequence[SharedStore], box: _Box, sharing: Sharing) -> str:
    nbytes, readers = sum(each.nbytes for each in stores), readers_of(sharing, stores)
    kind, title = _named(stores, sharing)
    part = nbytes / max(1, sum(each.nbytes for each in sharing.stores.values()))
    read = f"read by {_counted(readers, 'query', 'queries')}"
    share = f" · {in_bytes(nbytes / readers)} each" if readers > 1 else ""
    width = box.width - 40
    y = box.y + (box.height - 96) / 2
    parts = [
        f'<rect class="mw-edge mw-c{number % COLOURS}" x="{box.x:.1f}" y="{box.y:.1f}" width="5" '
        f'height="{box.height:.1f}" rx="2.5"/>',
        _text(box.x + 20, y + 28, kind, "mw-code"),
        _text(box.x + box.width - 20, y + 29, in_bytes(nbytes), "mw-bytes mw-end"),
        _text(box.x + 20, y + 48, _short(title, 35), "mw-note"),
        f'<rect class="mw-track" x="{box.x + 20:.1f}" y="{y + 60:.1f}" width="{width:.1f}" height="4" rx="2"/>',
        f'<rect class="mw-bar mw-c{number % COLOURS}" x="{box.x + 20:.1f}" y="{y + 60:.1f}" '
        f'width="{max(2.0, width * part):.1f}" height="4" rx="2"/>',
        _text(box.x + 20, y + 83, _short(read + share, 37), "mw-note"),
    ]
    told = "\n".join(f"{each.title}: {each.state}, {in_bytes(each.nbytes)}" for each in stores[:30])
    return _node("stores", number, box, "mw-kept", told, parts)


def _named(stores: Sequence[SharedStore], sharing: Sharing) -> tuple[str, str]:
    """What a box of stores is called, and what is said of it."""
    first, many = stores[0], len(stores)
    streams = {each.stream for each in sharing.stores.values() if each.stream}
    of = f"{first.stream} " if len(streams) > 1 and first.stream else ""
    if many == 1:
        return first.kind, (of + first.title.removeprefix(first.kind).lstrip()).strip() or "all events"
    if len({each.family for each in stores}) == 1:
        keyed = first.family.removeprefix(f"{first.stream}: {first.kind}").strip()
        return f"{first.kind} ×{many:,}", f"{of}{keyed}, a filter each".strip(" ,")
    return f"{many:,} more stores", "that fewer queries read"


def _node(column: str, number: int, box: _Box, kind: str, told: str, parts: Sequence[str]) -> str:
    frame = (
        f'<rect class="mw-box" x="{box.x + 0.5:.1f}" y="{box.y:.1f}" width="{box.width - 1:.1f}" '
        f'height="{box.height:.1f}" rx="9"/>'
    )
    return (
        f'<g class="mw-node {kind}" data-node="{column}-{number}"><title>{_escaped(told)}</title>'
        f"{frame}{''.join(parts)}</g>"
    )


def _text(x: float, y: float, text: str, kind: str) -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}">{_escaped(text)}</text>'


def _escaped(text: str) -> str:
    """As XML may hold it: a name may have any character, and some are none there."""
    return escape(re.sub(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "\ufffd", text))


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


def _in_lines(words: Sequence[str], width: int, most: int, between: str) -> list[str]:
    """Words in a few lines of about equal width; what does not fit is said to be left out."""
    lines: list[str] = []
    for number, word in enumerate(words):
        if lines and len(lines[-1]) + len(between) + len(word) <= width:
            lines[-1] += between + word
        elif len(lines) < most:
            lines.append(_short(word, width))
        else:
            left = f" +{len(words) - number}" if between.strip() else " …"
            lines[-1] = _short(lines[-1], width - len(left)) + left
            break
    return lines


def _counted(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"


def in_bytes(nbytes: float) -> str:
    """
    >>> in_bytes(1536), in_bytes(10), in_bytes(3 * 2**30)
    ('1.5 KiB', '10 bytes', '3 GiB')
    """
    unit = "bytes"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if nbytes < 1024:
            break
        nbytes, unit = nbytes / 1024, larger
    return f"{nbytes:.3g} {unit}" if nbytes < 1000 else f"{nbytes:,.0f} {unit}"


def _page(height: float, parts: Sequence[str], is_styled: bool) -> str:
    style = f"<style>{STYLE}</style>" if is_styled else ""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="muntin-sharing" viewBox="-1 0 {WIDTH + 2} {height:.0f}" '
        f'role="img" aria-label="Which queries share which stores">{style}{"".join(parts)}</svg>'
    )
