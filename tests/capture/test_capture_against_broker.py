"""A capture of real clients compared with the request log of the broker, every request and response as JSON.

Clients: Kafka's Java tools, librdkafka and kafka-python; classic, consumer and share groups, transactions, all codecs,
SASL PLAIN and SCRAM, TLS 1.2 and 1.3 decrypted with a key log of the broker. Every exchange in the log must be found
with an equal body; records are compared by their size there. The log leaves out what comes before authentication, and
what never completes.
"""

from __future__ import annotations

import json
import re
import ssl
import time
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kafkawire import capture, to_json
from kafkawire.capture import CapturedExchange
from kafkawire.capture.matcher import NO_RESPONSE
from kafkawire.wire.message import Message
from tests.broker_fixture import StartCluster
from tests.client.certificates import make_identity
from tools.broker.cluster import HOST, free_ports
from tools.broker.errors import BrokerUnavailableError
from tools.broker.jars import key_log_agent
from tools.broker.kafka_tools import run_tool
from tools.recordings import RecordingError, tcpdump

pytestmark = pytest.mark.broker

NOT_LOGGED = {"SaslHandshake", "SaslAuthenticate", "ApiVersions", "Envelope"}
_TIMEOUT_S = 60
_LINE = re.compile(r"Completed request:(\{.*\}) \(kafka\.request\.logger\)$")
_ENDS = re.compile(r"(.+?:\d+)-(.+?:\d+)-")
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
_1_2, _1_3 = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3
#: Version, OpenSSL's suite of TLS 1.2, and whether the client has a certificate.
PYTHON_TLS = [
    (_1_3, None, True),
    *((_1_2, f"ECDHE-ECDSA-{suite}", suite.startswith("AES128")) for suite in (
        "AES128-GCM-SHA256", "AES256-GCM-SHA384", "CHACHA20-POLY1305", "AES128-SHA", "AES256-SHA384",
    )),
]  # fmt: skip
#: Java's names of version and suite.
JAVA_TLS = [
    ("TLSv1.3", "TLS_AES_128_GCM_SHA256"),
    ("TLSv1.3", "TLS_AES_256_GCM_SHA384"),
    ("TLSv1.3", "TLS_CHACHA20_POLY1305_SHA256"),
    ("TLSv1.2", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"),
    ("TLSv1.2", "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA384"),
]
NAME, PASSWORD = "alice", "not-a-secret-of-anybody"


class Logged(NamedTuple):
    api_key: int
    version: int
    request: Any
    response: Any


#: Client's end, broker's port, correlation id: what an exchange is known by (ends may be used again).
Place = tuple[str, int, int]


class Recording(NamedTuple):
    """The capture, and the key log of its broker; the request log, in order for each place; the port of TLS."""

    path: Path
    key_log: Path
    logged: dict[Place, list[Logged]]
    tls: int


@pytest.fixture(scope="module")
def recording(start_cluster: StartCluster, tmp_path_factory: pytest.TempPathFactory) -> Recording:
    for module in ("confluent_kafka", "kafka", "cryptography"):
        pytest.importorskip(module)
    folder = tmp_path_factory.mktemp("recording")
    certificate, key, _ = make_identity()
    plain, sasl, tls = free_ports(3)
    config = {
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config":
            f'org.apache.kafka.common.security.plain.PlainLoginModule required user_{NAME}="{PASSWORD}";',
        "listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config":
            "org.apache.kafka.common.security.scram.ScramLoginModule required;",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": certificate,
        "ssl.keystore.key": key,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": certificate,
        "ssl.client.auth": "requested",
    }  # fmt: skip
    path, log = folder / "clients.pcap", folder / "cluster" / "node-1" / "broker.log"
    key_log = folder / "keys.log"
    try:
        agent = key_log_agent()
    except BrokerUnavailableError as error:
        pytest.skip(str(error))
    try:
        with (
            tcpdump.recorded(path, plain, sasl, tls),
            start_cluster(
                1,
                port=plain,
                listeners={"SASL_PLAINTEXT": sasl, "SSL": tls},
                config=config,
                loggers={"kafka.request.logger": "trace"},
                java_options=[f"-javaagent:{agent}={key_log}"],
                folder=folder / "cluster",
                keep=True,
            ) as running,
        ):
            _use_clients(running.bootstrap, f"{HOST}:{sasl}", f"{HOST}:{tls}", certificate)
            _use_tls_client(f"{HOST}:{tls}", certificate, key, folder)
            _wait_for_log(path, key_log, log, {plain, sasl, tls})
    except RecordingError as error:
        if "tcpdump" in str(error):
            pytest.skip(str(error))
        raise
    return Recording(path, key_log, _logged(log, {plain, sasl, tls}), tls)


def _use_clients(plain: str, sasl: str, tls: str, certificate: str) -> None:
    """The clients' requests, partly concurrent."""
    # Here, not above: these tests are skipped where there is no confluent_kafka.
    from tools.recordings import clients

    clients.create_topics(plain, {"orders": 2, "shared": 1})
    with ThreadPoolExecutor() as pool:
        beside = [pool.submit(_share_group, plain), pool.submit(_java, plain)]
        _librdkafka(plain)
        _kafka_python(plain)
        _secured(plain, sasl, tls, certificate)
        for one in beside:
            one.result()


def _librdkafka(plain: str) -> None:
    """Transactions in each codec, then groups of the classic and of the consumer protocol."""
    from confluent_kafka import Consumer

    from tools.recordings import clients

    now = int(time.time() * 1000)
    for codec in CODECS:
        service = clients.Service(plain, f"service-{codec}", codec=codec)
        service.transaction({("orders", 0): range(8), ("orders", 1): range(3)}, timestamp=now)
        service.transaction({("orders", 0): range(2)}, timestamp=now, committed=False)
    reader = clients.consumer(plain, "classic-group")
    clients.copy_exactly_once(
        clients.Service(plain, "copier"), reader, [("orders", 0), ("orders", 1)], ("shared", 0), bytes.upper
    )
    reader.close()
    modern = Consumer(
        {
            "bootstrap.servers": plain,
            "group.id": "consumer-group",
            "group.protocol": "consumer",
            "auto.offset.reset": "earliest",
        }
    )
    modern.subscribe(["orders"])
    assert _take(modern, 20)
    modern.close()


def _java(plain: str) -> None:
    from tools.recordings import clients

    clients.java_transactions(plain, "orders", "java-service", records=60, per_second=200, duration_ms=50)
    clients.java_consumer(plain, "orders", "java-group", records=20)
    clients.kafka_transactions(plain, "list")
    clients.kafka_transactions(plain, "describe-producers", "--topic", "orders", "--partition", "0")


def _secured(plain: str, sasl: str, tls: str, certificate: str) -> None:
    """Producers and consumers with SASL PLAIN and SCRAM, and with TLS."""
    from confluent_kafka import Consumer, Producer
    from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

    admin = AdminClient({"bootstrap.servers": plain})
    upsertion = UserScramCredentialUpsertion(
        NAME, ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096), PASSWORD.encode()
    )
    for future in admin.alter_user_scram_credentials([upsertion]).values():
        future.result(30)
    secured = [
        {"bootstrap.servers": sasl, "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": mechanism}
        | {"sasl.username": NAME, "sasl.password": PASSWORD}
        for mechanism in ("PLAIN", "SCRAM-SHA-256")
    ]
    secured.append({"bootstrap.servers": tls, "security.protocol": "SSL", "ssl.ca.pem": certificate})
    for settings in secured:
        producer = Producer({**settings, "client.id": settings["security.protocol"]})
        for number in range(5):
            producer.produce("shared", b"%d" % number)
        assert producer.flush(30) == 0
        consumer = Consumer({**settings, "group.id": "secured", "auto.offset.reset": "earliest"})
        consumer.subscribe(["shared"])
        assert _take(consumer, 1)
        consumer.close()


