"""TLS and passwords of the metrics' endpoint, in the form of Prometheus' exporter-toolkit (web.config.file).

Settings that this server does not support (cipher suites, curves, certificates that are requested and not verified) are
refused: ignoring one could weaken security.
"""

from __future__ import annotations

import base64
import hashlib
import re
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from kafkawire._installation import install_command
from kafkawire.printable import printable

_MOST_BYTES = 1 << 20
#: Logins that are remembered, so that a scrape does not wait for bcrypt each time.
_MOST_LOGINS = 100
#: The hash that a password is compared with where no user has the name: the time must not reveal which names exist.
_NO_USER = b"$2b$10$CwTycUXWue0Thq9StjUM0uJ8i0E9rj4l3mYkqkqDSMdnRzqXbWEiG"
_HASH = re.compile(rb"\$2[aby]\$(0[4-9]|1\d)\$[./A-Za-z0-9]{53}")
#: As exporter-toolkit: other headers are not allowed.
_HEADERS = Literal[
    "Content-Security-Policy",
    "Strict-Transport-Security",
    "X-Content-Type-Options",
    "X-Frame-Options",
    "X-XSS-Protection",
]
_VERSIONS = {"TLS12": ssl.TLSVersion.TLSv1_2, "TLS13": ssl.TLSVersion.TLSv1_3}
_AUTHENTICATION = {
    "NoClientCert": ssl.CERT_NONE,
    "VerifyClientCertIfGiven": ssl.CERT_OPTIONAL,
    "RequireAndVerifyClientCert": ssl.CERT_REQUIRED,
}


def _refused(text: str) -> Exception:
    from kafkawire.client.errors import ConfigError  # the client is not needed for the help

    return ConfigError(text)


class _Tls(msgspec.Struct, forbid_unknown_fields=True):
    cert_file: str
    key_file: str
    client_auth_type: Literal["NoClientCert", "VerifyClientCertIfGiven", "RequireAndVerifyClientCert"] = "NoClientCert"
    client_ca_file: str | None = None
    min_version: Literal["TLS12", "TLS13"] = "TLS12"
    max_version: Literal["TLS12", "TLS13"] = "TLS13"


class _Http(msgspec.Struct, forbid_unknown_fields=True):
    headers: dict[_HEADERS, Annotated[str, msgspec.Meta(pattern=r"^[ -~]*\Z")]] = {}
    http2: bool = False


class _File(msgspec.Struct, forbid_unknown_fields=True):
    tls_server_config: _Tls | None = None
    http_server_config: _Http | None = None
    basic_auth_users: dict[str, str] | None = None


class WebConfig:
    """Who may read the metrics, and whether over TLS. `context`: of TLS; None: plain HTTP. `headers`: that each answer
    has."""

    def __init__(
        self, context: ssl.SSLContext | None = None, users: dict[str, bytes] | None = None, headers: Any = ()
    ) -> None:
        """
        Args:
            users: name -> bcrypt hash of the password; empty: everybody may read.
            headers: pairs of name and value.
        """
        self.context = context
        self.headers: list[tuple[str, str]] = list(headers)
        self._users = users or {}
        self._logins: dict[bytes, None] = {}
        self._lock = threading.Lock()

    def admits(self, authorization: str) -> bool:
        """Whether a request with that Authorization header may read."""
        if not self._users:
            return True
        scheme, _, encoded = authorization.partition(" ")
        if scheme.lower() != "basic":
            return False
        try:
            name, colon, password = base64.b64decode(encoded.strip(), validate=True).partition(b":")
        except ValueError:  # no base64, or no ASCII
            return False
        login = hashlib.sha256(len(name).to_bytes(8, "big") + name + password).digest()
        if not colon or login in self._logins:
            return bool(colon)
        hashed = self._users.get(name.decode("utf-8", "replace"))
        with self._lock:  # one at a time: guessing takes one core at most
            if not _matches(password, hashed or _NO_USER) or hashed is None:
                return False
            if len(self._logins) >= _MOST_LOGINS:
                self._logins.clear()
            self._logins[login] = None
        return True


def _matches(password: bytes, hashed: bytes) -> bool:
    import bcrypt

    try:
        return bcrypt.checkpw(password, hashed)
    except ValueError:  # over 72 bytes
        return False


def read_web_config(path: str) -> WebConfig:
    """The configuration in a file; files that it names are relative to its folder. Raises ConfigError: it is not
    understood, with the place; or a package to read it is missing. Raises OSError: a file cannot be read."""
    try:
        import bcrypt  # noqa: F401
        import yaml
    except ImportError as error:
        raise _refused(f"--web-config needs {error.name}: {install_command('net')}") from None
    with open(path, "rb") as file:
        data = file.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise _refused(f"{path}: over {_MOST_BYTES} bytes")
    try:
        read = msgspec.convert(yaml.safe_load(data) or {}, _File)
    except RecursionError:
        raise _refused(f"{path}: no YAML: nested too deeply") from None
    except msgspec.ValidationError as error:  # which quotes the file
        raise _refused(f"{path}: {printable(str(error))}") from None
    # For a malformed number or date PyYAML raises the exceptions of Python.
    except (yaml.YAMLError, ValueError, TypeError, AttributeError, LookupError, ArithmeticError) as error:
        raise _refused(f"{path}: no YAML: {printable(' '.join(str(error).split()))}") from None
    users = {name: hashed.encode("utf-8", "replace") for name, hashed in (read.basic_auth_users or {}).items()}
    for name, hashed in users.items():
        if _HASH.fullmatch(hashed) is None:
            raise _refused(f"{path}: basic_auth_users: {name}: no bcrypt hash (htpasswd -nB writes one)")
    http = read.http_server_config or _Http()
    if http.http2:
        raise _refused(f"{path}: http_server_config: http2: this server has HTTP/1.1 only")
    context = None if read.tls_server_config is None else _context(read.tls_server_config, Path(path).parent, path)
    return WebConfig(context, users, http.headers.items())


def _context(tls: _Tls, folder: Path, path: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version, context.maximum_version = _VERSIONS[tls.min_version], _VERSIONS[tls.max_version]
    verify = _AUTHENTICATION[tls.client_auth_type]
    if (verify != ssl.CERT_NONE) != (tls.client_ca_file is not None):
        text = f"{path}: tls_server_config: client_ca_file goes with a client_auth_type that verifies, and only with it"
        raise _refused(text)
    with _named(path, tls.cert_file, tls.key_file):
        # Without a password OpenSSL would ask for one on the terminal.
        context.load_cert_chain(folder / tls.cert_file, folder / tls.key_file, lambda: b"")
    if tls.client_ca_file is not None:
        with _named(path, tls.client_ca_file):
            context.load_verify_locations(folder / tls.client_ca_file)
    context.verify_mode = verify
    return context


@contextmanager
def _named(path: str, *names: str) -> Iterator[None]:
    """Errors of the body name the files that it reads."""
    try:
        yield
    except ValueError as error:
        raise _refused(f"{path}: tls_server_config: {' or '.join(map(repr, names))}: no path: {error}") from None
    except OSError as error:  # ssl.SSLError is one
        unread = not isinstance(error, ssl.SSLError)
        reason = error.strerror if unread else "no certificate, not its key, or a key with a password (PEM)"
        raise _refused(f"{path}: tls_server_config: {' or '.join(names)}: {reason}") from None
