"""Rules of `--decode-as`, in Wireshark's syntax: what packets of a port are, whatever their content."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kafkawire.capture.encapsulations import NAMED, UDP_PORTS, Encapsulation

_RULE = re.compile(r"\s*(udp|tcp)\.port\s*==\s*(\d{1,5})\s*,\s*([^\s,]+)\s*", re.ASCII)
_KAFKA = "kafka"


class DecodeRules(NamedTuple):
    """The protocols that ports announce.

    Attributes:
        encapsulations: by UDP port: the usual ones, and those of rules.
        kafka: TCP ports of brokers.
    """

    encapsulations: Mapping[int, Encapsulation]
    kafka: frozenset[int]


def rules_of(rules: Iterable[str]) -> DecodeRules:
    """Reads rules: `udp.port==N,vxlan` and `tcp.port==N,kafka`.

    Raises:
        ValueError: a rule is malformed, or its protocol is unknown.
    """
    ports, kafka = dict(UDP_PORTS), set[int]()
    for rule in rules:
        match = _RULE.fullmatch(rule)
        if match is None or not 0 < int(match[2]) < 1 << 16:
            raise ValueError(f"{rule!r} is not udp.port==N,NAME or tcp.port==N,kafka, with a port N from 1 to 65535")
        over, port, name = match[1], int(match[2]), match[3].lower()
        if over == "tcp":
            if name != _KAFKA:
                raise ValueError(f"{rule!r}: {match[3]!r} is not kafka")
            kafka.add(port)
        elif name in NAMED:
            ports[port] = NAMED[name]
        else:
            raise ValueError(f"{rule!r}: {match[3]!r} is none of {', '.join(sorted(NAMED))}")
    return DecodeRules(ports, frozenset(kafka))
