"""Objects that the classes of Aiven's plugin wrote, from the `LocalTieredStorage` of another recording."""

from __future__ import annotations

import base64
import io
import json
import shutil
from pathlib import Path
from typing import Any

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire import logdir, transactions
from kafkawire.errors import RecordError
from kafkawire.logdir import tier_objects
from kafkawire.logdir.file_names import PartitionName
from kafkawire.logdir.log_files import log_file, partition_of
from tests.logdir.test_logdir_tiers import consumed, orders, rows_of
from tools.recordings.archive import unpacked
from tools.recordings.tiered_storage import TIERS

LAYOUTS = [name for name in TIERS if "encrypted" not in name]
TOPIC_ID = "6i8J_b6cRDaTJ2jld3ungw"


def objects(name: str) -> Path:
    return unpacked("tier-objects") / name


def key() -> Path:
    return unpacked("tier-objects") / "private.pem"


def local() -> Path:
    return unpacked("tiered-storage")


def contents(directory: logdir.LogDirectory) -> dict[tuple[str, str], bytes]:
    """By name and kind; a `.txnindex` that is not there is empty."""
    found = {(file.name, file.kind): file.read_bytes() for file in directory.files if file.kind != "rsm-manifest"}
    return {place: data for place, data in found.items() if data or place[1] != "txnindex"}


@pytest.mark.slow
@pytest.mark.parametrize("name", TIERS)
def test_every_file_of_a_segment_has_the_bytes_of_the_broker(name: str) -> None:
    expected = contents(logdir.open(local() / "tier"))
    directory = logdir.open(objects(name), tier_keys=[key()])
    assert contents(directory) == expected
    assert {kind for _, kind in expected} == {"log", "index", "timeindex", "txnindex", "snapshot", "epochs"}
    for file in directory.files:
        if file.kind != "rsm-manifest":
            assert (file.size, file.modified) == (len(file.read_bytes()), 0.0)  # the archive has no times


@pytest.mark.slow
@pytest.mark.parametrize("name", TIERS)
@pytest.mark.parametrize("node", ["node-1", "node-2"])
def test_log_and_objects_have_the_records_that_a_consumer_read(name: str, node: str) -> None:
    partition = orders(logdir.open(local() / node, objects(name), tier_keys=[key()]))
    start = partition.log_start_offset or 0
    assert rows_of(partition, start) == consumed()["read_uncommitted"]
    outcomes = logdir.outcomes_of(partition)
    view = logdir.View(outcomes=outcomes, isolation_level="read_committed")
    options = logdir.Options(deep=True, payloads=True, view=view)
    found = [row for file in partition.segments for row in logdir.rows_of(file, options) if row.kind == "record"]
    assert [(row.offset, row.key, row.value) for row in found] == consumed()["read_committed"]


def test_a_file_is_opened_by_its_path(tmp_path: Path) -> None:
    (manifest, *_) = sorted(objects("zstd").rglob("*.rsm-manifest"))
    segment, indexes = manifest.with_suffix(".log"), manifest.with_suffix(".indexes")
    (file,) = logdir.open(segment).files
    assert (file.topic, file.partition, file.state, file.offset) == ("orders", 0, "tiered", 0)
    assert len(list(file.batches())) > 1
    kinds = [file.kind for file in logdir.open(indexes).files]
    assert kinds == ["index", "timeindex", "snapshot", "epochs", "txnindex"]
    assert json.loads(logdir.open(manifest).files[0].read_bytes())["version"] == "1"


def test_the_folders_of_a_partition_are_known_by_its_files() -> None:
    names = [f"{0:020}-vUD2ok5iQti4la3FU6DE-Q.rsm-manifest"]
    assert partition_of(f"tier/a-b-{TOPIC_ID}/7", names) == ("a-b", 7, "tiered")
    assert partition_of(f"tier/a-b-{TOPIC_ID}/7", [f"{0:020}.log"]) is None
    assert partition_of("tier/orders/7", names) is None
    assert partition_of(f"tier/orders-{TOPIC_ID}/99999999999", names) is None
    file = log_file(f"tier/a-b-{TOPIC_ID}/7/{names[0]}", PartitionName("a-b", 7, "tiered"))
    assert (file.root, file.kind, file.in_objects) == ("tier", "rsm-manifest", True)


