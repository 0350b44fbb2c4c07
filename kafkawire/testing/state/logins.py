"""`Logins`: SaslHandshake and SaslAuthenticate as a broker answers them (KIP-43, KIP-152).

PLAIN, SCRAM-SHA-256 and SCRAM-SHA-512 for names with passwords; OAUTHBEARER for tokens. SCRAM needs the package scramp
(the extra `net`).
"""

from __future__ import annotations

import hmac
from collections.abc import Collection, Mapping
from typing import Any

from kafkawire.errors import MissingExtraError
from kafkawire.kafka_errors import CODES
from kafkawire.messages import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from kafkawire.testing.state.call import Call, Handlers
from kafkawire.testing.state.login import Login

SASL_AUTHENTICATION_FAILED = CODES["SASL_AUTHENTICATION_FAILED"]
UNSUPPORTED_SASL_MECHANISM = CODES["UNSUPPORTED_SASL_MECHANISM"]
ILLEGAL_SASL_STATE = CODES["ILLEGAL_SASL_STATE"]

_PLAIN, _OAUTHBEARER = "PLAIN", "OAUTHBEARER"
_SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")
_ITERATIONS = 4096
_REASON = "Authentication failed"
#: The user whose secrets SCRAM uses for an unknown name, so that the server takes the same steps.
_UNKNOWN = "\0unknown"


class Logins:
    """See the module.

    Args:
        users: name -> password. tokens: of OAUTHBEARER, those that are accepted.

    Raises:
        MissingExtraError: there are users, and scramp is not installed.
    """

    def __init__(self, users: Mapping[str, str], tokens: Collection[str]) -> None:
        self._users = dict(users)
        self._tokens = tuple(tokens)
        self._known: dict[str, dict[str, Any]] = {}
        if users:
            mechanisms = _scram_mechanisms()
            for name in _SCRAM:
                each = mechanisms[name]
                self._known[name] = {
                    user: each.make_auth_info(password, iteration_count=_ITERATIONS)
                    for user, password in {**self._users, _UNKNOWN: "-"}.items()
                }
            self._scram = mechanisms
        self.mechanisms = ((_PLAIN, *_SCRAM) if users else ()) + ((_OAUTHBEARER,) if tokens else ())
        self.handlers: Handlers = {
            SaslHandshakeRequest: (self.handshake, range(1, 2)),
            SaslAuthenticateRequest: (self.authenticate, range(3)),
        }

    def handshake(self, call: Call) -> SaslHandshakeResponse:
        request: SaslHandshakeRequest = call.body
        login = call.login
        assert login is not None
        error = call.error
        if login.mechanism is not None or login.user is not None:
            error = error or ILLEGAL_SASL_STATE
        elif request.mechanism not in self.mechanisms:
            error = error or UNSUPPORTED_SASL_MECHANISM
        if error:
            login.failed = True
        else:
            login.mechanism = request.mechanism
        return SaslHandshakeResponse(error_code=error, mechanisms=self.mechanisms)

    def authenticate(self, call: Call) -> SaslAuthenticateResponse:
        request: SaslAuthenticateRequest = call.body
        login = call.login
        assert login is not None
        if call.error or login.mechanism is None or login.user is not None:
            login.failed = True
            return SaslAuthenticateResponse(error_code=call.error or ILLEGAL_SASL_STATE, error_message=_REASON)
        answer = self._step(login, bytes(request.auth_bytes))
        if answer is None:
            login.failed = True
            return SaslAuthenticateResponse(error_code=SASL_AUTHENTICATION_FAILED, error_message=_REASON)
        return SaslAuthenticateResponse(error_message=None, auth_bytes=answer)

    def _step(self, login: Login, data: bytes) -> bytes | None:
        """The answer to a token of the client; None where it does not log in."""
        try:
            text = data.decode()
        except UnicodeDecodeError:
            return None
        if login.mechanism == _PLAIN:
            return self._plain(login, text)
        if login.mechanism == _OAUTHBEARER:
            return self._bearer(login, text)
        return self._scram_step(login, text)

    def _plain(self, login: Login, text: str) -> bytes | None:
        parts = text.split("\0")  # RFC 4616: authorization id, name, password
        if len(parts) != 3 or parts[0] not in ("", parts[1]) or not _same(self._users.get(parts[1]), parts[2]):
            return None
        login.user = parts[1]
        return b""

    def _bearer(self, login: Login, text: str) -> bytes | None:
        # RFC 7628: a GS2 header, then key=value pairs, each after a \1
        header, *pairs = text.split("\1")
        tokens = [pair.partition("Bearer ")[2] for pair in pairs if pair.lower().startswith("auth=bearer ")]
        if not header.startswith("n,") or len(tokens) != 1 or not any(_same(one, tokens[0]) for one in self._tokens):
            return None
        login.user = "token"
        return b""

    def _scram_step(self, login: Login, text: str) -> bytes | None:
        from scramp import ScramException

        assert login.mechanism is not None
        known = self._known[login.mechanism]

        def credentials(name: str) -> Any:
            login.name = name
            return known[name if name in self._users else _UNKNOWN]

        try:
            if login.scram is None:
                login.scram = self._scram[login.mechanism].make_server(credentials)
                login.scram.set_client_first(text)
                return bytes(login.scram.get_server_first().encode())
            login.scram.set_client_final(text)
        except (ScramException, ValueError):
            return None
        if login.name not in self._users:
            return None
        login.user = login.name
        return bytes(login.scram.get_server_final().encode())


def _same(kept: str | None, given: str) -> bool:
    return kept is not None and hmac.compare_digest(kept.encode(), given.encode())


def _scram_mechanisms() -> dict[str, Any]:
    try:
        from scramp import ScramMechanism
    except ImportError:
        raise MissingExtraError("MockBroker(users=...)", "net") from None
    return {name: ScramMechanism(name) for name in _SCRAM}
