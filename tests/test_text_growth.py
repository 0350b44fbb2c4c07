"""Text that others wrote costs time in proportion to its length, wherever it is read, matched or shown."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import click
import pytest
import typer

from kafkawire import capture, report
from kafkawire.capture import ExchangeSelection
from kafkawire.capture.exchange import CapturedExchange
from kafkawire.capture.exchange_selection import Selector
from kafkawire.cli import arguments, capture_options, capture_summary, encode, formatting, ranges, usage_errors
from kafkawire.client.transport import config, java_properties, property_names
from kafkawire.codegen import defaults, load, names, versions
from kafkawire.codegen.importing import sources
from kafkawire.errors import KafkaWireError
from kafkawire.logdir import file_names, text_files
from kafkawire.messages import REGISTRY, ApiVersionsRequest, SaslAuthenticateRequest
from kafkawire.printable import printable
from kafkawire.records import secrets
from kafkawire.rows import Audit, Exchange
from kafkawire.wire.json_form import from_json
from kafkawire.wire.layout import FLOAT64, INT64, STRING, UUID
from tests.doubling import assert_linear_in_text, assert_linear_time
from tests.report.audits import NOON, READ, finding

#: What text that is wrong ends in.
_REFUSED = (KafkaWireError, ValueError, typer.BadParameter, click.UsageError)


def _bytes(text_: str) -> bytes:
    return text_.encode("utf-8", "surrogatepass")


def _in_report(text_: str) -> None:
    named = finding(topic=text_, transactional_id=text_, evidence=(text_,), action=f"{text_}: kafkawire {text_}")
    report.render(Audit(as_of=NOON, read=READ, findings=(named,)))


def _in_summary(text_: str) -> None:
    summary = capture.Summary()
    summary.problem_of(Exchange(problem=text_))
    capture_summary.FileNotes().summary(text_, summary)


def _filtered(text_: str) -> None:
    wanted = ExchangeSelection(
        apis=(text_,), client_ids=(text_,), topics=(text_,), transactional_ids=(text_,), errors=True
    )
    matched = CapturedExchange(row=Exchange(api=text_, client_id=text_, problem=text_), request=ApiVersionsRequest())
    Selector(wanted).selects(matched)


def _usage(text_: str) -> None:
    for complaint in ("is not a valid integer range.", "is not a valid float", "is nothing"):
        usage_errors.usage_text(click.BadParameter(f"{text_!r} {complaint}", param_hint=text_))


WORK: dict[str, Callable[[str], Any]] = {
    "printable": printable,
    "json": formatting.json_bytes,
    "report": _in_report,
    "properties": lambda text_: java_properties.parse_properties(text_, "file"),
    "names of properties": lambda text_: property_names.check({text_: ""}),
    "JAAS": java_properties.parse_jaas,
    "addresses": config.parse_addresses,
    "checkpoint": lambda text_: list(text_files.offset_checkpoint(b"0\n1\n" + _bytes(text_))),
    "leader epochs": lambda text_: list(text_files.leader_epochs(b"0\n1\n" + _bytes(text_))),
    "meta.properties": lambda text_: list(text_files.properties(_bytes(text_))),
    "quorum-state": lambda text_: list(text_files.json_properties(_bytes(text_))),
    "names of partitions": file_names.partition_name,
    "names of files": file_names.file_name,
    "URIs": file_names.is_uri,
    "secret configurations": secrets.is_secret_config,
    "kinds of problems": _in_summary,
    "filters of a capture": _filtered,
    "--api": lambda text_: capture_options._known_api(text_, REGISTRY),
    "hex": lambda text_: arguments.hex_bytes(text_, None),
    "--offset": ranges.offset_range,
    "--time": ranges.time_range,
    "usage errors": _usage,
    "base64": lambda text_: from_json(SaslAuthenticateRequest, {"authBytes": text_}, 0),
    "schemas": load.load_text,
    "default of a number": lambda text_: defaults._PARSERS[FLOAT64](text_, FLOAT64),
    "default of an integer": lambda text_: defaults._PARSERS[INT64](text_, INT64),
    "default of a uuid": lambda text_: defaults._PARSERS[UUID](text_, UUID),
    "default of a string": lambda text_: defaults._PARSERS[STRING](text_, STRING),
    "versions": versions.VersionRange.parse,
    "names of fields": names.snake_case,
    "release inside of a jar": lambda text_: sources._VERSION.search(f"version=1{text_}"),
    "paths of schemas": lambda text_: (sources._CHECKOUT.match(text_), sources._INNER_FOLDERS.sub("", text_)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", WORK)
def test_work_grows_linearly_with_text(name: str) -> None:
    def work(text_: str) -> None:
        with suppress(*_REFUSED):
            WORK[name](text_)

    if name in ("report", "--api"):  # these look at how wide text is, and compare it with names
        assert_linear_in_text(work, 500, heads=[""])
    else:
        assert_linear_in_text(work, 500)


@pytest.mark.parametrize("read", [load.load_text, lambda text_: encode._object(text_, None)])
def test_work_grows_linearly_with_the_keys_of_an_object_that_has_one_twice(read: Callable[[str], Any]) -> None:
    def prepare(n: int) -> Callable[[], object]:
        keys = ",".join(f'"{number % (n - 1)}": 0' for number in range(n))

        def work() -> None:
            with suppress(KafkaWireError):
                read("{" + keys + "}")

        return work

    assert_linear_time(prepare, 500)


@pytest.mark.slow
def test_work_grows_linearly_with_the_lines_of_a_property() -> None:
    assert_linear_time(lambda n: partial(java_properties.parse_properties, f"{'a' * 300}\\\n" * n, "file"), 1000)
