"""Chained: all elements of some keys, by the chains that elements of a key form, newest first."""

from muntin.kernels.jit import kernel


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
