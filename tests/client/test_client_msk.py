"""The login to Amazon MSK with IAM: Java's properties, a token of AWS's signer, OAUTHBEARER on the wire."""

from __future__ import annotations

import base64
import sys
from urllib.parse import parse_qs, urlsplit

import pytest

from kafkawire.client import Admin, AuthenticationError, Config, ConfigError
from kafkawire.client.transport.oauth import get_token
from kafkawire.client.transport.sasl import MskLogin, TokenSource
from kafkawire.errors import MissingExtraError
from kafkawire.messages import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from tests.client.answers import scenario
from tests.client.scripted import ScriptedBroker

IAM = "software.amazon.msk.auth.iam"
JAVA = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "AWS_MSK_IAM",
    "sasl.jaas.config": f"{IAM}.IAMLoginModule required;",
    "sasl.client.callback.handler.class": f"{IAM}.IAMClientCallbackHandler",
}
BEARER = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.jaas.config": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;",
    "sasl.login.callback.handler.class": f"{IAM}.IAMOAuthBearerLoginCallbackHandler",
}
BROKER = "b-1.orders.abcde.c2.kafka.{}.amazonaws.com:9098"
KEY, SECRET = "AKIAEXAMPLE", "not a secret that AWS knows"


@pytest.fixture(autouse=True)
def _no_aws_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)


@pytest.mark.parametrize("given", [JAVA, BEARER], ids=["AWS_MSK_IAM", "OAUTHBEARER"])
def test_reads_javas_properties(given: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert Config.of(BROKER.format("eu-west-1"), given).tokens == TokenSource(msk=MskLogin(region="eu-west-1"))
    serverless = "boot-x.c1.kafka-serverless.us-east-2.amazonaws.com:9098"
    assert Config.of(serverless, given).tokens == TokenSource(msk=MskLogin(region="us-east-2"))
    with pytest.raises(ConfigError, match="names no AWS region: set AWS_REGION"):
        Config.of("kafka.example.com:9098", given)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "ap-south-1")
    assert Config.of("kafka.example.com:9098", given).tokens == TokenSource(msk=MskLogin(region="ap-south-1"))


def test_reads_profile_and_role() -> None:
    options = 'awsProfileName="ops" awsRoleArn="arn:aws:iam::1:role/r" awsRoleSessionName="night"'
    given = JAVA | {"sasl.jaas.config": f"{IAM}.IAMLoginModule required {options};"}
    assert Config.of(BROKER.format("eu-west-1"), given).tokens == TokenSource(
        msk=MskLogin(region="eu-west-1", profile="ops", role="arn:aws:iam::1:role/r", session="night")
    )


@pytest.mark.slow
@scenario
async def test_logs_in_with_a_token_of_the_signer() -> None:
    pytest.importorskip("aws_msk_iam_sasl_signer")
    broker = ScriptedBroker({"orders": {0: 1}})
    broker.versions |= {17: (0, 1), 36: (0, 2)}
    sent: list[bytes] = []

    def authenticated(request: SaslAuthenticateRequest) -> SaslAuthenticateResponse:
        sent.append(bytes(request.auth_bytes))
        return SaslAuthenticateResponse()

    broker.on[SaslHandshakeRequest] = lambda request: SaslHandshakeResponse(mechanisms=("OAUTHBEARER",))
    broker.on[SaslAuthenticateRequest] = authenticated
    async with broker.running():
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("AWS_REGION", "eu-north-1")
            admin = Admin.connect(broker.address, BEARER)
        async with admin:
            metadata = await admin.cluster.metadata()
    assert len(metadata.partitions) == 1
    assert b"auth=Bearer " in sent[0]
    token = sent[0].partition(b"auth=Bearer ")[2].partition(b"\x01")[0]
    url = urlsplit(base64.urlsafe_b64decode(token + b"=" * (-len(token) % 4)).decode())
    query = parse_qs(url.query)
    assert url.hostname == "kafka.eu-north-1.amazonaws.com"
    assert query["Action"] == ["kafka-cluster:Connect"]
    assert query["X-Amz-Credential"][0].startswith(f"{KEY}/")
    assert SECRET not in url.query


def test_without_credentials_the_login_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("aws_msk_iam_sasl_signer")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    with pytest.raises(AuthenticationError, match="AWS in eu-west-1: no AWS credentials were found"):
        get_token(TokenSource(msk=MskLogin(region="eu-west-1")), 1)
    with pytest.raises(AuthenticationError, match=r"no token could be signed: .*ops"):
        get_token(TokenSource(msk=MskLogin(region="eu-west-1", profile="ops")), 1)


def test_what_the_signer_makes_has_to_be_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    signer = pytest.importorskip("aws_msk_iam_sasl_signer.MSKAuthTokenProvider")
    monkeypatch.setattr(signer, "generate_auth_token", lambda region: ("a\x01auth=b", 0))
    with pytest.raises(AuthenticationError, match=r"what was signed is no token: character 2 is U\+0001"):
        get_token(TokenSource(msk=MskLogin(region="eu-west-1")), 1)


def test_without_the_signer_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "aws_msk_iam_sasl_signer", None)
    with pytest.raises(MissingExtraError, match="msk"):
        get_token(TokenSource(msk=MskLogin(region="eu-west-1")), 1)
