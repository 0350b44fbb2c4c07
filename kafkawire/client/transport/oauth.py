"""OAUTHBEARER tokens: from a file, from an endpoint by the client credentials grant (RFC 6749, 4.4; KIP-768), or signed
with AWS credentials for Amazon MSK."""

from __future__ import annotations

import base64
import io
import json
import re
import socket
import time
import urllib.error
import urllib.parse
import urllib.request
from functools import partial
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any, cast

from kafkawire.client.errors import AuthenticationError, ConfigError
from kafkawire.client.transport.sasl import MskLogin, TokenSource
from kafkawire.errors import MissingExtraError

_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_MAX_ANSWER = 1 << 20
_HOUR_S = 3600
#: RFC 6750, 2.1 (b64token): a byte of anything else could be the end of the token in the client's first message.
_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")
_PERMITTED = "letters, digits, - . _ ~ + / and = at the end"


class _Deadline:
    """The time by which all of an answer is there. A limit of a socket is one for each of its reads only."""

    def __init__(self, limit_s: float) -> None:
        self._end = time.monotonic() + limit_s

    def left(self) -> float:
        """Seconds. Raises TimeoutError."""
        left = self._end - time.monotonic()
        if left <= 0:
            raise TimeoutError("timed out")
        return left

    def connect(self, address: tuple[str, int], *_: Any) -> socket.socket:
        """A connection, as `socket.create_connection` opens it, within one deadline for all addresses of a name."""
        failed: OSError = OSError(f"{address[0]} has no address")
        for found in socket.getaddrinfo(*address, type=socket.SOCK_STREAM):
            try:
                return socket.create_connection(cast("tuple[str, int]", found[4][:2]), self.left())
            except OSError as error:
                failed = error
        raise failed


class _Answer(HTTPResponse):
    """An answer that is read within a deadline."""

    def __init__(self, deadline: _Deadline, sock: socket.socket, *args: Any, **more: Any) -> None:
        super().__init__(sock, *args, **more)
        inner = self.fp
        self.fp = io.BufferedReader(cast("io.RawIOBase", _DeadlineReader(deadline, sock, inner)))


class _DeadlineReader(io.RawIOBase):
    """The bytes of a socket. `inner`: the reader that keeps it open."""

    def __init__(self, deadline: _Deadline, sock: socket.socket, inner: io.BufferedIOBase) -> None:
        self._deadline, self._sock, self._inner = deadline, sock, inner

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._sock.settimeout(self._deadline.left())
        return self._sock.recv_into(buffer)

    def close(self) -> None:
        self._inner.close()
        super().close()


def _connection(kind: type[HTTPConnection], deadline: _Deadline, host: str, **more: Any) -> HTTPConnection:
    made: Any = kind(host, **more)
    made._create_connection = deadline.connect
    made.response_class = partial(_Answer, deadline)
    return cast("HTTPConnection", made)


class _Plain(urllib.request.HTTPHandler):
    """`http` with a deadline for a whole answer."""

    def __init__(self, deadline: _Deadline) -> None:
        super().__init__()
        self._open: Any = partial(_connection, HTTPConnection, deadline)

    def http_open(self, request: urllib.request.Request) -> HTTPResponse:
        return self.do_open(self._open, request)


