"""Short names of NumPy's arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Int8 = npt.NDArray[np.int8]
Int16 = npt.NDArray[np.int16]
Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
#: The arrays of `columns.Batches` or of `columns.Records`, in their order.
Columns = tuple[npt.NDArray[Any], ...]
