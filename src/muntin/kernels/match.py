"""Matches: finding pairs of events with equal keys, and keeping them in order; and elements by chains of keys.

A match is two events, by number and time. Matches are ordered by the later of the two times, then by
the left event (time, then number), then by the right one: an order that does not depend on arrival.
"""

from muntin.kernels.jit import inner, kernel

FRESH = -2  # a cursor that has not entered its chain
TOGETHER = 16  # chains that are walked side by side: as many as a core fetches from memory at once, and some
_FAR = 64  # steps after which they are let go: matches that many take longer to write than to find
_BLOCK = 16  # matches that are sorted by insertion


@inner
def _reverse(number, at, lo, hi):
    hi -= 1
    while lo < hi:
        number[lo], number[hi] = number[hi], number[lo]
        at[lo], at[hi] = at[hi], at[lo]
        lo, hi = lo + 1, hi - 1


@inner
def _bring_near(key, begin, end, oldest, last, links, links_first, chain):
    """Walk the chains of some events side by side, as far as they are not too old, so that the processor fetches many
    of their places at once. Walked one after the other, each step waits for the one before it: that took four times as
    long with 20,000 keys."""
    walking = 0
    for i in range(begin, end):
        if 0 <= key[i] < len(last):
            chain[walking] = last[key[i]]
            walking += 1
    for _ in range(_FAR):
        still = 0
        for j in range(walking):
            c = chain[j]
            if c >= links_first and links[c - links_first].at > oldest:
                chain[still] = links[c - links_first].prior
                still += 1
        walking = still


@kernel
def probe(at, key, first, begin, cursor, last, links, links_first, reach, other_reach, other_delay,
          chain, mine, theirs, mine_at, theirs_at):  # fmt: skip
    """Match events, in order of time, with those of the other side that have their key; newest first.

    The events are numbered from `first` on; `key` is -1 for those that match nothing. `last` and `links` are the other
    side's chains, `links` from the number `links_first` on, with the time of each event and the one before it: side by
    side, since each step of a chain is a place in memory that is not near.
    Two events match if some window could hold both: each is less than its side's `reach` before the
    other. Goes on from event `begin` and its `cursor` until the room for matches is full; returns their
    count and where to go on; `chain` has room for `TOGETHER`. O(elements of the chains that are not too old).
    """
    count, i, c, near = 0, begin, cursor, begin
    while i < len(at):
        if i == near:
            near = min(i + TOGETHER, len(at))
            _bring_near(key, i, near, at[i] - other_delay - other_reach, last, links, links_first, chain)
        t, run = at[i], count
        if c == FRESH:
            c = last[key[i]] if 0 <= key[i] < len(last) else -1
        while c >= links_first:
            other = links[c - links_first].at
            # whatever stands before it in the chain came earlier, so is later by the delay at most
            if other + other_delay + other_reach <= t:
                break
            if other < t + reach and t < other + other_reach:
                if count == len(mine):
                    _reverse(theirs, theirs_at, run, count)
                    return count, i, c
                mine[count], theirs[count] = first + i, c
                mine_at[count], theirs_at[count] = t, other
                count += 1
            c = links[c - links_first].prior
        _reverse(theirs, theirs_at, run, count)  # oldest first is the order that matches are kept in
        i, c = i + 1, FRESH
    return count, i, FRESH


@inner
def _precedes(left, right, left_at, right_at, i, j):
    one, other = max(left_at[i], right_at[i]), max(left_at[j], right_at[j])
    if one != other:
        return one < other
    if left_at[i] != left_at[j]:
        return left_at[i] < left_at[j]
    if left[i] != left[j]:
        return left[i] < left[j]
    if right_at[i] != right_at[j]:
        return right_at[i] < right_at[j]
    return right[i] < right[j]


@kernel
def merge_runs(left, right, left_at, right_at, order, spare, lo, mid, hi):
    """Merge the ordered runs [lo, mid) and [mid, hi) of `order`; what is in its place already is not touched,
    so runs that follow each other cost one comparison."""
    if lo == mid or mid == hi or not _precedes(left, right, left_at, right_at, order[mid], order[mid - 1]):
        return
    begin, end = lo, mid  # find the first of the left run that the right one goes before
    while begin < end:
        middle = (begin + end) // 2
        if _precedes(left, right, left_at, right_at, order[mid], order[middle]):
            end = middle
        else:
            begin = middle + 1
    for k in range(begin, mid):
        spare[k] = order[k]
    i, j, k = begin, mid, begin
    while i < mid:
        if j < hi and _precedes(left, right, left_at, right_at, order[j], spare[i]):
            order[k] = order[j]
            j += 1
        else:
            order[k] = spare[i]
            i += 1
        k += 1