class Counted(io.BytesIO):
    """Bytes whose reads are listed."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.reads: list[tuple[int, int]] = []

    def read(self, size: int | None = -1, /) -> bytes:
        self.reads.append((self.tell(), size or 0))
        return super().read(size)


class Stored:
    """A segment's objects, whose reads are listed."""

    def __init__(self, path: Path, keys: tuple[str, ...] = ()) -> None:
        self.path, self.tier_keys = str(path), keys
        self.log = Counted(path.read_bytes())

    def raw(self, path: str) -> Any:
        return self.log if path == self.path else Path(path).open("rb")


@pytest.mark.parametrize("name", TIERS)
def test_only_the_chunks_that_are_needed_are_read(name: str) -> None:
    path = max(objects(name).rglob("*.log"), key=lambda path: path.stat().st_size)
    whole = next(file for file in (local() / "tier").rglob("*.log") if file.name == path.name).read_bytes()
    assert len(whole) > 800
    file = Stored(path, (str(key()),))
    source = tier_objects.opened(file)
    for start in range(0, len(whole), 77):
        for size in (1, 50, 300):
            source.seek(start)
            assert source.read(size) == whole[start : start + size]
    file.log.reads.clear()
    source = tier_objects.opened(file)
    source.seek(410)
    assert source.read(80) == whole[410:490]
    ((_, length),) = file.log.reads  # chunk 2 alone
    assert length <= 80 if name == "plain" else length <= 200 + 28 + 32
    assert (source.seek(0, 2), source.read(5)) == (len(whole), b"")


def copied(name: str, tmp_path: Path) -> Path:
    """A tier that a test may change; the manifest of its largest segment."""
    root = shutil.copytree(objects(name), tmp_path / "tier")
    segment = max(root.rglob("*.log"), key=lambda path: path.stat().st_size)
    return segment.with_suffix(".rsm-manifest")


def failure(manifest: Path, keys: tuple[Path, ...] = ()) -> str:
    (file,) = logdir.open(manifest.with_suffix(".log"), tier_keys=keys).files
    with pytest.raises(OSError) as caught:
        file.read_bytes()
    assert caught.value.filename == str(manifest.with_suffix(".log"))
    return str(caught.value.strerror)


def test_names_the_key_pair_that_is_missing_or_wrong(tmp_path: Path) -> None:
    manifest = copied("encrypted-zstd", tmp_path)
    assert failure(manifest) == (
        "encrypted; its data key is wrapped with the key pair 'pair-1': no private key was given"
    )
    other = key().with_name("other.pem")
    assert failure(manifest, (other,)).endswith("'pair-1': none of the given private keys unwraps it")
    (file,) = logdir.open(manifest.with_suffix(".log"), tier_keys=[other, key()]).files
    assert file.read_bytes()


