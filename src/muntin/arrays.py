"""Arrays: the types of arrays that pass between folders, and instants before and after all others."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Arrays = dict[str, npt.NDArray[Any]]

LONG_AGO = -(2**62)  # an instant before all others, with room to subtract from
FOREVER = 2**62  # an instant after all others, with room to add to
