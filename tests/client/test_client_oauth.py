"""Tokens: from a file, made here without a signature, from an endpoint that has to be https."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from kafkawire.client import AuthenticationError, Config, ConfigError
from kafkawire.client.transport.oauth import get_token
from kafkawire.client.transport.sasl import TokenSource

BEARER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required {};"


def source(jaas: str, **more: str) -> TokenSource:
    given = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER"}
    config = Config.of("a:1", given | {"sasl.jaas.config": BEARER.format(jaas)} | more)
    assert config.tokens is not None
    return config.tokens


def test_gets_tokens_from_each_source(tmp_path: Path) -> None:
    path = tmp_path / "a token"
    path.write_text("x.y.z\n")
    found = source("", **{"sasl.oauthbearer.token.endpoint.url": path.as_uri()})
    assert get_token(found, 1) == "x.y.z"
    found = source('unsecuredLoginStringClaim_sub="me"')
    header, claims, signature = get_token(found, 1).split(".")
    decoded = [json.loads(base64.urlsafe_b64decode(part + "==")) for part in (header, claims)]
    assert (decoded[0], decoded[1]["sub"], signature) == ({"alg": "none"}, "me", "")


@pytest.mark.parametrize(
    ("content", "text"), [(b" \n", "is empty"), (b"\xff.y.z", "holds no token"), (None, "No such file or directory")]
)
def test_files_without_a_token_are_refused(content: bytes | None, text: str, tmp_path: Path) -> None:
    """An error of the client's own, which `watch` survives: the file may be written again."""
    path = tmp_path / "token"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=f"^sasl.oauthbearer.token.endpoint.url: {path}:? {text}"):
        get_token(source("", **{"sasl.oauthbearer.token.endpoint.url": path.as_uri()}), 1)


def test_a_token_endpoint_has_to_be_https() -> None:
    with pytest.raises(ConfigError, match="is not https"):
        get_token(TokenSource(url="http://idp.example/token", client_id="i", client_secret="s"), 1)
    with pytest.raises(AuthenticationError, match="cannot be reached"):
        get_token(TokenSource(url="http://127.0.0.1:1/token", client_id="i", client_secret="s"), 1)
