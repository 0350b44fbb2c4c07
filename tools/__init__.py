"""For developers: what each tool is for is in CONTRIBUTING.md."""

from __future__ import annotations

from pathlib import Path

#: The checkout.
ROOT = Path(__file__).parents[1]
