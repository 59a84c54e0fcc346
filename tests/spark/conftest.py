"""The folder's own modules can be imported by name, as those of tests/ can."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