def _use_tls_client(tls: str, certificate: str, key: str, folder: Path) -> None:
    """Suites of both versions, mutual TLS and resumed sessions, by Java and Python; librdkafka is among `_secured`."""
    import kafka

    own = folder / "own.pem"
    own.write_text(key + certificate)
    for version, suite, mutual in PYTHON_TLS:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.minimum_version = context.maximum_version = version
        if suite:
            context.set_ciphers(suite)
        if mutual:
            context.load_cert_chain(own)
        producer = kafka.KafkaProducer(
            bootstrap_servers=tls, client_id=f"tls-{suite}", security_protocol="SSL", ssl_context=context
        )
        producer.send("shared", (suite or version.name).encode()).get(30)
        producer.close()
    for version_name, suite in JAVA_TLS:
        settings = {
            "security.protocol": "SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.certificates": certificate,
            "ssl.keystore.type": "PEM",
            "ssl.keystore.certificate.chain": certificate,
            "ssl.keystore.key": key,
            "ssl.enabled.protocols": version_name,
            "ssl.cipher.suites": suite,
            "client.id": f"java-{suite}",
        }
        properties = folder / f"{suite}.properties"
        lines = (f"{name}={value}".replace("\n", "\\n") + "\n" for name, value in settings.items())
        properties.write_text("".join(lines))
        run_tool(
            "ProducerPerformance",
            "--topic", "shared", "--num-records", "20", "--record-size", "60", "--throughput", "-1",
            "--bootstrap-server", tls, "--command-config", str(properties),
        )  # fmt: skip