def test_refuses_files_that_are_no_private_keys(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("no key")
    for path, error in ((tmp_path / "key", "no private key in PEM"), (tmp_path / "none", "No such file")):
        with pytest.raises(OSError, match=error):
            logdir.open(objects("plain"), tier_keys=[path])


def flip(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 1
    path.write_bytes(data)


def test_names_the_chunk_that_is_damaged_and_reads_those_before_it(tmp_path: Path) -> None:
    manifest = copied("encrypted", tmp_path)
    segment = manifest.with_suffix(".log")
    flip(segment, 3 * 228 + 40)
    assert failure(manifest, (key(),)) == (
        "chunk 3 at bytes 684 to 912 does not decrypt: it was changed, or the data key is another segment's"
    )
    (file,) = logdir.open(segment, tier_keys=[key()]).files
    (whole,) = logdir.open(next((local() / "tier").rglob(segment.name))).files
    expected = [batch.base_offset for batch in whole.batches() if batch.position + batch.size <= 600]  # type: ignore[union-attr]
    found: list[int] = []
    with pytest.raises(OSError, match="chunk 3"):
        found.extend(batch.base_offset for batch in file.batches())  # type: ignore[union-attr]
    assert len(expected) == 2
    assert found == expected


def test_names_chunks_that_do_not_decompress_or_are_not_there(tmp_path: Path) -> None:
    manifest = copied("zstd", tmp_path)
    segment = manifest.with_suffix(".log")
    data = segment.read_bytes()
    segment.write_bytes(b"\0" + data[1:])
    assert failure(manifest).startswith("chunk 0 at bytes 0 to ")
    segment.write_bytes(data[:-3])
    assert failure(manifest).startswith("the object ends 3 bytes before the end of chunk ")
    segment.write_bytes(data + b"x")
    assert failure(manifest) == f"{len(data) + 1} bytes, and its manifest has {len(data)}"
    manifest.unlink()
    assert failure(manifest).startswith(f"its manifest {manifest} is missing")


def sizes(*values: int) -> str:
    """As `ChunkSizesBinaryCodec` writes them, with four bytes a difference."""
    ints = [len(values), *((0,) if len(values) > 1 else ())]
    data = b"".join(value.to_bytes(4) for value in ints) + (b"\x04" if len(values) > 1 else b"")
    return packed(data + b"".join(value.to_bytes(4) for value in values))


def packed(data: bytes) -> str:
    return base64.b64encode(bytes(cramjam.zstd.compress(data))).decode()


FIXED = {"type": "fixed", "originalChunkSize": 200, "transformedChunkSize": 200, "finalTransformedChunkSize": 9}
VARIABLE = {"type": "variable", "originalChunkSize": 200, "originalFileSize": 500}
HOSTILE: list[tuple[dict[str, Any], str]] = [
    ({"version": "2"}, "Invalid value '2'"),
    ({"chunkIndex": {}}, "missing required field `type`"),
    ({"chunkIndex": {**FIXED, "originalFileSize": -1}}, ">= 0"),
    ({"chunkIndex": {**FIXED, "originalFileSize": 1 << 31}}, "<= 2147483647"),
    ({"chunkIndex": {**FIXED, "originalChunkSize": 0, "originalFileSize": 500}}, ">= 1"),
    ({"chunkIndex": {**FIXED, "originalChunkSize": 1 << 31, "originalFileSize": 500}}, "<= 2147483647"),
    ({"chunkIndex": {**FIXED, "originalChunkSize": 1, "originalFileSize": 1 << 30}}, "1073741824 chunks; at most"),
    ({"chunkIndex": {**FIXED, "originalFileSize": 500}, "compression": False}, "neither compressed nor encrypted"),
    ({"chunkIndex": {**FIXED, "originalChunkSize": 1 << 30, "originalFileSize": 1 << 30}}, "a chunk of 1073"),
    ({"chunkIndex": {**VARIABLE, "transformedChunks": "?"}}, "base64"),
    ({"chunkIndex": {**VARIABLE, "transformedChunks": "eHl6"}}, "is not valid"),
    ({"chunkIndex": {**VARIABLE, "transformedChunks": packed(bytes(100 << 20))}}, "more than 5242880 bytes"),
    ({"chunkIndex": {**VARIABLE, "transformedChunks": sizes(7, 7)}}, "sizes of 2 chunks, and the segment has 3"),
    ({"chunkIndex": {**VARIABLE, "transformedChunks": sizes(7, 1 << 31, 7)}}, "a chunk of 2147483648 bytes"),
    ({"chunkIndex": {**VARIABLE, "transformedChunks": packed(b"\xff" * 4)}}, "4294967295 chunks; at most"),
    ({"chunkIndex": {**VARIABLE, "transformedChunks": packed(b"\0\0\0\3\0\0\0\0\0")}}, "9 bytes for the sizes of 3"),
    ({"encryption": {"dataKey": "x", "aad": ""}}, "dataKey is not ID:KEY"),
    ({"segmentIndexes": {}}, "missing required field"),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("change", "error"), HOSTILE)
def test_refuses_manifests_that_cannot_be(tmp_path: Path, change: dict[str, Any], error: str) -> None:
    manifest = copied("zstd", tmp_path)
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | change))
    found = failure(manifest)
    assert found.startswith(f"its manifest {manifest} is not valid: ")
    assert error in found


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"\xff", b"[" * 100_000])
def test_refuses_manifests_that_are_no_json_objects(tmp_path: Path, text: bytes) -> None:
    manifest = copied("plain", tmp_path)
    manifest.write_bytes(text)
    assert failure(manifest).startswith(f"its manifest {manifest} is not valid: ")


