"""Certificates and keys of client properties: PEM, PKCS#12, and stores that cannot be used."""

from __future__ import annotations

import re
import ssl
from pathlib import Path

import pytest

from kafkawire.client import Config, ConfigError
from kafkawire.client.transport.config import TokenSource
from kafkawire.client.transport.oauth import get_token
from kafkawire.client.transport.tls import Tls
from tests.client.certificates import Identity, make_identity


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


@pytest.mark.slow
def test_host_names_are_checked_by_default() -> None:
    assert Config.of("a:1", properties()).tls == Tls()
    assert Tls().context().check_hostname
    off = Config.of("a:1", properties(ssl_endpoint_identification_algorithm="")).tls
    assert off is not None
    assert not off.context().check_hostname
    assert off.context().verify_mode is ssl.CERT_REQUIRED
    with pytest.raises(ConfigError, match="neither https nor empty"):
        Config.of("a:1", properties(ssl_endpoint_identification_algorithm="none"))


@pytest.mark.slow
def test_reads_pem(identity: Identity, tmp_path: Path) -> None:
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


def test_reads_pkcs12(identity: Identity, tmp_path: Path) -> None:
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


def test_unusable_stores_are_refused(tmp_path: Path) -> None:
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


@pytest.mark.slow
def test_enabled_versions_of_tls_are_applied() -> None:
    def versions(enabled: str) -> tuple[ssl.TLSVersion, ssl.TLSVersion]:
        tls = Config.of("a:1", properties(ssl_enabled_protocols=enabled)).tls
        assert tls is not None
        return tls.context().minimum_version, tls.context().maximum_version

    lower, upper = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3
    assert versions("TLSv1.3") == (upper, upper)
    assert versions("TLSv1.1, TLSv1.2") == (lower, lower)
    assert versions("TLSv1.2,TLSv1.3") == (lower, upper)
    for enabled in ("TLSv1.1", "TLSv1.2,TLS1.3"):
        with pytest.raises(ConfigError, match=r"ssl\.enabled\.protocols: .* is none of TLSv1\.2, TLSv1\.3"):
            versions(enabled)


@pytest.mark.parametrize("key", ["ssl.truststore.location", "ssl.keystore.location"])
def test_stores_without_an_end_are_refused(key: str) -> None:
    with pytest.raises(ConfigError, match=f"{key}: /dev/zero is no store of certificates: it has more than 16777216"):
        Config.of("a:1", {"security.protocol": "SSL", key: "/dev/zero"})


@pytest.mark.parametrize("key", ["ssl.truststore.location", "ssl.keystore.location"])
def test_a_location_with_a_null_byte_is_refused(key: str) -> None:
    with pytest.raises(ConfigError, match=rf"{re.escape(key)}: 'a\\x00b' is no path"):
        Config.of("a:1", {"security.protocol": "SSL", key: "a\0b"})


def test_a_token_file_with_a_null_byte_in_its_path_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"token\.endpoint\.url: '/a\\x00b' is no path"):
        get_token(TokenSource(file="/a\0b"), 1)
