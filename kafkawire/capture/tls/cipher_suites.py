"""Cipher suites of TLS 1.2 and 1.3 (IANA's registry), as far as they are decrypted: AES-GCM, AES-CCM,
ChaCha20-Poly1305 and AES-CBC, with any key exchange.

What a suite needs follows from its name.
"""

from __future__ import annotations

from typing import NamedTuple

_NAMES = {
    # TLS 1.3
    0x1301: "AES_128_GCM_SHA256",
    0x1302: "AES_256_GCM_SHA384",
    0x1303: "CHACHA20_POLY1305_SHA256",
    0x1304: "AES_128_CCM_SHA256",
    0x1305: "AES_128_CCM_8_SHA256",
    # AES-GCM
    0x009C: "RSA_WITH_AES_128_GCM_SHA256",
    0x009D: "RSA_WITH_AES_256_GCM_SHA384",
    0x009E: "DHE_RSA_WITH_AES_128_GCM_SHA256",
    0x009F: "DHE_RSA_WITH_AES_256_GCM_SHA384",
    0x00A2: "DHE_DSS_WITH_AES_128_GCM_SHA256",
    0x00A3: "DHE_DSS_WITH_AES_256_GCM_SHA384",
    0xC02B: "ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    0xC02C: "ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
    0xC02D: "ECDH_ECDSA_WITH_AES_128_GCM_SHA256",
    0xC02E: "ECDH_ECDSA_WITH_AES_256_GCM_SHA384",
    0xC02F: "ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    0xC030: "ECDHE_RSA_WITH_AES_256_GCM_SHA384",
    0xC031: "ECDH_RSA_WITH_AES_128_GCM_SHA256",
    0xC032: "ECDH_RSA_WITH_AES_256_GCM_SHA384",
    # ChaCha20-Poly1305
    0xCCA8: "ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
    0xCCA9: "ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
    0xCCAA: "DHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
    # AES-CCM
    0xC09C: "RSA_WITH_AES_128_CCM",
    0xC09D: "RSA_WITH_AES_256_CCM",
    0xC09E: "DHE_RSA_WITH_AES_128_CCM",
    0xC09F: "DHE_RSA_WITH_AES_256_CCM",
    0xC0A0: "RSA_WITH_AES_128_CCM_8",
    0xC0A1: "RSA_WITH_AES_256_CCM_8",
    0xC0A2: "DHE_RSA_WITH_AES_128_CCM_8",
    0xC0A3: "DHE_RSA_WITH_AES_256_CCM_8",
    0xC0AC: "ECDHE_ECDSA_WITH_AES_128_CCM",
    0xC0AD: "ECDHE_ECDSA_WITH_AES_256_CCM",
    0xC0AE: "ECDHE_ECDSA_WITH_AES_128_CCM_8",
    0xC0AF: "ECDHE_ECDSA_WITH_AES_256_CCM_8",
    # AES-CBC
    0x002F: "RSA_WITH_AES_128_CBC_SHA",
    0x0032: "DHE_DSS_WITH_AES_128_CBC_SHA",
    0x0033: "DHE_RSA_WITH_AES_128_CBC_SHA",
    0x0035: "RSA_WITH_AES_256_CBC_SHA",
    0x0038: "DHE_DSS_WITH_AES_256_CBC_SHA",
    0x0039: "DHE_RSA_WITH_AES_256_CBC_SHA",
    0x003C: "RSA_WITH_AES_128_CBC_SHA256",
    0x003D: "RSA_WITH_AES_256_CBC_SHA256",
    0x0040: "DHE_DSS_WITH_AES_128_CBC_SHA256",
    0x0067: "DHE_RSA_WITH_AES_128_CBC_SHA256",
    0x006A: "DHE_DSS_WITH_AES_256_CBC_SHA256",
    0x006B: "DHE_RSA_WITH_AES_256_CBC_SHA256",
    0xC004: "ECDH_ECDSA_WITH_AES_128_CBC_SHA",
    0xC005: "ECDH_ECDSA_WITH_AES_256_CBC_SHA",
    0xC009: "ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
    0xC00A: "ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
    0xC00E: "ECDH_RSA_WITH_AES_128_CBC_SHA",
    0xC00F: "ECDH_RSA_WITH_AES_256_CBC_SHA",
    0xC013: "ECDHE_RSA_WITH_AES_128_CBC_SHA",
    0xC014: "ECDHE_RSA_WITH_AES_256_CBC_SHA",
    0xC023: "ECDHE_ECDSA_WITH_AES_128_CBC_SHA256",
    0xC024: "ECDHE_ECDSA_WITH_AES_256_CBC_SHA384",
    0xC025: "ECDH_ECDSA_WITH_AES_128_CBC_SHA256",
    0xC026: "ECDH_ECDSA_WITH_AES_256_CBC_SHA384",
    0xC027: "ECDHE_RSA_WITH_AES_128_CBC_SHA256",
    0xC028: "ECDHE_RSA_WITH_AES_256_CBC_SHA384",
    0xC029: "ECDH_RSA_WITH_AES_128_CBC_SHA256",
    0xC02A: "ECDH_RSA_WITH_AES_256_CBC_SHA384",
}


class CipherSuite(NamedTuple):
    """A cipher suite.

    Attributes:
        name: as IANA writes it, with `TLS_`.
        mode: `GCM`, `CCM`, `POLY1305` or `CBC`.
        key_bytes: of the cipher's key; `tag_bytes`: of an AEAD's tag.
        hash: of the key schedule, `sha256` or `sha384`; `mac`: hash of the MAC of a CBC suite.
    """

    name: str
    mode: str
    key_bytes: int
    tag_bytes: int
    hash: str
    mac: str | None


def cipher_suite(number: int) -> CipherSuite | None:
    """The suite of that number; None for one that is not decrypted."""
    name = _NAMES.get(number)
    if name is None:
        return None
    parts = name.rpartition("WITH_")[2].split("_")
    mode = parts[1] if parts[0] == "CHACHA20" else parts[2]
    key_bytes = 32 if parts[0] == "CHACHA20" else int(parts[1]) // 8
    hashed = {"SHA": "sha1", "SHA256": "sha256", "SHA384": "sha384"}.get(parts[-1], "sha256")
    mac = hashed if mode == "CBC" else None
    return CipherSuite(
        f"TLS_{name}",
        mode,
        key_bytes,
        8 if mode == "CCM" and "8" in parts else 16,
        "sha384" if hashed == "sha384" else "sha256",
        mac,
    )


def suite_name(number: int) -> str:
    """The name of a suite, or its number where the suite is not known here."""
    suite = cipher_suite(number)
    return f"cipher suite 0x{number:04x}" if suite is None else suite.name
