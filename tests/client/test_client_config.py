"""Java-style client properties: what is understood, and what is refused with a sentence that helps."""

from __future__ import annotations

import base64
import json
import ssl
import string
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire.client import AuthenticationError, Config, ConfigError, read_properties
from kafkawire.client.config import TokenSource, parse_addresses
from kafkawire.client.oauth import get_token
from kafkawire.client.properties import parse_jaas, parse_properties
from kafkawire.client.sasl import Credentials
from kafkawire.client.tls import Tls
from tests.client.certificates import Identity, make_identity

PLAIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="me" password="a\\"b;c";'
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required username=me password='s p';"
BEARER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required {};"


# Files ----------------------------------------------------------------------------------------------------------------


def test_properties() -> None:
    text = r"""
# a comment
! another
a=1
  b : two words  \
     go on
c three
d\=\:\ e = \u00e9\t\\
empty
a=last
"""
    found = parse_properties(text, "f")
    assert found == {"a": "last", "b": "two words  go on", "c": "three", "d=: e": "é\t\\", "empty": ""}


def test_properties_with_a_mistake() -> None:
    with pytest.raises(ConfigError, match=r"^f: line 2: \\u without four hex digits$"):
        parse_properties("a=1\nb=\\u12", "f")


@given(st.dictionaries(st.text(min_size=1), st.text(), max_size=5))
def test_properties_come_back(given_: dict[str, str]) -> None:
    """Written as `java.util.Properties.store` writes them."""

    def escaped(text: str) -> str:
        units = text.encode("utf-16-be", "surrogatepass")
        return "".join(
            f"\\{char}" if char in "\\=:#! " else char if char in string.ascii_letters else f"\\u{ord(char):04x}"
            for char in (chr(int.from_bytes(units[i : i + 2])) for i in range(0, len(units), 2))
        )

    text = "".join(f"{escaped(key)}={escaped(value)}\n" for key, value in given_.items())
    found = {_joined(key): _joined(value) for key, value in parse_properties(text, "f").items()}
    assert found == given_


def _joined(text: str) -> str:
    return text.encode("utf-16-be", "surrogatepass").decode("utf-16-be")


@given(st.text())
def test_any_text_is_properties_or_an_error(text: str) -> None:
    try:
        found = parse_properties(text, "f")
    except ConfigError:
        return
    assert all(isinstance(value, str) for value in found.values())


