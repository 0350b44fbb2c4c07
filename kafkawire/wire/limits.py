"""The limits of the format and of the engines, each written here only.

The native engine is compiled with this file: `native/src/limits.rs` reads the numbers below, so each stays one plain
line of the form `NAME = number`.
"""

from __future__ import annotations

#: Longest string in bytes, whatever its length is written in (Kafka: "had invalid length").
MAX_STRING = 32767

#: Most tagged fields that one struct may have (Kafka 4.4.0).
MAX_TAGS = 10000

#: Deepest nesting of structs that a message may have (the compiler refuses more; no Kafka message passes 7).
MAX_DEPTH = 32

#: Bytes that a decode may allocate: this many times its input, plus a constant.
ALLOCATION_FACTOR = 64
ALLOCATION_BASE = 65536
