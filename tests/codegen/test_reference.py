"""The reference in Markdown: whole pages, escaped text, error codes in sentences, links."""

from __future__ import annotations

import re
from functools import cache
from html import unescape
from pathlib import Path

import pytest

import kafkawire
from kafkawire.codegen import generate, reference
from kafkawire.codegen.resolve import resolve
from tests import golden
from tests.codegen.schema_builders import field, message, raw

SCHEMAS = Path(kafkawire.__file__).parent / "schemas"
#: What a schema's author may write to be more than text.
HOSTILE = (
    "1. <script>alert(1)</script> **bold** [a](javascript:x) | cell `code` ![p](q) {: #id} &lt; # http://x.y\x1b[2J ~~~"
)


@cache
def pages() -> dict[str, str]:
    facts = reference.load_facts(SCHEMAS)
    return reference.render_reference(generate.load(SCHEMAS / "kafka"), facts, {})


@pytest.mark.slow
@pytest.mark.parametrize("name", ["WriteTxnMarkersResponse", "TransactionLogValue"])
def test_page_of_a_message(name: str) -> None:
    (one,) = (one for one in generate.load(SCHEMAS / "kafka") if one.name == name)
    class_ = kafkawire.lookup(name)
    version = one.valid.high
    value = kafkawire.from_json(class_, VALUES[name], version)
    example = reference.Example(version, value.encode(version), VALUES[name], "Made up.")
    facts = reference.load_facts(SCHEMAS)
    found = reference.render_reference([one], facts, {name: example})
    golden.check(f"codegen/{name}.md", found[f"{name}.md"])


VALUES = {
    "WriteTxnMarkersResponse": {
        "markers": [
            {
                "producerId": 7,
                "topics": [{"name": "orders", "partitions": [{"partitionIndex": 0, "errorCode": 47}]}],
            }
        ]
    },
    "TransactionLogValue": {
        "producerId": 7,
        "previousProducerId": -1,
        "nextProducerId": -1,
        "producerEpoch": 1,
        "nextProducerEpoch": -1,
        "transactionTimeoutMs": 60000,
        "transactionStatus": 1,
        "transactionPartitions": [{"topic": "orders", "partitionIds": [0, 1]}],
        "transactionLastUpdateTimestampMs": 1,
        "transactionStartTimestampMs": 2,
        "clientTransactionVersion": 2,
    },
}


@pytest.mark.slow
def test_every_message_has_a_page_and_every_link_leads_somewhere() -> None:
    assert {f"{one}.md" for one in kafkawire.messages.__all__} < pages().keys()
    anchors = {
        name: set(re.findall(r"\{: #(\w+) \}", text))
        | {heading.lower() for heading in re.findall(r"^#+ (\w+)", text, re.M)}
        for name, text in pages().items()
    }
    for name, text in pages().items():
        for page, anchor in re.findall(r"\]\(([\w-]+\.md)?(?:#([\w-]+))?\)", text):
            assert page in pages() or not page, (name, page)
            assert not anchor or anchor in anchors[page or name], (name, page, anchor)


@pytest.mark.slow
def test_search_terms_are_words_of_their_pages() -> None:
    assert pages()["FindCoordinatorRequest.md"].splitlines()[1] == "# FindCoordinatorRequest"
    assert "\n## NOT\\_COORDINATOR (16) {: #NOT_COORDINATOR }\n" in pages()["error-codes.md"]
    assert "<br>`transaction_start_timestamp_ms` |" in pages()["TransactionLogValue.md"]


def test_text_of_a_schema_is_no_markup() -> None:
    markdown = pytest.importorskip("markdown", reason="needs the group `docs`")
    schema = message(field(about=HOSTILE), about=HOSTILE)
    (one,) = resolve([raw(schema)])
    text = reference.render_reference([one], reference.ReferenceFacts(), {})["Foo.md"]
    html = markdown.markdown(text, extensions=["tables", "attr_list", "md_in_html"])
    shown = unescape(re.sub(r"<[^>]*>", "", html))
    assert shown.count(HOSTILE.replace("\x1b", "\\x1b")) == 2, shown
    assert not re.search(r"<(script|strong|img|del|ol)\b|href=\"(javascript|http:)|\x1b", html)
    assert html.count("<td>") == 4 + 2 * 4, "4 fields of a row, 4 versions"


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        ("0, or 15 no coordinator, 30 Read is missing.", [15, 30]),
        ("Up to version 3: 0, or 15; from version 6 on also 69, in versions 2 to 7 16, in 0-4 none.", [15, 16, 69]),
        (
            "1 offset below -1 or above 7, KIP-98 or 3.7-IV2, StartOffset -1 (KeyType 2), over 10000, version is 0.",
            [1],
        ),
        ("3 not partition 0 of it, 74 or 75 leader epoch, 29, 30 or 53 rights.", [3, 29, 30, 53, 74, 75]),
        ("90 fenced (47 before version 2).", [47, 90]),
    ],
)
def test_codes_that_a_sentence_explains(text: str, codes: list[int]) -> None:
    assert [code for code in reference.error_codes(text) if code not in (4,)] == codes


@pytest.mark.slow
def test_every_number_in_a_sentence_about_codes_is_a_code() -> None:
    known = {entry["code"] for entry in reference.load_facts(SCHEMAS).errors}
    explained = 0
    for one in generate.load(SCHEMAS / "kafka"):
        for struct in (one.root, *one.structs):
            for its in struct.fields:
                if its.name.endswith("ErrorCode") and not its.type.array:
                    codes = reference.error_codes(its.about)
                    assert set(codes) <= known, (one.name, its.about)
                    explained += len(codes)
    assert explained > 500
