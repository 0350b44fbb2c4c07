"""Test vectors of every message and version for other implementations, and a check of a foreign codec against them."""

from kafkawire.vectors.vectors import Refusal, Vector, refusals, vectors

__all__ = ["Refusal", "Vector", "refusals", "vectors"]
