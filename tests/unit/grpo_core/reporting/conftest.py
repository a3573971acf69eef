"""The small lake of tests/sql, for reports."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3] / "sql"))
