"""`Config`: the address of a cluster and how to connect, from Java-style client properties (`--command-config`).

A value that this client does not support is an error that names the alternative: no property of TLS or authentication
is ignored silently. Properties of producers and consumers have no effect. Names that no Java client knows are in
`Config.unapplied`, or an error (`property_names`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from kafkawire._java_numbers import INT32, whole_number
from kafkawire.client.errors import ConfigError
from kafkawire.client.transport.java_properties import Jaas, parse_jaas, parse_properties
from kafkawire.client.transport.property_names import check
from kafkawire.client.transport.sasl import MECHANISMS, OAUTHBEARER, PLAIN, SCRAM, Credentials, MskLogin, TokenSource
from kafkawire.client.transport.tls import Tls

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")

#: SASL mechanisms that are not supported -> what to do.
_OTHER_LOGINS = {
    "GSSAPI": "Kerberos (GSSAPI) is not supported: use a listener with SCRAM, OAUTHBEARER or client certificates"
}
#: Amazon MSK's login of Java clients; its brokers take the same signature as a token of OAUTHBEARER.
_MSK, _MSK_CLASSES = "AWS_MSK_IAM", "software.amazon.msk.auth.iam."
_MSK_HOST = re.compile(r"\.kafka(?:-serverless)?\.([a-z0-9-]+)\.amazonaws\.com(?:\.cn)?$")
_REGION_VARIABLES = ("AWS_REGION", "AWS_DEFAULT_REGION")
_OWN_CALLBACKS = "a Java class cannot run here: give sasl.oauthbearer.token.endpoint.url and a client id, or a token"
#: The size of a properties file, which may contain certificates and keys.
_MOST_BYTES = 1 << 20


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """How to reach a cluster.

    Attributes:
        bootstrap: (host, port) of some brokers; their metadata names the others.
        credentials: of PLAIN and SCRAM. `tokens`: of OAUTHBEARER. No authentication if both are None.
        tls: None for plaintext.
        connect_timeout_s: seconds for TCP, TLS and authentication of a connection. `request_timeout_s`: for a response.
        api_timeout_s: seconds for a whole call with its retries.
        backoff_s: seconds before the first retry, doubled for each further one up to `max_backoff_s`.
        max_in_flight: requests on a connection that may wait for responses.
        unapplied: a sentence for each property that was given, has no effect here, and may have been meant to.
    """

    bootstrap: tuple[tuple[str, int], ...]
    credentials: Credentials | None = None
    tokens: TokenSource | None = None
    tls: Tls | None = None
    client_id: str = "kafkawire"
    connect_timeout_s: float = 10.0
    request_timeout_s: float = 30.0
    api_timeout_s: float = 60.0
    backoff_s: float = 0.1
    max_backoff_s: float = 1.0
    max_in_flight: int = 5
    unapplied: tuple[str, ...] = ()

    @classmethod
    def of(cls, bootstrap: str, properties: Mapping[str, str] | None = None) -> Config:
        """From "host:port,host:port" and client properties.

        Raises:
            ConfigError: a property is wrong or not supported.
        """
        given = {key: value.strip() for key, value in (properties or {}).items()}
        unapplied = check(given)
        protocol = given.get("security.protocol", "PLAINTEXT").upper()
        if protocol not in PROTOCOLS:
            raise ConfigError(f"security.protocol: {protocol!r} is none of {', '.join(PROTOCOLS)}")
        addresses = parse_addresses(bootstrap)
        credentials, tokens = _login(given, addresses) if protocol.startswith("SASL") else (None, None)
        return cls(
            bootstrap=addresses,
            credentials=credentials,
            tokens=tokens,
            tls=Tls.of(given) if protocol.endswith("SSL") else None,
            client_id=given.get("client.id") or "kafkawire",
            connect_timeout_s=_milliseconds(given, "socket.connection.setup.timeout.ms", 10_000),
            request_timeout_s=_milliseconds(given, "request.timeout.ms", 30_000),
            api_timeout_s=_milliseconds(given, "default.api.timeout.ms", 60_000),
            backoff_s=_milliseconds(given, "retry.backoff.ms", 100),
            max_backoff_s=_milliseconds(given, "retry.backoff.max.ms", 1000),
            unapplied=unapplied,
        )


def read_properties(path: str) -> dict[str, str]:
    """The properties of a file (`--command-config`), of at most 1 MiB. Raises OSError, ConfigError."""
    with open(path, "rb") as file:
        data = file.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise ConfigError(f"{path} is no file of client properties: it has more than {_MOST_BYTES} bytes")
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = data.decode("latin-1")  # what Java reads
    return parse_properties(text, path)


def parse_addresses(text: str) -> tuple[tuple[str, int], ...]:
    """`host:port,[::1]:port` as pairs. Raises ConfigError, which names the wrong one."""
    found: list[tuple[str, int]] = []
    for part in text.split(","):
        address = part.strip()
        if not address:
            continue
        bare = address.rpartition("://")[2]  # LISTENER://host:port, as brokers write it
        host, _, port = bare.rpartition(":")
        number = whole_number(port, 65535) if port[:1] != "+" else None  # Kafka's pattern has digits only
        if not host or not number:
            raise ConfigError(f"bootstrap server {address!r} is not of the form HOST:PORT")
        found.append((host.removeprefix("[").removesuffix("]"), number))
    if not found:
        raise ConfigError("no bootstrap server is given: HOST:PORT[,HOST:PORT...]")
    return tuple(found)


# Logins --------------------------------------------------------------------------------------------------------------


def _login(
    given: Mapping[str, str], bootstrap: Iterable[tuple[str, int]]
) -> tuple[Credentials | None, TokenSource | None]:
    mechanism = given.get("sasl.mechanism", "GSSAPI")
    if mechanism in _OTHER_LOGINS:
        default = "" if "sasl.mechanism" in given else " (the default where sasl.mechanism is not given)"
        raise ConfigError(f"sasl.mechanism{default}: {_OTHER_LOGINS[mechanism]}")
    if mechanism == _MSK or (
        mechanism == OAUTHBEARER and given.get("sasl.login.callback.handler.class", "").startswith(_MSK_CLASSES)
    ):
        return None, TokenSource(msk=_msk(given, [host for host, _ in bootstrap]))
    if mechanism not in MECHANISMS:
        raise ConfigError(f"sasl.mechanism: {mechanism!r} is none of {', '.join(MECHANISMS)}")
    for key in ("sasl.client.callback.handler.class", "sasl.login.callback.handler.class", "sasl.login.class"):
        handler = given.get(key, "")
        if handler and not handler.startswith("org.apache.kafka.common.security.oauthbearer."):
            raise ConfigError(f"{key}={handler}: {_OWN_CALLBACKS}")
    if "sasl.jaas.config" not in given:
        raise ConfigError(f"sasl.jaas.config is missing: {mechanism} needs it")
    jaas = parse_jaas(given["sasl.jaas.config"])
    if mechanism == OAUTHBEARER:
        return None, _tokens(given, jaas)
    wanted = "PlainLoginModule" if mechanism == PLAIN else "ScramLoginModule"
    if jaas.module != wanted:
        raise ConfigError(f"sasl.jaas.config: {mechanism} needs {wanted}, and it names {jaas.module}")
    if mechanism in SCRAM and jaas.options.get("tokenauth", "").lower() == "true":
        raise ConfigError("sasl.jaas.config: delegation tokens (tokenauth) are not supported: use the user's password")
    missing = [key for key in ("username", "password") if key not in jaas.options]
    if missing:
        raise ConfigError(f"sasl.jaas.config: {missing[0]} is missing")
    return (
        Credentials(mechanism=mechanism, username=jaas.options["username"], password=jaas.options["password"]),
        None,
    )


def _tokens(given: Mapping[str, str], jaas: Jaas) -> TokenSource:
    if jaas.module != "OAuthBearerLoginModule":
        raise ConfigError(f"sasl.jaas.config: OAUTHBEARER needs OAuthBearerLoginModule, and it names {jaas.module}")
    options = jaas.options
    if "token" in options:
        return TokenSource(token=options["token"])
    if "unsecuredLoginStringClaim_sub" in options:
        from kafkawire.client.transport.oauth import unsecured_token

        return TokenSource(token=unsecured_token(options["unsecuredLoginStringClaim_sub"]))
    url = given.get("sasl.oauthbearer.token.endpoint.url", "")
    if url.startswith("file:"):
        from urllib.parse import unquote, urlsplit

        return TokenSource(file=unquote(urlsplit(url).path))
    if not url:
        raise ConfigError(
            "OAUTHBEARER needs sasl.oauthbearer.token.endpoint.url (https://... or file:///...), or token= in "
            "sasl.jaas.config"
        )
    client_id = options.get("clientId") or given.get("sasl.oauthbearer.client.credentials.client.id", "")
    secret = options.get("clientSecret") or given.get("sasl.oauthbearer.client.credentials.client.secret", "")
    if not client_id:
        raise ConfigError("OAUTHBEARER needs clientId and clientSecret in sasl.jaas.config")
    scope = options.get("scope") or given.get("sasl.oauthbearer.scope") or None
    return TokenSource(url=url, client_id=client_id, client_secret=secret, scope=scope)


def _msk(given: Mapping[str, str], hosts: Sequence[str]) -> MskLogin:
    """The options of AWS's login modules; the region is in the names of MSK's brokers, or in the environment."""
    options = parse_jaas(given["sasl.jaas.config"]).options if "sasl.jaas.config" in given else {}
    named = (found[1] for host in hosts if (found := _MSK_HOST.search(host)))
    region = next(named, None) or next((os.environ[name] for name in _REGION_VARIABLES if os.environ.get(name)), None)
    if region is None:
        raise ConfigError(f"{_MSK}: {hosts[0]} names no AWS region: set {_REGION_VARIABLES[0]}")
    return MskLogin(
        region=region,
        profile=options.get("awsProfileName", ""),
        role=options.get("awsRoleArn", ""),
        session=options.get("awsRoleSessionName") or "kafkawire",
    )


def _milliseconds(given: Mapping[str, str], key: str, default: int) -> float:
    text = given.get(key, str(default))
    number = whole_number(text, INT32)
    if number is None:
        raise ConfigError(f"{key}: {text!r} is no number of milliseconds")
    return number / 1000