def _take(consumer: Any, at_least: int) -> list[Any]:
    taken: list[Any] = []
    deadline = time.monotonic() + 60
    while len(taken) < at_least and time.monotonic() < deadline:
        message = consumer.poll(1.0)
        if message is not None and message.error() is None:
            taken.append(message)
    return taken


def _share_group(plain: str) -> None:
    """Kafka's own share consumer; its group begins at the earliest record."""
    from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

    admin = AdminClient({"bootstrap.servers": plain})
    entry = ConfigEntry("share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.GROUP, "share-group", incremental_configs=[entry])
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(30)
    run_tool(
        "consumer.ConsoleShareConsumer",
        "--bootstrap-server", plain, "--topic", "shared", "--group", "share-group",
        "--max-messages", "3", "--timeout-ms", "30000",
    )  # fmt: skip


def _kafka_python(plain: str) -> None:
    import kafka

    producer = kafka.KafkaProducer(bootstrap_servers=plain, client_id="kafka-python", compression_type="gzip")
    for number in range(4):
        producer.send("shared", b"%d" % number).get(30)
    producer.close()
    consumer = kafka.KafkaConsumer(
        "shared", bootstrap_servers=plain, group_id="kafka-python", auto_offset_reset="earliest",
        consumer_timeout_ms=30_000,
    )  # fmt: skip
    assert next(iter(consumer)) is not None
    consumer.close()


def _logged(log: Path, ports: set[int]) -> dict[Place, list[Logged]]:
    """The exchanges in a broker's request log, of some of its listeners."""
    found = defaultdict(list)
    for line in log.read_text(errors="replace").splitlines():
        line_found = _LINE.search(line)
        if line_found is None:
            continue
        entry = json.loads(line_found[1])
        ends = _ENDS.match(entry["connection"])
        assert ends is not None
        header, port = entry["requestHeader"], int(ends[1].rpartition(":")[2])
        if port in ports:
            found[ends[2], port, header["correlationId"]].append(
                Logged(header["requestApiKey"], header["requestApiVersion"], entry["request"], entry.get("response"))
            )
    return found


def _wait_for_log(path: Path, key_log: Path, log: Path, ports: set[int]) -> None:
    """Waits until the request log contains all exchanges of the capture: brokers write it after their responses."""
    deadline = time.monotonic() + _TIMEOUT_S
    while True:
        logged = _logged(log, ports)
        lacking = [
            matched.row
            for place, listed in _captured(path, key_log).items()
            for i, matched in enumerate(listed)
            if matched.response and matched.row.api not in NOT_LOGGED and place[1] in ports
            if i >= len(logged.get(place, ()))
        ]
        if not lacking:
            return
        assert time.monotonic() < deadline, f"not in the broker's log: {lacking[:3]}"
        time.sleep(0.2)


def _captured(path: Path, key_log: Path) -> dict[Place, list[CapturedExchange]]:
    found = defaultdict(list)
    for matched in capture.read(path, keep=True, keylog=key_log).matched():
        row = matched.row
        assert row.api is not None or row.problem is not None
        if row.client is not None and row.broker is not None and row.correlation_id is not None:
            found[row.client, int(row.broker.rpartition(":")[2]), row.correlation_id].append(matched)
    return found


# --- the comparison


def as_logged(message: Message, version: int) -> Any:
    """The JSON of the log: Kafka's JSON form with record sizes instead of records."""
    return _sized(to_json(message, version), message)


def _sized(shown: Any, value: Any) -> Any:
    for field in type(value).spec.fields:
        name = field.json_name
        if name not in shown or shown[name] is None:
            continue
        nested = getattr(value, field.attribute)
        if field.type == "records":
            shown[name] = ""  # so in a ShareFetch; elsewhere their size
            if "acquiredRecords" not in shown:
                del shown[name]
                shown[f"{name}SizeInBytes"] = len(nested)
        elif field.struct is not None:
            for one, element in zip(
                shown[name] if field.is_array else [shown[name]], nested if field.is_array else [nested], strict=True
            ):
                _sized(one, element)
    return shown


@pytest.fixture(scope="module")
def ours(recording: Recording) -> dict[Place, list[CapturedExchange]]:
    return _captured(recording.path, recording.key_log)


def test_exchanges_equal_those_in_the_brokers_request_log(
    recording: Recording, ours: dict[Place, list[CapturedExchange]]
) -> None:
    apis: Counter[str] = Counter()
    unanswered = []
    for place, logs in recording.logged.items():
        found = [matched for matched in ours.get(place, ()) if matched.row.api_key is not None]
        assert len(found) == len(logs), place
        for logged, matched in zip(logs, found, strict=True):
            row = matched.row
            assert (row.api_key, row.version) == (logged.api_key, logged.version)
            assert matched.request is not None, (place, row.problem)
            assert as_logged(matched.request, logged.version) == logged.request
            if matched.response is not None:
                assert as_logged(matched.response, logged.version) == logged.response
            elif logged.response is not None:
                unanswered.append(row)
            apis[str(row.api)] += 1
    # Clients that go leave questions open. Brokers answer in order: nothing that was asked later has an answer.
    assert len(unanswered) <= 10
    for row in unanswered:
        listed = (matched.row for at in ours.values() for matched in at)
        later = [r for r in listed if r.connection == row.connection and (r.packet or 0) > (row.packet or 0)]
        assert not any(r.response_packet for r in later)
    assert {
        "AddOffsetsToTxn", "AddPartitionsToTxn", "AlterUserScramCredentials", "ApiVersions", "ConsumerGroupHeartbeat",
        "CreateTopics", "DescribeProducers", "EndTxn", "Fetch", "FindCoordinator", "Heartbeat",
        "IncrementalAlterConfigs", "InitProducerId", "JoinGroup", "LeaveGroup", "ListOffsets", "ListTransactions",
        "Metadata", "OffsetCommit", "OffsetFetch", "Produce", "ShareAcknowledge", "ShareFetch", "ShareGroupHeartbeat",
        "SyncGroup", "TxnOffsetCommit", "WriteTxnMarkers",
    } <= set(apis)  # fmt: skip


def test_exchanges_absent_from_the_request_log_are_those_that_brokers_do_not_log(
    recording: Recording, ours: dict[Place, list[CapturedExchange]]
) -> None:
    extra = Counter(
        matched.row.api
        for place, listed in ours.items()
        for matched in listed
        if place not in recording.logged and matched.response
    )
    assert set(extra) <= NOT_LOGGED
    assert extra["SaslHandshake"]
    assert extra["SaslAuthenticate"]


def test_decrypts_all_tls_connections_of_the_broker(recording: Recording) -> None:
    reading = capture.read(recording.path, keylog=recording.key_log)
    by_client = Counter(row.client_id for row in reading if row.broker and row.broker.endswith(f":{recording.tls}"))
    assert reading.summary.encrypted == {}
    assert reading.summary.connections["tls"] == 0
    assert {f"tls-{suite}" for _, suite, _ in PYTHON_TLS} <= set(by_client)
    assert {f"java-{suite}" for _, suite in JAVA_TLS} <= set(by_client)
    assert by_client["SSL"]  # librdkafka's
    kinds = "\n".join(reading.summary.tls)
    assert all(f"TLS 1.3 {suite}" in kinds for version, suite in JAVA_TLS if version == "TLSv1.3")
    assert all(f"TLS 1.2 {suite}" in kinds for version, suite in JAVA_TLS if version == "TLSv1.2")
    assert "client certificate" in kinds


def test_half_of_the_secrets_decrypts_half_of_the_connections_and_names_the_others(
    recording: Recording, tmp_path: Path
) -> None:
    whole = capture.read(recording.path, keylog=recording.key_log)
    rows = [row for row in whole if row.broker and row.broker.endswith(f":{recording.tls}")]
    lines = [line for line in recording.key_log.read_text().splitlines(keepends=True) if line[:1] != "#"]
    names = dict.fromkeys(line.split()[1] for line in lines)  # client randoms, and session ids of TLS 1.2
    kept = set(list(names)[::2])
    half = tmp_path / "half.log"
    half.write_text("".join(line for line in lines if line.split()[1] in kept))
    reading = capture.read(recording.path, keylog=half)
    found = [row for row in reading if row.broker and row.broker.endswith(f":{recording.tls}")]
    assert 0 < len(found) < len(rows)
    named = {reason.rpartition(" ")[2] for reason in reading.summary.encrypted.values()}
    assert named
    assert named.isdisjoint(name.lower() for name in kept)
    assert reading.summary.connections["tls"] == len(reading.summary.encrypted)


def test_counts_tls_connections_and_reports_no_other_problem(recording: Recording) -> None:
    reading = capture.read(recording.path)
    rows = list(reading)
    assert set(reading.summary.connections) <= {"kafka", "tls", "undecided"}
    secured = [
        packet for packet in tcpdump.packets(recording.path) if recording.tls in (packet.source, packet.destination)
    ]
    opened = {frozenset((packet.source, packet.destination)) for packet in secured if packet.size}
    assert len(opened) >= 2
    assert reading.summary.connections["tls"] == len(opened)
    assert reading.summary.bytes["tls"] == sum(packet.size for packet in secured)
    strange = [
        row
        for row in rows
        if row.problem not in (None, NO_RESPONSE)
        # A client closed while an answer was on its way.
        and not re.fullmatch(r"from the broker: \d+ bytes? of a frame that is not whole", row.problem)
    ]
    assert strange == []
    # librdkafka sends a byte more than the request has, which Kafka's Java passes over.
    noted = {(row.api, row.note) for row in rows if row.note}
    assert noted == {("AlterUserScramCredentials", "request: 1 byte left over behind the message")}


def test_decoded_records_equal_those_sent(recording: Recording) -> None:
    """Every order that one service wrote in each codec, in the Produce requests that carried it."""
    from tools.recordings.clients import order

    for codec in CODECS:
        found = Counter()
        for row in capture.read(recording.path, body=True, records=True):
            if row.api == "Produce" and row.client_id == f"service-{codec}":
                assert isinstance(row.request, dict)
                for topic in row.request["topicData"]:
                    for partition in topic["partitionData"]:
                        for batch in partition["records"]:
                            assert batch["codec"] == codec
                            for record in batch["records"]:
                                found[topic["name"], partition["index"], record["value"]] += 1
        sent = Counter(("orders", 0, order(n).decode()) for n in range(8))
        sent += Counter(("orders", 1, order(n).decode()) for n in range(3))
        sent += Counter(("orders", 0, order(n).decode()) for n in range(2))
        assert found == sent


def test_redacts_secrets_in_rows(recording: Recording) -> None:
    rows = capture.read(recording.path, body=True)
    assert not any(PASSWORD in json.dumps(row.request) for row in rows)
