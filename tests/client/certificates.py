"""A certificate for loopback that signs itself, as PEM and in PKCS#12 stores."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from typing import Any, NamedTuple

import pytest

HOST = "127.0.0.1"


class Identity(NamedTuple):
    """A certificate and its key, as PEM."""

    certificate: str
    key: str
    objects: tuple[Any, Any]

    def keystore(self, password: str) -> bytes:
        """A PKCS#12 store of both."""
        from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, pkcs12

        certificate, key = self.objects
        return pkcs12.serialize_key_and_certificates(
            b"me", key, certificate, None, BestAvailableEncryption(password.encode())
        )

    def truststore(self, password: str) -> bytes:
        """A PKCS#12 store of the certificate alone, as keytool makes it."""
        from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, pkcs12

        trusted = pkcs12.PKCS12Certificate(self.objects[0], b"ca")
        return pkcs12.serialize_java_truststore([trusted], BestAvailableEncryption(password.encode()))


def make_identity(host: str = HOST) -> Identity:
    """Skips the test where `cryptography` is missing."""
    pytest.importorskip("cryptography")
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, host)])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(datetime.now(UTC) - timedelta(hours=1))
        .not_valid_after(datetime.now(UTC) + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address(host))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    form = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    return Identity(
        certificate.public_bytes(serialization.Encoding.PEM).decode(),
        key.private_bytes(serialization.Encoding.PEM, *form).decode(),
        (certificate, key),
    )
