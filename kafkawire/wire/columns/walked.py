"""What an engine makes of values: the columns of a plan, in buffers as Arrow holds them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kafkawire.wire.columns.inputs import Bytes, Ints

#: One more than there are elements; the first is 0.
Offsets: TypeAlias = NDArray[np.int32]
Numbers: TypeAlias = NDArray[Any]
#: A bit for each element, the first the lowest; None where none is null.
Validity: TypeAlias = Bytes | None

#: Strings and their bytes; and which texts are no UTF-8: those have U+FFFD in place of what is wrong.
Blobs: TypeAlias = tuple[Offsets, Validity, Bytes, Ints]


class Walked(NamedTuple):
    """Columns in the plan's order.

    Attributes:
        refused: values that the engine did not read, ascending; their entries mean nothing.
        counts: elements of each space.
        numbers: bools as bytes, uuids as 16 bytes each, unsigned integers in the next wider type.
        blobs: see `Blobs`.
        arrays: offsets, validity, the numbers of all arrays.
        lists: offsets, validity.
        marks: validity.
        unknown: unknown tagged fields: offsets of each element's list of them, their tags, offsets of their data, data.
    """

    refused: Ints
    counts: Sequence[int]
    numbers: Sequence[Numbers]
    blobs: Sequence[Blobs]
    arrays: Sequence[tuple[Offsets, Validity, Numbers]]
    lists: Sequence[tuple[Offsets, Validity]]
    marks: Sequence[Validity]
    unknown: Sequence[tuple[Offsets, NDArray[np.int32], Offsets, Bytes]]
