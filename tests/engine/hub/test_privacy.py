"""What leaves this machine: nothing unasked, the token to its endpoint alone, never into a log."""

from __future__ import annotations

import logging
import ssl
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import huggingface_hub
import keyring
import pytest
from keyring.backend import KeyringBackend
from keyring.backends.fail import Keyring as NoKeyring

from engine.hub import connection as connection_module
from engine.hub.connection import PUBLIC_ENDPOINT, Connection, settings_from_environment
from engine.hub.downloads import Downloads
from engine.hub.errors import HubError, OfflineError, UnreachableError
from engine.hub.repository import Search, open_repository, probe, read_description
from engine.hub.token import TokenStore
from tests.engine.hub.conftest import MODEL, fetch, publish
from tests.support.certificates import make_certificate
from tests.support.hub_content import Noise
from tests.support.hub_faults import Fault
from tests.support.hub_server import FakeHub

Connect = Callable[..., Connection]


class MemoryKeyring(KeyringBackend):
    priority = 1  # type: ignore[assignment]

    def __init__(self) -> None:
        super().__init__()
        self.kept: dict[tuple[str, str], str] = {}

    def get_password(self, service: str, username: str) -> str | None:
        return self.kept.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self.kept[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        del self.kept[service, username]


@pytest.fixture
def keyring_of(request: pytest.FixtureRequest) -> Iterator[Callable[[KeyringBackend], None]]:
    before = keyring.get_keyring()
    yield keyring.set_keyring
    keyring.set_keyring(before)


# --- the token ------------------------------------------------------------------------------------------------


def test_token_goes_to_the_hub_and_to_no_other_host(hub: FakeHub, connect: Connect, tmp_path: Path) -> None:
    source = publish(hub, Noise(100_000), gated=True)
    connection = connect(hub.token)
    open_repository(connection, MODEL)
    fetch(connection, source, tmp_path / "m.gguf")
    assert all("authorization" in one.headers for one in hub.seen("hub"))
    assert hub.seen("files")
    assert not any("authorization" in one.headers for one in hub.seen("files"))
    assert not any("cookie" in one.headers for one in hub.seen())


def test_the_public_hubs_token_is_not_sent_to_a_mirror(
    hub: FakeHub, connect: Connect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    keyring_of: Callable[[KeyringBackend], None],
) -> None:  # fmt: skip
    keyring_of(MemoryKeyring())
    monkeypatch.setenv("HF_TOKEN", "hf_of_the_command_line")
    tokens = TokenStore(tmp_path / "tokens.json")
    tokens.set(PUBLIC_ENDPOINT, "hf_secret")
    publish(hub, Noise(1000))
    connection = connect(tokens.get(hub.url))
    open_repository(connection, MODEL)
    Search(connection, "model").next_page()
    assert not any("authorization" in one.headers for one in hub.seen())
    assert tokens.get(PUBLIC_ENDPOINT) == "hf_secret"
    tokens.set(PUBLIC_ENDPOINT, "")
    assert tokens.get(PUBLIC_ENDPOINT) == "hf_of_the_command_line"


def test_redirects_to_another_site_lose_the_token(hub: FakeHub, connect: Connect) -> None:
    with FakeHub() as other:
        publish(other, Noise(10))
        target = f"{other.url}/api/models/{MODEL}?blobs=True"
        hub.hub_faults.append(Fault(status=307, headers={"Location": target}))
        open_repository(connect(hub.token), MODEL)
        assert other.seen() and not any("authorization" in one.headers for one in other.seen())


def test_token_never_reaches_a_log(
    hub: FakeHub, connect: Connect, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    source = publish(hub, Noise(1000), private=True)
    connection = connect(hub.token)
    open_repository(connection, MODEL)
    fetch(connection, source, tmp_path / "m.gguf")
    with pytest.raises(HubError) as caught:
        open_repository(connect("hf_wrong_token"), MODEL)
    assert caplog.text
    for secret in (hub.token, "hf_wrong_token"):
        assert secret not in caplog.text + str(caught.value) + repr(connection)
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and hub.token.encode() in path.read_bytes()]


def test_token_in_the_keyring_and_nowhere_else(tmp_path: Path, keyring_of: Callable[[KeyringBackend], None]) -> None:
    memory = MemoryKeyring()
    keyring_of(memory)
    tokens = TokenStore(tmp_path / "tokens.json")
    assert tokens.set("https://mirror", " hf_x\n") == ""
    assert list(memory.kept.values()) == ["hf_x"]
    assert not list(tmp_path.iterdir())
    assert tokens.get("https://mirror") == "hf_x"
    tokens.set("https://mirror", "")
    assert not memory.kept


def test_without_a_keyring_a_private_file_and_a_warning(
    tmp_path: Path, keyring_of: Callable[[KeyringBackend], None]
) -> None:
    keyring_of(NoKeyring())
    file = tmp_path / "folder" / "tokens.json"
    tokens = TokenStore(file)
    warning = tokens.set("https://mirror", "hf_x")
    assert str(file) in warning
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert TokenStore(file).get("https://mirror") == "hf_x"
    assert TokenStore(file).get("https://elsewhere") is None
    tokens.set("https://mirror", "")
    assert not file.exists()


# --- asking nothing unasked -----------------------------------------------------------------------------------


def test_no_request_before_somebody_acts(hub: FakeHub, connect: Connect, tmp_path: Path) -> None:
    connection = connect(hub.token)
    Search(connection, "text")  # typed, not yet asked for
    Downloads(lambda: connection, tmp_path / "queue.json").close()
    assert not hub.requests


def test_opening_a_card_is_one_request_and_nothing_else(hub: FakeHub, connect: Connect) -> None:
    publish(hub, Noise(1000))
    card = open_repository(connect(), MODEL)
    assert len(hub.requests) == 1
    assert read_description(connect(), card).startswith("# A model")
    assert len(hub.requests) == 2


def test_offline_mode_asks_nothing(hub: FakeHub, connect: Connect, tmp_path: Path) -> None:
    source = publish(hub, Noise(1000))
    connection = connect(offline=True)
    for ask in (
        lambda: Search(connection, "x").next_page(),
        lambda: open_repository(connection, MODEL),
        lambda: fetch(connection, source, tmp_path / "m.gguf"),
    ):
        with pytest.raises(OfflineError):
            ask()
    assert not hub.requests


# --- endpoint, proxy, certificates ------------------------------------------------------------------------------


def test_everything_goes_to_the_configured_endpoint(hub: FakeHub) -> None:
    """HF_ENDPOINT and HF_HUB_OFFLINE are read by the client library; a process of its own shows that they arrive."""
    program = (
        "from engine.hub.connection import settings_from_environment as read\n"
        "settings = read()\nprint(settings.endpoint, settings.offline)"
    )
    answer = subprocess.run(
        [sys.executable, "-c", program],
        env={"HF_ENDPOINT": "https://mirror.example/", "HF_HUB_OFFLINE": "1", "PATH": ""},
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[3],
    )
    assert answer.stdout.split() == ["https://mirror.example", "True"]
    assert settings_from_environment().endpoint == huggingface_hub.constants.ENDPOINT


def test_proxy_is_used_and_a_dead_one_is_named(hub: FakeHub, connect: Connect, tmp_path: Path) -> None:
    publish(hub, Noise(1000))
    proxied = connect(endpoint="http://hub.example", proxy=hub.url)  # the fake hub answers as a proxy would
    assert open_repository(proxied, MODEL).summary.name == MODEL
    assert hub.requests[0].path.startswith("http://hub.example/api/models/")
    with pytest.raises(UnreachableError) as caught:
        Search(connect(proxy="http://127.0.0.1:9"), "x").next_page()
    assert "Settings, Network" in caught.value.remedy


def test_proxy_credentials_and_no_proxy_list(hub: FakeHub, connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    publish(hub, Noise(1000))
    address = hub.url.removeprefix("http://")
    open_repository(connect(endpoint="http://hub.example", proxy=f"http://me:pass@{address}"), MODEL)
    assert "proxy-authorization" in hub.requests[-1].headers
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    assert open_repository(connect(proxy=""), MODEL).summary.name == MODEL
    monkeypatch.setenv("NO_PROXY", "")
    with pytest.raises(UnreachableError):
        open_repository(connect(proxy=""), MODEL)


def test_unknown_certificate_is_refused_and_a_given_one_accepted(
    connect: Connect, tmp_path: Path, hub: FakeHub
) -> None:
    certificate, key = make_certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with FakeHub(tls=context) as secure:
        source = publish(secure, Noise(300_000))
        with pytest.raises(UnreachableError, match="not trusted") as caught:
            open_repository(connect(endpoint=secure.url), MODEL)
        assert caught.value.permanent
        assert not secure.requests
        trusting = connect(endpoint=secure.url, ca_file=str(certificate))
        assert open_repository(trusting, MODEL).listing.models
        fetch(trusting, source, tmp_path / "m.gguf")
        assert (tmp_path / "m.gguf").stat().st_size == 300_000


def test_certificates_named_by_the_system_are_used(
    connect: Connect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate, key = make_certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    connection_module._certificates.cache_clear()
    try:
        with FakeHub(tls=context) as secure:
            publish(secure, Noise(1000))
            assert open_repository(connect(endpoint=secure.url), MODEL).listing.models
    finally:
        connection_module._certificates.cache_clear()


@pytest.mark.parametrize("answer", ["html", "garbage"])
def test_an_address_that_is_no_hub_is_told(hub: FakeHub, connect: Connect, answer: str) -> None:
    hub.hub_faults.append(Fault(html=True) if answer == "html" else Fault(status=200, body=b"{}]"))
    with pytest.raises(HubError, match="Is this address a hub"):
        open_repository(connect(), MODEL)


def test_probe_says_which_call_a_mirror_does_not_answer(hub: FakeHub, connect: Connect) -> None:
    publish(hub, Noise(1000))
    probe(connect())
    hub.hub_faults.extend([Fault(), Fault(status=404)])
    with pytest.raises(HubError, match="not the request for the facts of a repository"):
        probe(connect())
    hub.hub_faults.extend([Fault(), Fault(), Fault(status=500)])
    with pytest.raises(HubError, match="not the request for the files of a repository"):
        probe(connect())
