"""TLS contexts from Kafka's `ssl.*` properties: PEM files or texts, and PKCS#12 stores; JKS has to be converted."""

from __future__ import annotations

import os
import shlex
import ssl
import tempfile
from collections.abc import Mapping
from typing import Any

import msgspec

from kafkawire.client.errors import ConfigError
from kafkawire.errors import MissingExtraError

_PEM = b"-----BEGIN "
_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_OLD_VERSIONS = ("SSLv2Hello", "SSLv3", "TLSv1", "TLSv1.1")
#: The most bytes of a store of certificates; all authorities of a system are some 250 KB.
_MOST_BYTES = 16 << 20
_JKS = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")


class Tls(msgspec.Struct, frozen=True, kw_only=True):
    """How a TLS connection is made.

    Attributes:
        authorities: PEM of the certificates that are trusted; None for those of the system.
        certificate: PEM of our certificate chain and key, for brokers that require one. `key_password`: of that key.
        check_hostname: whether the broker's certificate has to name the host that we connect to.
        versions: lowest and highest version of TLS; None for those of Python's ssl module.
    """

    authorities: str | None = None
    certificate: bytes | None = None
    key_password: str | None = None
    check_hostname: bool = True
    versions: tuple[ssl.TLSVersion, ssl.TLSVersion] | None = None

    def __repr__(self) -> str:
        return f"Tls(check_hostname={self.check_hostname})"

    @classmethod
    def of(cls, given: Mapping[str, str]) -> Tls:
        """From `ssl.*` properties. Raises ConfigError."""
        authorities = given.get("ssl.truststore.certificates") or None
        if authorities is None and given.get("ssl.truststore.location"):
            authorities = _trusted(given["ssl.truststore.location"], given.get("ssl.truststore.password"))
        certificate, key_password = _own_certificate(given)
        algorithm = given.get("ssl.endpoint.identification.algorithm", "https").lower()
        if algorithm not in ("https", ""):
            raise ConfigError(f"ssl.endpoint.identification.algorithm: {algorithm!r} is neither https nor empty")
        tls = cls(
            authorities=authorities,
            certificate=certificate,
            key_password=key_password,
            check_hostname=algorithm == "https",
            versions=_versions(given.get("ssl.enabled.protocols", "")),
        )
        tls.context()  # errors of certificates are raised before anything is sent
        return tls

    def context(self) -> ssl.SSLContext:
        """Raises ConfigError where a certificate or key cannot be used."""
        try:
            context = ssl.create_default_context(cadata=_pem_text(self.authorities))
        except (ssl.SSLError, ValueError) as error:
            raise ConfigError(f"ssl.truststore: no certificates can be read from it ({error})") from None
        # Python 3.13 is stricter than Java: it requires key usages and key identifiers that keytool does not write.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        context.check_hostname = self.check_hostname
        if self.versions is not None:
            context.minimum_version, context.maximum_version = self.versions
        if self.certificate is not None:
            _load_chain(context, self.certificate, self.key_password)
        return context


def _versions(enabled: str) -> tuple[ssl.TLSVersion, ssl.TLSVersion] | None:
    """Lowest and highest of `ssl.enabled.protocols`. What is older than TLSv1.2 is left out."""
    names = [name.strip() for name in enabled.split(",") if name.strip()]
    strange = [name for name in names if name not in _VERSIONS and name not in _OLD_VERSIONS]
    usable = [_VERSIONS[name] for name in names if name in _VERSIONS]
    if strange or (names and not usable):
        wrong = (strange or names)[0]
        raise ConfigError(f"ssl.enabled.protocols: {wrong!r} is none of {', '.join(_VERSIONS)}")
    return (min(usable), max(usable)) if usable else None


def _pem_text(text: str | None) -> str | None:
    """PEM as `ssl` takes it: in ASCII. Other characters, as in names of authorities between them, are replaced."""
    return text.replace("\\n", "\n").encode("ascii", "replace").decode() if text else None


def _load_chain(context: ssl.SSLContext, pem: bytes, password: str | None) -> None:
    """`ssl` reads certificates from files only."""
    handle, path = tempfile.mkstemp(suffix=".pem")  # readable to its owner alone
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(pem)
        context.load_cert_chain(path, password=password or "")
    except (ssl.SSLError, ValueError) as error:
        raise ConfigError(f"ssl.keystore: certificate and key cannot be used ({error})") from None
    finally:
        os.unlink(path)


def _own_certificate(given: Mapping[str, str]) -> tuple[bytes | None, str | None]:
    password = given.get("ssl.key.password")
    chain, key = given.get("ssl.keystore.certificate.chain"), given.get("ssl.keystore.key")
    if chain and key:
        return f"{_pem_text(key)}\n{_pem_text(chain)}\n".encode(), password
    location = given.get("ssl.keystore.location")
    if not location:
        return None, None
    data = _read(location, "ssl.keystore.location")
    if data.lstrip().startswith(_PEM):
        return data, password
    store_password = given.get("ssl.keystore.password")
    store = _pkcs12(data, location, store_password)
    if store.key is None or store.cert is None:
        raise ConfigError(f"ssl.keystore.location: {location} holds no key with a certificate")
    from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat

    inner = os.urandom(16).hex()  # the key touches the disk in encrypted form only
    pem = store.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(inner.encode()))
    for one in (store.cert, *store.additional_certs):
        pem += one.certificate.public_bytes(Encoding.PEM)
    return pem, inner


def _trusted(location: str, password: str | None) -> str:
    data = _read(location, "ssl.truststore.location")
    if data.lstrip().startswith(_PEM) or b"\n" + _PEM in data:
        return data.decode("utf-8", "replace")
    store = _pkcs12(data, location, password)
    from cryptography.hazmat.primitives.serialization import Encoding

    found = [*([store.cert] if store.cert else []), *store.additional_certs]
    if not found:
        raise ConfigError(f"ssl.truststore.location: {location} holds no certificate")
    return "".join(one.certificate.public_bytes(Encoding.PEM).decode() for one in found)


def _pkcs12(data: bytes, location: str, password: str | None) -> Any:
    if data.startswith(_JKS):
        source, target = shlex.quote(location), shlex.quote(os.path.splitext(location)[0] + ".p12")
        raise ConfigError(
            f"{location} is a JKS store, which only Java reads: convert it with keytool -importkeystore -srckeystore "
            f"{source} -srcstoretype JKS -destkeystore {target} -deststoretype PKCS12"
        )
    try:
        from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12
    except ImportError:
        raise MissingExtraError("a PKCS#12 store", "net") from None
    try:
        return load_pkcs12(data, password.encode() if password else None)
    except ValueError as error:
        wrong = "no PEM, no PKCS#12" if not data.startswith(b"\x30") else str(error)
        raise ConfigError(f"{location} cannot be read as a store of certificates: {wrong}") from None


def _read(path: str, key: str) -> bytes:
    try:
        with open(path, "rb") as file:
            data = file.read(_MOST_BYTES + 1)
    except ValueError as error:  # a null byte
        raise ConfigError(f"{key}: {path!r} is no path: {error}") from None
    except OSError as error:
        raise ConfigError(f"{key}: {path}: {error.strerror}") from None
    if len(data) > _MOST_BYTES:
        raise ConfigError(f"{key}: {path} is no store of certificates: it has more than {_MOST_BYTES} bytes")
    return data
