"""The witness: whether each record was delivered exactly once, by brokers' answers (captures) joined with their logs.

```python
witness = Witness(logdir.open("kafka-logs/"))
for exchange in capture.read("trace.pcap", keep=True).matched():
    witness.add(exchange)
for row in witness.rows():       # WitnessSummary, FateTotals, Premises, DeliveryAnomalies
    ...
```

`CopyComparison` compares two copies of the same data: replicas, a mirror, before and after a restore.

Every batch that was sent has exactly one fate, and their counts sum to what was seen. No clock is compared: batches are
found by producer id, epoch and sequence, by offset, and by the checksum of their records.
"""

from __future__ import annotations

from kafkawire.errors import MissingExtraError

try:
    import numpy as _numpy  # noqa: F401
except ImportError:
    raise MissingExtraError("kafkawire.witness", "arrow") from None

from kafkawire.witness.batch_fates import FATES, Fate
from kafkawire.witness.copies import MOST_DIFFERENCES, CopyComparison
from kafkawire.witness.evidence import MOST_ANOMALIES, Witness

__all__ = ["FATES", "MOST_ANOMALIES", "MOST_DIFFERENCES", "CopyComparison", "Fate", "Witness"]