class _Secure(urllib.request.HTTPSHandler):
    """`https` with a deadline for a whole answer."""

    def __init__(self, deadline: _Deadline) -> None:
        super().__init__()
        self._open: Any = partial(_connection, HTTPSConnection, deadline)

    def https_open(self, request: urllib.request.Request) -> HTTPResponse:
        return self.do_open(self._open, request)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect would take the secret to another server, even without TLS: it is an error as any other answer."""

    def redirect_request(self, *_: object) -> None:
        return None


def get_token(source: TokenSource, timeout_s: float) -> str:
    """A token; blocks. `timeout_s`: seconds for all of it: connections, and every byte of a token endpoint's answer.
    Raises AuthenticationError, ConfigError: with the reason; never with the secret."""
    if source.token is not None:
        return source.token
    if source.file is not None:
        return _from_file(source.file)
    if source.msk is not None:
        return _from_aws(source.msk)
    return _from_endpoint(source, timeout_s)


def _from_file(path: str) -> str:
    """The token in a file, read again for each connection: tokens expire, and the file is rewritten."""
    try:
        with open(path, "rb") as file:
            token = file.read(_MAX_ANSWER + 1).decode().strip()
    except OSError as error:
        raise ConfigError(f"sasl.oauthbearer.token.endpoint.url: {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"sasl.oauthbearer.token.endpoint.url: {path} holds no token, which is text") from None
    except ValueError as error:  # a null byte
        raise ConfigError(f"sasl.oauthbearer.token.endpoint.url: {path!r} is no path: {error}") from None
    if not token:
        raise ConfigError(f"sasl.oauthbearer.token.endpoint.url: {path} is empty: a token belongs in it")
    if reason := _wrong(token):
        raise ConfigError(f"sasl.oauthbearer.token.endpoint.url: {path} holds no token: {reason}")
    return token


def _wrong(token: str) -> str | None:
    """Why that is no token; None where it is one. The sentence names one character of it, which is not permitted."""
    if len(token) > _MAX_ANSWER:
        return f"it is longer than {_MAX_ANSWER:,} characters"
    if _TOKEN.fullmatch(token):
        return None
    permitted = _TOKEN.match(token)
    place = 0 if permitted is None else permitted.end()
    return f"character {place + 1} is U+{ord(token[place]):04X}; a token has {_PERMITTED} (RFC 6750)"


def _from_endpoint(source: TokenSource, timeout_s: float) -> str:
    assert source.url is not None
    try:
        parts = urllib.parse.urlsplit(source.url)
    except ValueError as error:
        raise ConfigError(f"sasl.oauthbearer.token.endpoint.url: {source.url} is no URL ({error})") from None
    if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in _LOOPBACK):
        raise ConfigError(f"sasl.oauthbearer.token.endpoint.url: {source.url} is not https: the secret would be seen")
    form = {"grant_type": "client_credentials"} | ({"scope": source.scope} if source.scope else {})
    who = base64.b64encode(f"{source.client_id}:{source.client_secret}".encode()).decode()
    request = urllib.request.Request(
        source.url,
        data=urllib.parse.urlencode(form).encode(),
        headers={"Authorization": f"Basic {who}", "Accept": "application/json"},
    )
    deadline = _Deadline(timeout_s)
    opener = urllib.request.build_opener(_NoRedirect, _Plain(deadline), _Secure(deadline))
    try:
        with opener.open(request, timeout=timeout_s) as answer:
            answered = json.loads(answer.read(_MAX_ANSWER))
    except urllib.error.HTTPError as error:
        error.close()  # an error is a response, too: it holds the socket
        raise AuthenticationError(source.url, f"the token endpoint answers {error.code} {error.reason}") from None
    except TimeoutError:
        raise AuthenticationError(source.url, f"the token endpoint gave no whole answer in {timeout_s:.3g} s") from None
    except (OSError, urllib.error.URLError) as error:
        reason = getattr(error, "reason", error)
        raise AuthenticationError(source.url, f"the token endpoint cannot be reached: {reason}") from None
    except HTTPException as error:  # no HTTP server, or a URL that cannot be sent
        reason = f"{type(error).__name__}: {error}".rstrip(": ")
        raise AuthenticationError(source.url, f"the token endpoint cannot be used ({reason})") from None
    except (ValueError, RecursionError):
        raise AuthenticationError(source.url, "the token endpoint's answer is not JSON") from None
    token = answered.get("access_token") if isinstance(answered, dict) else None
    if not isinstance(token, str) or not token:
        raise AuthenticationError(source.url, "the token endpoint's answer has no access_token")
    if reason := _wrong(token):
        raise AuthenticationError(source.url, f"the token endpoint's access_token is none: {reason}")
    return token


def _from_aws(login: MskLogin) -> str:
    """A signed request that MSK takes as a token, by the package that AWS publishes."""
    try:
        from aws_msk_iam_sasl_signer import MSKAuthTokenProvider as Signer
    except ImportError:
        raise MissingExtraError("AWS_MSK_IAM", "msk") from None
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        if login.role:
            token, _ = Signer.generate_auth_token_from_role_arn(login.region, login.role, login.session)
        elif login.profile:
            token, _ = Signer.generate_auth_token_from_profile(login.region, login.profile)
        else:
            token, _ = Signer.generate_auth_token(login.region)
    except AttributeError:  # the signer does not look whether there are any
        raise AuthenticationError(f"AWS in {login.region}", "no AWS credentials were found") from None
    except (BotoCoreError, ClientError, ValueError) as error:
        raise AuthenticationError(f"AWS in {login.region}", f"no token could be signed: {error}") from None
    if reason := _wrong(str(token)):
        raise AuthenticationError(f"AWS in {login.region}", f"what was signed is no token: {reason}")
    return str(token)


def unsecured_token(subject: str) -> str:
    """An unsigned token, which brokers accept in unsecured mode (KIP-255): only for tests."""
    now = int(time.time())
    header = _part({"alg": "none"})
    return f"{header}.{_part({'sub': subject, 'iat': now, 'exp': now + _HOUR_S})}."


def _part(value: dict[str, object]) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")