@kernel
def sort_matches(left, right, left_at, right_at, order, spare):
    """Sort the indices in `order`; O(n) if they are sorted, O(n log n) at worst."""
    n = len(order)
    for lo in range(0, n, _BLOCK):  # by insertion, since calling for every two would cost more than comparing
        for i in range(lo + 1, min(lo + _BLOCK, n)):
            moved, j = order[i], i
            while j > lo and _precedes(left, right, left_at, right_at, moved, order[j - 1]):
                order[j] = order[j - 1]
                j -= 1
            order[j] = moved
    width = _BLOCK
    while width < n:
        for lo in range(0, n - width, 2 * width):
            merge_runs(left, right, left_at, right_at, order, spare, lo, lo + width, min(lo + 2 * width, n))
        width *= 2


@kernel
def sort_ties(later, left, right, left_at, right_at, order, spare):
    """Sort matches that stand in order of the `later` time, where they lie. O(n) but for runs of one time: two streams
    share a few of their many instants, and only matches of those are mixed up. `order` and `spare` are room.

    Which of two events is later is as good as random, so what is compared for each match has no branches.
    """
    sorted_to = 0
    for i in range(1, len(later)):
        j = i - 1
        is_mixed = (later[i] == later[j]) & (
            (left_at[i] < left_at[j])
            | (left_at[i] == left_at[j])
            & (
                (left[i] < left[j])
                | (left[i] == left[j])
                & ((right_at[i] < right_at[j]) | (right_at[i] == right_at[j]) & (right[i] < right[j]))
            )
        )
        if is_mixed and i >= sorted_to:
            lo, sorted_to = j, i + 1
            while lo > 0 and later[lo - 1] == later[i]:
                lo -= 1
            while sorted_to < len(later) and later[sorted_to] == later[i]:
                sorted_to += 1
            run = order[lo:sorted_to]
            for k in range(len(run)):
                run[k] = lo + k
            sort_matches(left, right, left_at, right_at, run, spare[lo:sorted_to])
            for column in (left, right, left_at, right_at):
                for k in range(len(run)):
                    spare[lo + k] = column[run[k]]
                for k in range(len(run)):
                    column[lo + k] = spare[lo + k]


@kernel
def first_later(left_at, right_at, instant):
    """The first match whose later time is at least `instant`; O(log n)."""
    lo, hi = 0, len(left_at)
    while lo < hi:
        mid = (lo + hi) // 2
        if max(left_at[mid], right_at[mid]) < instant:
            lo = mid + 1
        else:
            hi = mid
    return lo


@kernel
def choose_matches(left, right, left_at, right_at, lo, hi, left_from, left_to, right_from, right_to,
                   left_since, right_since, out):  # fmt: skip
    """Matches among `lo .. hi - 1` with both times in their ranges and both numbers since some; their count."""
    count = 0
    for i in range(lo, hi):
        if (
            left_from <= left_at[i] < left_to
            and right_from <= right_at[i] < right_to
            and left[i] >= left_since
            and right[i] >= right_since
        ):
            out[count] = i
            count += 1
    return count


@kernel
def choose_changing(left, right, left_at, right_at, lo, hi, left_since, right_since, left_seen, left_unseen,
                    right_seen, right_unseen, new_from, begin, end, out):  # fmt: skip
    """Matches among `lo .. hi - 1` that are visible at some instant from `begin` to `end`, since `new_from` or not
    to the end, and both numbers since some; their count."""
    count = 0
    for i in range(lo, hi):
        seen = max(left_at[i] + left_seen, right_at[i] + right_seen)
        unseen = min(left_at[i] + left_unseen, right_at[i] + right_unseen)
        if (
            seen < end
            and unseen >= begin
            and (seen >= new_from or unseen < end)
            and left[i] >= left_since
            and right[i] >= right_since
        ):
            out[count] = i
            count += 1
    return count


