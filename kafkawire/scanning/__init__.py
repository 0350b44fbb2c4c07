"""Sources of records as Arrow streams: `kafkawire.scan`.

- `entry`: its arguments; `stream`: what it returns; `polars_source`: the same as a Polars `LazyFrame`
- `logs`: records of log directories, segments, tiers; `live`: of live topics
- `captures`: exchanges
- `record_options`, `record_filter`, `record_columns`, `record_reading`: which records, and as what
"""

from __future__ import annotations

from kafkawire.errors import MissingExtraError

try:
    import pyarrow  # noqa: F401
except ImportError:
    raise MissingExtraError("kafkawire.scan", "arrow") from None

from kafkawire.scanning.entry import scan
from kafkawire.scanning.stream import Scan

__all__ = ["Scan", "scan"]