def test_file(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_bytes("client.id=é".encode("latin-1"))
    assert read_properties(str(path)) == {"client.id": "é"}
    with pytest.raises(FileNotFoundError):
        read_properties(str(tmp_path / "nowhere"))


def test_jaas() -> None:
    jaas = parse_jaas(PLAIN)
    assert (jaas.module, jaas.options) == ("PlainLoginModule", {"username": "me", "password": 'a"b;c'})
    assert parse_jaas(SCRAM).options == {"username": "me", "password": "s p"}


@pytest.mark.parametrize(
    "text", ["", "Module", "Module required", "M required a=b", "M required a=;", 'M required "x;', "M required a b c;"]
)
def test_jaas_with_a_mistake(text: str) -> None:
    with pytest.raises(ConfigError, match=r"sasl\.jaas\.config"):
        parse_jaas(text)


@given(st.text())
def test_jaas_never_repeats_its_secrets(text: str) -> None:
    said = ""
    try:
        parse_jaas(f'M required username="u" password="hunter2{text}')
    except ConfigError as error:
        said = str(error)
    assert "hunter2" not in said


# Config ---------------------------------------------------------------------------------------------------------------


def sasl(mechanism: str, jaas: str | None = None, **more: str) -> Config:
    given = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": mechanism}
    given |= {"sasl.jaas.config": jaas} if jaas is not None else {}
    return Config.of("a:1", given | {key.replace("_", "."): value for key, value in more.items()})


def test_defaults() -> None:
    config = Config.of("a:1, [::1]:2,PLAINTEXT://c:3", {})
    assert config.bootstrap == (("a", 1), ("::1", 2), ("c", 3))
    assert (config.credentials, config.tokens, config.tls) == (None, None, None)
    assert (config.connect_timeout_s, config.request_timeout_s, config.api_timeout_s) == (10, 30, 60)


@pytest.mark.parametrize("text", ["", ",", "host", "host:", ":1", "host:0", "host:65536", "host:x", "a:1,b"])
def test_addresses_with_a_mistake(text: str) -> None:
    with pytest.raises(ConfigError, match="bootstrap server"):
        parse_addresses(text)


@pytest.mark.parametrize("digits", ["9" * 30, "9" * 5000])
def test_numbers_that_nobody_reads(digits: str) -> None:
    with pytest.raises(ConfigError, match="bootstrap server"):
        parse_addresses(f"a:{digits}")
    with pytest.raises(ConfigError, match="is no number of milliseconds"):
        Config.of("a:1", {"request.timeout.ms": digits})


def test_characters_that_java_escapes_in_two_halves() -> None:
    assert parse_properties(r"client.id=\ud83d\ude00", "p") == {"client.id": "\U0001f600"}
    with pytest.raises(ConfigError, match="p: line 2: half of a surrogate pair"):
        parse_properties("a=1\nclient.id=\\ud83d", "p")


def test_logins() -> None:
    assert sasl("PLAIN", PLAIN).credentials == Credentials(mechanism="PLAIN", username="me", password='a"b;c')
    assert sasl("SCRAM-SHA-512", SCRAM).credentials == Credentials(
        mechanism="SCRAM-SHA-512", username="me", password="s p"
    )
    token = sasl(
        "OAUTHBEARER",
        BEARER.format('clientId="i" clientSecret="s" scope="x"'),
        sasl_oauthbearer_token_endpoint_url="https://h/token",
    ).tokens
    assert token == TokenSource(url="https://h/token", client_id="i", client_secret="s", scope="x")
    assert "'s'" not in repr(token)


def test_tokens(tmp_path: Path) -> None:
    path = tmp_path / "a token"
    path.write_text("x.y.z\n")
    config = sasl("OAUTHBEARER", BEARER.format(""), sasl_oauthbearer_token_endpoint_url=path.as_uri())
    assert config.tokens is not None
    assert get_token(config.tokens, 1) == "x.y.z"
    config = sasl("OAUTHBEARER", BEARER.format('unsecuredLoginStringClaim_sub="me"'))
    assert config.tokens is not None
    header, claims, signature = get_token(config.tokens, 1).split(".")
    decoded = [json.loads(base64.urlsafe_b64decode(part + "==")) for part in (header, claims)]
    assert (decoded[0], decoded[1]["sub"], signature) == ({"alg": "none"}, "me", "")


@pytest.mark.parametrize(
    ("mechanism", "jaas", "more", "sentence"),
    [
        ("GSSAPI", PLAIN, {}, "Kerberos"),
        ("AWS_MSK_IAM", None, {}, "a cloud's own login"),
        ("BOGUS", PLAIN, {}, "'BOGUS' is none of PLAIN, SCRAM"),
        ("PLAIN", None, {}, "sasl.jaas.config is missing"),
        ("PLAIN", SCRAM, {}, "PLAIN needs PlainLoginModule, and it names ScramLoginModule"),
        ("PLAIN", "a.PlainLoginModule required username=x;", {}, "password is missing"),
        ("SCRAM-SHA-256", SCRAM.replace(";", " tokenauth=true;"), {}, "delegation tokens"),
        ("OAUTHBEARER", PLAIN, {}, "needs OAuthBearerLoginModule"),
        ("OAUTHBEARER", BEARER.format(""), {}, "token.endpoint.url"),
        ("OAUTHBEARER", BEARER.format(""), {"sasl_oauthbearer_token_endpoint_url": "https://h"}, "needs clientId"),
        ("OAUTHBEARER", BEARER.format(""), {"sasl_login_callback_handler_class": "com.x.Y"}, "a Java class"),
        ("PLAIN", PLAIN, {"request_timeout_ms": "soon"}, "'soon' is no number of milliseconds"),
    ],
)  # fmt: skip
def test_logins_that_are_refused(mechanism: str, jaas: str | None, more: dict[str, str], sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        sasl(mechanism, jaas, **more)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def test_no_mechanism() -> None:
    with pytest.raises(ConfigError, match=r"the default where sasl\.mechanism is not given"):
        Config.of("a:1", {"security.protocol": "SASL_SSL"})


def test_unknown_protocol() -> None:
    with pytest.raises(ConfigError, match=r"security\.protocol: 'TLS' is none of"):
        Config.of("a:1", {"security.protocol": "tls"})


def test_a_token_endpoint_has_to_be_https() -> None:
    with pytest.raises(ConfigError, match="is not https"):
        get_token(TokenSource(url="http://idp.example/token", client_id="i", client_secret="s"), 1)
    with pytest.raises(AuthenticationError, match="cannot be reached"):
        get_token(TokenSource(url="http://127.0.0.1:1/token", client_id="i", client_secret="s"), 1)


# Certificates ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def identity() -> Identity:
    return make_identity()


def properties(**given: str) -> dict[str, str]:
    return {"security.protocol": "SSL"} | {key.replace("_", "."): value for key, value in given.items()}


def trusted(config: Config) -> int:
    assert config.tls is not None
    context = config.tls.context()
    assert context.verify_mode is ssl.CERT_REQUIRED
    return len(context.get_ca_certs())


def test_host_names_are_checked_unless_it_is_said() -> None:
    assert Config.of("a:1", properties()).tls == Tls()
    assert Tls().context().check_hostname
    off = Config.of("a:1", properties(ssl_endpoint_identification_algorithm="")).tls
    assert off is not None
    assert not off.context().check_hostname
    assert off.context().verify_mode is ssl.CERT_REQUIRED
    with pytest.raises(ConfigError, match="neither https nor empty"):
        Config.of("a:1", properties(ssl_endpoint_identification_algorithm="none"))


def test_pem(identity: Identity, tmp_path: Path) -> None:
    store = tmp_path / "trust.pem"
    store.write_text(identity.certificate)
    assert trusted(Config.of("a:1", properties(ssl_truststore_location=str(store)))) == 1
    assert trusted(Config.of("a:1", properties(ssl_truststore_certificates=identity.certificate))) == 1
    store.write_text(f"# Főtanúsítvány\n{identity.certificate}", "utf-8")
    assert trusted(Config.of("a:1", properties(ssl_truststore_location=str(store)))) == 1
    key = tmp_path / "key.pem"
    key.write_text(identity.key + identity.certificate)
    assert Config.of("a:1", properties(ssl_keystore_location=str(key))).tls is not None
    inline = properties(ssl_keystore_key=identity.key)
    inline["ssl.keystore.certificate.chain"] = identity.certificate
    assert Config.of("a:1", inline).tls is not None


def test_pkcs12(identity: Identity, tmp_path: Path) -> None:
    trust, keys = tmp_path / "trust.p12", tmp_path / "keys.p12"
    trust.write_bytes(identity.truststore("changeit"))
    keys.write_bytes(identity.keystore("changeit"))
    given = properties(
        ssl_truststore_location=str(trust),
        ssl_truststore_password="changeit",
        ssl_keystore_location=str(keys),
        ssl_keystore_password="changeit",
    )
    config = Config.of("a:1", given)
    assert trusted(config) == 1
    assert config.tls is not None
    assert identity.key.encode() not in (config.tls.certificate or b"")  # in encrypted form only
    with pytest.raises(ConfigError, match=r"trust\.p12 cannot be read .*password"):
        Config.of("a:1", given | {"ssl.truststore.password": "wrong"})
    assert not list(Path(tmp_path).glob("*.pem"))


def test_stores_that_cannot_be_used(tmp_path: Path) -> None:
    jks = tmp_path / "my store.jks"
    jks.write_bytes(b"\xfe\xed\xfe\xed\x00\x00\x00\x02")
    with pytest.raises(ConfigError, match=r"keytool -importkeystore -srckeystore '.*my store\.jks' -srcstoretype JKS"):
        Config.of("a:1", properties(ssl_truststore_location=str(jks)))
    with pytest.raises(ConfigError, match=r"ssl\.truststore\.location: .*nowhere: No such file"):
        Config.of("a:1", properties(ssl_truststore_location=str(tmp_path / "nowhere")))
    junk = tmp_path / "junk"
    junk.write_bytes(b"junk")
    with pytest.raises(ConfigError, match=r"no PEM, no PKCS#12"):
        Config.of("a:1", properties(ssl_keystore_location=str(junk)))
    with pytest.raises(ConfigError, match=r"ssl\.truststore: no certificates"):
        Config.of("a:1", properties(ssl_truststore_certificates="é"))
    with pytest.raises(ConfigError, match=r"ssl\.truststore: no certificates"):
        Config.of("a:1", properties(ssl_truststore_certificates="junk"))
