"""The names of client properties that Java clients know, and the check of others.

Properties that a Java client knows and this client does not need are accepted: files are shared with producers and
consumers. A name that no Java client knows is reported with the most similar known one, and refused where it is a
misspelt security property: `security.protocl=SSL` would connect without TLS.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches

from kafkawire.client.errors import ConfigError
from kafkawire.printable import printable

_NAMES = """
    acks allow.auto.create.topics auto.commit.interval.ms auto.include.jmx.reporter auto.offset.reset batch.size
    bootstrap.controllers bootstrap.resolve.timeout.ms bootstrap.servers buffer.memory buffer.memory.allocation.strategy
    check.crcs client.dns.lookup client.id client.rack compression.gzip.level compression.lz4.level compression.type
    compression.zstd.level config.providers connections.max.idle.ms default.api.timeout.ms delivery.timeout.ms
    enable.auto.commit enable.idempotence enable.metrics.push exclude.internal.topics fetch.max.bytes fetch.max.wait.ms
    fetch.min.bytes group.id group.instance.id group.protocol group.remote.assignor heartbeat.interval.ms
    interceptor.classes internal.auto.downgrade.txn.commit internal.leave.group.on.close
    internal.throw.on.fetch.stable.offset.unsupported isolation.level key.deserializer key.serializer linger.ms
    max.block.ms max.in.flight.requests.per.connection max.partition.fetch.bytes max.poll.interval.ms max.poll.records
    max.request.size metadata.cluster.check.enable metadata.max.age.ms metadata.max.idle.ms
    metadata.recovery.rebootstrap.trigger.ms metadata.recovery.strategy metric.reporters metrics.num.samples
    metrics.recording.level metrics.sample.window.ms partition.assignment.strategy
    partitioner.adaptive.partitioning.enable partitioner.availability.timeout.ms partitioner.class
    partitioner.ignore.keys partitioner.rack.aware receive.buffer.bytes reconnect.backoff.max.ms reconnect.backoff.ms
    request.timeout.ms retries retry.backoff.max.ms retry.backoff.ms sasl.client.callback.handler.class sasl.jaas.config
    sasl.kerberos.kinit.cmd sasl.kerberos.min.time.before.relogin sasl.kerberos.service.name
    sasl.kerberos.ticket.renew.jitter sasl.kerberos.ticket.renew.window.factor sasl.login.callback.handler.class
    sasl.login.class sasl.login.connect.timeout.ms sasl.login.read.timeout.ms sasl.login.refresh.buffer.seconds
    sasl.login.refresh.min.period.seconds sasl.login.refresh.window.factor sasl.login.refresh.window.jitter
    sasl.login.retry.backoff.max.ms sasl.login.retry.backoff.ms sasl.mechanism
    sasl.oauthbearer.allow.unverified.audience sasl.oauthbearer.allow.unverified.issuer
    sasl.oauthbearer.assertion.algorithm sasl.oauthbearer.assertion.claim.aud
    sasl.oauthbearer.assertion.claim.exp.seconds sasl.oauthbearer.assertion.claim.iss
    sasl.oauthbearer.assertion.claim.jti.include sasl.oauthbearer.assertion.claim.nbf.seconds
    sasl.oauthbearer.assertion.claim.sub sasl.oauthbearer.assertion.file sasl.oauthbearer.assertion.private.key.file
    sasl.oauthbearer.assertion.private.key.passphrase sasl.oauthbearer.assertion.template.file
    sasl.oauthbearer.client.credentials.client.id sasl.oauthbearer.client.credentials.client.secret
    sasl.oauthbearer.clock.skew.seconds sasl.oauthbearer.expected.audience sasl.oauthbearer.expected.issuer
    sasl.oauthbearer.header.urlencode sasl.oauthbearer.jwks.endpoint.refresh.ms
    sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms sasl.oauthbearer.jwks.endpoint.retry.backoff.ms
    sasl.oauthbearer.jwks.endpoint.url sasl.oauthbearer.jwt.retriever.class sasl.oauthbearer.jwt.validator.class
    sasl.oauthbearer.scope sasl.oauthbearer.scope.claim.name sasl.oauthbearer.sub.claim.name
    sasl.oauthbearer.token.endpoint.url security.protocol security.providers send.buffer.bytes session.timeout.ms
    share.acknowledgement.mode share.acquire.mode socket.connection.setup.timeout.max.ms
    socket.connection.setup.timeout.ms ssl.cipher.suites ssl.enabled.protocols ssl.endpoint.identification.algorithm
    ssl.engine.factory.class ssl.key.password ssl.keymanager.algorithm ssl.keystore.certificate.chain ssl.keystore.key
    ssl.keystore.location ssl.keystore.password ssl.keystore.type ssl.protocol ssl.provider
    ssl.secure.random.implementation ssl.trustmanager.algorithm ssl.truststore.certificates ssl.truststore.location
    ssl.truststore.password ssl.truststore.type transaction.timeout.ms transaction.two.phase.commit.enable
    transactional.id value.deserializer value.serializer
