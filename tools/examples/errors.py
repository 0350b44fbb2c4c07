"""What can go wrong while examples are made."""

from __future__ import annotations


class ExamplesError(Exception):
    """Something that has to be there is missing, or Kafka answered other than the recipe expects."""
