"""The file of --web-config: what is refused, and where."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("bcrypt")

from kafkawire.cli.web_config import read_web_config
from kafkawire.client import ConfigError

HASH = "$2y$10$CwTycUXWue0Thq9StjUM0uJ8i0E9rj4l3mYkqkqDSMdnRzqXbWEiG"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("basic_auth_user: {}", "unknown field `basic_auth_user`"),
        ("basic_auth_users: {zoe: secret}", "basic_auth_users: zoe: no bcrypt hash"),
        ("basic_auth_users: {zoe: $2y$31$CwTycUXWue0Thq9StjUM0uJ8i0E9rj4l3mYkqkqDSMdnRzqXbWEiG}", "no bcrypt hash"),
        ("basic_auth_users: [zoe]", "Expected `object | null`, got `array` - at `$.basic_auth_users`"),
        ("tls_server_config: {cert_file: a}", "missing required field `key_file` - at `$.tls_server_config`"),
        ("tls_server_config: {cert_file: a, key_file: b}", "a or b: No such file or directory"),
        ("tls_server_config: {cert_file: a, key_file: b, cipher_suites: [x]}", "unknown field `cipher_suites`"),
        ("tls_server_config: {cert_file: a, key_file: b, client_auth_type: RequestClientCert}", "Invalid enum value"),
        ("tls_server_config: {cert_file: a, key_file: b, client_ca_file: c}", "client_auth_type that verifies"),
        (
            "tls_server_config: {cert_file: web.yml, key_file: web.yml}",
            "web.yml or web.yml: no certificate, not its key",
        ),
        ("http_server_config: {http2: true}", "http2: this server has HTTP/1.1 only"),
        ("http_server_config: {headers: {Set-Cookie: x}}", "Invalid enum value 'Set-Cookie'"),
        ("http_server_config: {headers: {X-Frame-Options: |\n  deny}}", "no YAML: while scanning"),
        ("http_server_config:\n  headers:\n    X-Frame-Options: |\n      deny\n", "Expected `str` matching regex"),
        ('http_server_config: {headers: {X-Frame-Options: "a\\r\\nSet-Cookie: b"}}', "Expected `str` matching regex"),
        ("http_server_config: {headers: {X-Frame-Options: é}}", "Expected `str` matching regex"),
        ('tls_server_config: {cert_file: "a\\0", key_file: b}', "'a\\x00' or 'b': no path: embedded null byte"),
        ('basic_auth_users: {zoe: "\\uD800"}', "zoe: no bcrypt hash"),
        ('"a\\nb": c', "unknown field `a\\nb`"),
        ("!!int a: b", "no YAML: invalid literal for int()"),
        ("a: !!int", "no YAML: string index out of range"),
        ("a: !!timestamp b", "no YAML: "),
        ("a: 2001-99-14", "no YAML: month must be in 1..12"),
        ("- a", "Expected `object`, got `array`"),
        ("a: [", "no YAML: while parsing"),
        ("!!python/object/apply:os.system [x]", "no YAML: could not determine a constructor"),
        ("[" * 1000, "no YAML: nested too deeply"),
        ("#" * ((1 << 20) + 1), "over 1048576 bytes"),
    ],
)
def test_rejects_what_it_does_not_understand(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "web.yml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        read_web_config(str(path))
    assert str(caught.value).startswith(f"{path}: ")
    assert message in str(caught.value)


@pytest.mark.parametrize("text", ["", "basic_auth_users:", f"basic_auth_users: {{zoe: {HASH}}}"])
def test_empty_parts_are_as_if_they_were_absent(tmp_path: Path, text: str) -> None:
    path = tmp_path / "web.yml"
    path.write_text(text)
    web = read_web_config(str(path))
    assert (web.context, web.headers, web.admits("")) == (None, [], "zoe" not in text)


@pytest.mark.parametrize(
    "login", ["Basic \xe9", "Basic em9l=", "Basic em9l", "Basic", "Bearer em9lOng=", "", "Basic w6k6eA=="]
)
def test_an_authorization_header_of_any_text_is_no_login(tmp_path: Path, login: str) -> None:
    path = tmp_path / "web.yml"
    path.write_text(f"basic_auth_users: {{zoe: {HASH}}}")
    assert not read_web_config(str(path)).admits(login)


def test_passwords_of_several_users_are_checked_once_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checked = []
    monkeypatch.setattr("bcrypt.checkpw", lambda password, hashed: checked.append(password) or True)
    path = tmp_path / "web.yml"
    path.write_text(f"basic_auth_users: {{zoe: {HASH}, kim: {HASH}}}")
    web = read_web_config(str(path))
    for _ in range(3):
        assert web.admits("Basic em9lOng=")  # zoe:x
        assert web.admits("Basic a2ltOnk=")  # kim:y
    assert checked == [b"x", b"y"]
