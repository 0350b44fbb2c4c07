"""What goes wrong in a soak that no count tells."""

from __future__ import annotations


class SoakError(Exception):
    """A part of the run ended, did not begin, or did not come to its end in time; which, and what it said."""
