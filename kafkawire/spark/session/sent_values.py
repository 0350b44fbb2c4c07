"""Values that the driver and the tasks of one job send each other, as bytes in a column.

What may be sent: values of this package's classes, of Python's and of NumPy's, which say all that they mean: no open
file, no connection, no session, no function. A task may run again, and on another machine: what it is sent is read any
number of times, and is not changed.

How: with `pickle`, which both sides have in one version, as Spark asks of Python and `session_on` of this package. Such
bytes are in shuffles and in tables of the job, and nowhere else: checkpoints of streams, progress of lakes and tables
that are written have texts and numbers, since others read them. `received` takes only what `sent` made in the same job:
`pickle` executes code that its input names, so that no bytes of a log, a capture, a store or a peer may come to it.
"""

from __future__ import annotations

import pickle
from typing import Any


def sent(value: object) -> bytes:
    """A value as bytes of a column."""
    return pickle.dumps(value)


def received(data: bytes) -> Any:
    """The value that `sent` made these bytes of, in the same job."""
    return pickle.loads(data)  # written by our own driver or workers