@kernel
def choose_new(left, right, left_at, right_at, longer, longest, slide, first, left_since, right_since,
               tick, match, until):  # fmt: skip
    """Matches, in order of their later times, that some window up to `longest` sees at the `first` tick or later, with
    both numbers since some: by which tick each is first seen, which match it is, and its `until`; their count."""
    count, at, edge, least = 0, 0, 0, 0
    for i in range(len(left)):
        later = max(left_at[i], right_at[i])
        if later >= edge or not i:  # one division for each slide, not for each match
            at = later // slide + 1
            edge = at * slide
            least = max(at, first) * slide - longest
        ends = min(left_at[i] + longer, right_at[i])
        # written in any case, counted if it is one: nobody can foresee which are
        tick[count], match[count], until[count] = at, i, ends
        count += (ends >= least) & (left[i] >= left_since) & (right[i] >= right_since)
    return count


@kernel
def find_fronts(lane_of, until, ends, lane, least, before, begin, now, then):
    """Of runs that end at `ends[1:]`, ordered by lane, then by descending `until`: where the elements of a lane begin,
    counted from the start of the run, and how many of them, at the front, are at least `least`, and at least `before`,
    which is less; for each query that has such a lane and such times. O(log n) for each query and run."""
    for q in range(len(lane)):
        for r in range(len(ends) - 1):
            first, end = ends[r], ends[r + 1]
            if first < end and lane_of[first] < lane[q]:
                while first < end:
                    middle = (first + end) // 2
                    if lane_of[middle] < lane[q]:
                        first = middle + 1
                    else:
                        end = middle
            start, end = first, ends[r + 1]
            while first < end:
                middle = (first + end) // 2
                if lane_of[middle] == lane[q] and until[middle] >= least[q]:
                    first = middle + 1
                else:
                    end = middle
            begin[q, r], now[q, r] = start - ends[r], first - start
            # those of one slide more are a few that follow
            end, step = ends[r + 1], 1
            while first + step < end:
                middle = first + step
                if lane_of[middle] != lane[q] or until[middle] < before[q]:
                    end = middle
                else:
                    first, step = middle + 1, 2 * step
            while first < end:
                middle = (first + end) // 2
                if lane_of[middle] == lane[q] and until[middle] >= before[q]:
                    first = middle + 1
                else:
                    end = middle
            then[q, r] = first - start


@kernel
def list_pieces(start, many, out):
    """The numbers of runs that begin at `start` and have so `many` elements, one run after the other."""
    place = 0
    for i in range(len(start)):
        for j in range(start[i], start[i] + many[i]):
            out[place] = j
            place += 1


@kernel
def fill_leaves(until, size, slide, out):
    """When a window of `size` ceases to see pairs, whose `until` descends: at the first multiple of the slide after
    `until + size`. One division for each such instant: for each pair it would take longer than all else."""
    i = 0
    while i < len(until):
        at = ((until[i] + size) // slide + 1) * slide
        least = at - slide - size
        while i < len(until) and until[i] >= least:
            out[i] = at
            i += 1


@kernel
def first_kept(at, instant):
    """The first event that is not before `instant`; O(events before it)."""
    for i in range(len(at)):
        if at[i] >= instant:
            return i
    return len(at)


@kernel
def count_chained(key, last, prior, first, below, many):
    """How many elements each key has among those numbered `first .. below - 1`; their total.

    `key` is -1 where nothing is sought; `prior` is of the elements from `first` on. O(elements of the keys).
    """
    total = 0
    for i in range(len(key)):
        c = last[key[i]] if 0 <= key[i] < len(last) else -1
        count = 0
        while c >= first:
            count += c < below
            c = prior[c - first]
        many[i] = count
        total += count
    return total


@kernel
def list_chained(key, last, prior, first, below, out):
    """Their numbers, key by key, oldest first."""
    end = 0
    for i in range(len(key)):
        c = last[key[i]] if 0 <= key[i] < len(last) else -1
        begin = end
        while c >= first:
            if c < below:
                out[end] = c
                end += 1
            c = prior[c - first]
        lo, hi = begin, end - 1
        while lo < hi:
            out[lo], out[hi] = out[hi], out[lo]
            lo, hi = lo + 1, hi - 1
