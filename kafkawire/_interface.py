"""The interface between generated code and `kafkawire.runtime`, as a number."""

from __future__ import annotations

#: Major and minor number of the names in `kafkawire.runtime` and of their meaning. The minor number grows with names
#: that generated code uses, the major number with changes that packages generated before do not survive.
INTERFACE = (1, 0)