def test_stops_a_chunk_that_decompresses_to_more_than_its_part_of_the_segment(tmp_path: Path) -> None:
    manifest = copied("zstd", tmp_path)
    found = json.loads(manifest.read_text())
    bomb = bytes(cramjam.zstd.compress(bytes(50 << 20)))
    manifest.with_suffix(".log").write_bytes(bomb)
    index = {**VARIABLE, "originalFileSize": 200, "transformedChunks": sizes(len(bomb))}
    manifest.write_text(json.dumps(found | {"chunkIndex": index}))
    assert failure(manifest) == f"chunk 0 at bytes 0 to {len(bomb)} does not decompress: more than 200 bytes"


@given(st.lists(st.integers(0, 1 << 30), max_size=6))
def test_sizes_of_chunks_are_those_that_were_written(values: list[int]) -> None:
    data = len(values).to_bytes(4)
    if len(values) > 1:
        base = min(values[:-1])
        width = max(1, -(-max(value - base for value in values[:-1]).bit_length() // 8))
        data += base.to_bytes(4) + bytes([width]) + b"".join((value - base).to_bytes(width) for value in values[:-1])
    data += b"".join(value.to_bytes(4) for value in values[-1:])
    assert tier_objects.chunk_sizes(data) == values


def test_a_tier_of_a_deleted_topic_of_the_same_name_is_no_part_of_the_log(tmp_path: Path) -> None:
    (topic,) = objects("plain").iterdir()
    shutil.copytree(topic, tmp_path / "orders-AAAAAAAAAAAAAAAAAAAAAQ")
    directory = logdir.open(local() / "node-1", tmp_path)
    assert orders(directory).tiers == ()
    assert {file.state for file in orders(directory).segments} == {""}


@pytest.mark.parametrize("archive", ["tiered-storage/tier", "tier-objects/zstd"])
def test_files_of_other_names_in_a_tier_are_no_part_of_it(tmp_path: Path, archive: str) -> None:
    name, folder = archive.split("/")
    place = next(shutil.copytree(unpacked(name) / folder, tmp_path / "tier").rglob("*.log")).parent
    for stray in (f"{0:020}.log", f"{5:020}.txnindex", "partition.metadata", "x.log"):
        (place / stray).write_bytes(b"x")
    directory = logdir.open(local() / "node-2", tmp_path)
    assert rows_of(orders(directory), 9) == consumed()["read_uncommitted"]
    audit = transactions.audit(directory)
    assert (audit.violations, audit.damage) == ((), ())
    assert audit.read.gaps == (f"{place / f'{0:020}.log'} was not read: its name is no segment's in a tier",)


ODD = [
    0,
    -1,
    1,
    199,
    201,
    2**31 - 1,
    2**31,
    2**64,
    "x",
    "",
    None,
    [],
    {},
    True,
    1.5,
    "pair-1:AAAA",
    ":",
    "AAAA",
    "fixed",
]


@pytest.mark.slow
@pytest.mark.parametrize("name", TIERS)
def test_any_value_in_a_manifest_is_read_or_refused(tmp_path: Path, name: str) -> None:
    manifest = copied(name, tmp_path)
    whole = json.loads(manifest.read_text())
    files = [one for one in logdir.open(manifest.parent, tier_keys=[key()]).files if one.name[:43] == manifest.stem]
    places = [(part, field) for part, value in whole.items() if isinstance(value, dict) for field in value]
    outcomes = set()
    for part, field in [*places, *((part, None) for part in whole)]:
        for value in ODD:
            changed = {**whole, part: value if field is None else {**whole[part], field: value}}
            manifest.write_text(json.dumps(changed))
            for file in files:
                try:
                    outcomes.add(len(file.read_bytes()) == file.size)
                except (OSError, RecordError):
                    outcomes.add(None)
    assert outcomes == {True, None}