"""
#: What `AdminClientConfig`, `ConsumerConfig` and `ProducerConfig` of kafka-clients name (`configNames()`): 0.11.0.3,
#: 1.0.2, 2.0.1, 2.8.2, 3.4.1, 3.9.1, 4.0.0 and 4.4.0 together.
KNOWN = frozenset(_NAMES.split())

#: Prefixes of the properties of TLS and authentication.
_SECURITY = ("security.", "ssl.", "sasl.")
#: Known security properties that are not applied: Python's ssl module uses its defaults.
_NOT_APPLIED = frozenset(
    [
        "security.providers",
        "ssl.cipher.suites",
        "ssl.engine.factory.class",
        "ssl.keymanager.algorithm",
        "ssl.protocol",
        "ssl.provider",
        "ssl.secure.random.implementation",
        "ssl.trustmanager.algorithm",
    ]
)
#: Names of librdkafka -> names of Java clients.
_LIBRDKAFKA = {
    "metadata.broker.list": "bootstrap.servers",
    "sasl.mechanisms": "sasl.mechanism",
    "sasl.password": "sasl.jaas.config",
    "sasl.username": "sasl.jaas.config",
    "ssl.ca.location": "ssl.truststore.location",
    "ssl.ca.pem": "ssl.truststore.certificates",
    "ssl.certificate.location": "ssl.keystore.location",
    "ssl.certificate.pem": "ssl.keystore.certificate.chain",
    "ssl.key.location": "ssl.keystore.location",
    "ssl.key.pem": "ssl.keystore.key",
}
#: Arguments of classes that a Java client loads by name: `config.providers.file.class`.
_ARGUMENTS = "config.providers."
_PROVIDERS = "config.providers"
#: The least similarity of two names; 1 is equality.
_ALIKE = 0.85
#: The most names that are listed, and the most characters of each.
_MOST, _LONGEST = 10, 100


def check(given: Mapping[str, str]) -> tuple[str, ...]:
    """A sentence for each client property that is not applied.

    Raises:
        ConfigError: a name is a misspelt security property that is not given under its right name, or a security
            property has its value from one of `config.providers`, which only Java runs.
    """
    providers = [name.strip() for name in given.get(_PROVIDERS, "").split(",")]
    for name, value in given.items():
        if name.startswith(_SECURITY) and any(provider and f"${{{provider}:" in value for provider in providers):
            raise ConfigError(f"{_shown(name)}: no value is read from {_PROVIDERS} here: give the value itself")
    strange = [name for name in given if name not in KNOWN and not name.startswith(_ARGUMENTS)]
    for name in strange:
        meant = nearest(name)
        if meant is not None and meant.startswith(_SECURITY) and meant not in given and not _prefixed(name):
            raise ConfigError(f"{_shown(name)}: no such client property; {meant}?")
    return (*_unapplied(given), *_unknown(strange))


def nearest(name: str) -> str | None:
    """The known name that is most similar to `name`; None if none is similar."""
    if name in _LIBRDKAFKA:
        return _LIBRDKAFKA[name]
    if len(name) > _LONGEST:
        return None
    plain = name.strip().lower().replace("_", ".").replace("\ufeff", "")
    return next(iter(get_close_matches(plain, sorted(KNOWN), n=1, cutoff=_ALIKE)), None)


def _prefixed(name: str) -> bool:
    """Whether it belongs to another client, such as a Connect worker's: `producer.security.protocol`."""
    return any(name.endswith("." + known) for known in KNOWN)


def _unapplied(given: Iterable[str]) -> Iterator[str]:
    for name in sorted(_NOT_APPLIED.intersection(given)):
        yield f"{name} is not applied by this client: TLS follows the defaults of Python's ssl module"


def _unknown(strange: list[str]) -> Iterator[str]:
    """A sentence for each name that is similar to a known one, and one for all others."""
    others = []
    for name in strange[:_MOST]:
        meant = None if _prefixed(name) else nearest(name)
        if meant is None:
            others.append(_shown(name))
        else:
            yield f"{_shown(name)}: no such client property; {meant}?"
    more = len(strange) - _MOST
    if others or more > 0:
        rest = [*others, *([f"{more} more"] if more > 0 else [])]
        yield f"no Java client knows these properties, and they are not applied: {', '.join(rest)}"


def _shown(name: str) -> str:
    return printable(name if len(name) <= _LONGEST else name[:_LONGEST] + "...")
