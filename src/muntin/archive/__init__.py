"""archive: results of windowed queries on disk, indexed twice, by when they came and by when they go.

A result has a key, the instant it was generated and the instant it expires. Results of a join expire in
another order than they arrive; parts by both let an update touch few of them.
"""

from muntin.archive.archive import Archive
from muntin.archive.definition import EXPIRES, GENERATED, Definition
from muntin.archive.indexing import VARIANTS, Choice, Indexing, Variant, choose_indexing
from muntin.archive.rewrite import Touched
from muntin.archive.view import View

__all__ = [
    "EXPIRES",
    "GENERATED",
    "VARIANTS",
    "Archive",
    "Choice",
    "Definition",
    "Indexing",
    "Touched",
    "Variant",
    "View",
    "choose_indexing",
]
