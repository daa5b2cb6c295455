"""The one way out: an HTTP client with the owner's endpoint, proxy, certificates, token and offline mode.

`huggingface_hub` makes its calls through the client installed here, and our ranged reads use the same one. Its
hooks hold what must hold for every request, whoever makes it: nothing in offline mode, the token to the endpoint
alone, a time-out always, and a rate limit reported at once instead of slept through.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import re
import ssl
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpcore2
import httpx2
import huggingface_hub
from huggingface_hub import constants
from huggingface_hub.errors import GatedRepoError, HfHubHTTPError

from engine.hub.errors import (
    GatedError,
    HubError,
    NotFoundError,
    OfflineError,
    RateLimitedError,
    ServerError,
    StoppedError,
    TokenRefusedError,
    UnreachableError,
)

PUBLIC_ENDPOINT = "https://huggingface.co"
CONNECT_SECONDS = 10.0
READ_BYTES = 1 << 20
_ERRNO = re.compile(r"^\[Errno -?\d+\] ")

_stop: contextvars.ContextVar[threading.Event | None] = contextvars.ContextVar("stop", default=None)


@dataclass(frozen=True, slots=True)
class HubSettings:
    """How to reach the hub. `endpoint` is its address or a mirror's, without a slash at the end.

    An empty `proxy` means the system's own (environment, no_proxy list, system settings), "none" no proxy at all;
    otherwise a URL, user and password included. `ca_file` adds certificates to the system's. After
    `stall_seconds` without a byte a connection counts as broken.
    """

    endpoint: str = PUBLIC_ENDPOINT
    proxy: str = ""
    ca_file: str = ""
    offline: bool = False
    stall_seconds: float = 20.0


def settings_from_environment() -> HubSettings:
    """What HF_ENDPOINT and HF_HUB_OFFLINE say, as the hub's client library has read them."""
    return HubSettings(endpoint=constants.ENDPOINT.rstrip("/"), offline=constants.HF_HUB_OFFLINE)


@contextlib.contextmanager
def stoppable(stop: threading.Event | None) -> Iterator[None]:
    """Requests made inside raise StoppedError once `stop` is set."""
    before = _stop.set(stop)
    try:
        yield
    finally:
        _stop.reset(before)


class Connection:
    """An HTTP client for one set of settings. Makes no request by itself; safe to use from several threads."""

    def __init__(self, settings: HubSettings, token: str | None = None) -> None:
        self.settings = settings
        self.origin = httpx2.URL(settings.endpoint)
        self.token = token
        self.api = huggingface_hub.HfApi(
            endpoint=settings.endpoint, token=token or False, library_name="tessera", library_version="1"
        )
        self.client = self._make_client()

    def install(self) -> None:
        """Let huggingface_hub use this client for its own calls; the latest one installed counts."""
        huggingface_hub.set_client_factory(self._make_client)

    def close(self) -> None:
        self.client.close()

    def headers(self, url: httpx2.URL) -> dict[str, str]:
        """Headers for `url`: the token goes to the endpoint alone."""
        headers = {"User-Agent": "tessera/1", "Accept-Encoding": "identity"}
        if self.token and same_origin(url, self.origin):
            headers["Authorization"] = f"Bearer {self.token}"
        return headers

    def _make_client(self) -> httpx2.Client:
        proxy = self.settings.proxy
        return _Client(
            self.settings.endpoint,
            proxy=proxy if proxy and proxy != "none" else None,
            trust_env=proxy == "",
            verify=_certificates(self.settings.ca_file),
            follow_redirects=True,
            timeout=self._timeout(),
            event_hooks={"request": [self._before], "response": [self._after]},
        )

    def _timeout(self) -> httpx2.Timeout:
        return httpx2.Timeout(self.settings.stall_seconds, connect=CONNECT_SECONDS)

    def _before(self, request: httpx2.Request) -> None:
        if (stop := _stop.get()) is not None and stop.is_set():
            raise StoppedError
        if self.settings.offline:
            raise OfflineError
        if request.url.path == "/api/agent-harnesses":
            raise HubError("Not asked for by the owner.")  # the client library's telemetry; it copes
        if not same_origin(request.url, self.origin):
            request.headers.pop("Authorization", None)
        timeout = request.extensions.get("timeout", {})
        if timeout.get("read") is None:  # the client library waits for ever in some calls
            request.extensions = {**request.extensions, "timeout": self._timeout().as_dict()}

    def _after(self, response: httpx2.Response) -> None:
        # Raised here, because the client library would sleep and try again for minutes, out of anybody's sight.
        if response.status_code == 429 or response.status_code >= 500:
            raise status_error(response, "", self.settings.endpoint)


class _Client(httpx2.Client):
    """Says who could not be reached and why, in place of the library's exceptions."""

    def __init__(self, endpoint: str, **options: Any) -> None:
        super().__init__(**options)
        self._endpoint = endpoint

    def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        try:
            return super().send(request, **options)
        except (httpx2.HTTPError, httpx2.InvalidURL, ssl.SSLError, OSError) as error:
            host = self._endpoint if request.url.host in self._endpoint else request.url.host
            raise UnreachableError(host, _reason(error), _is_permanent(error)) from error


def same_origin(one: httpx2.URL, other: httpx2.URL) -> bool:
    default = {"http": 80, "https": 443}

    def origin(url: httpx2.URL) -> tuple[str, str, int | None]:
        return url.scheme, url.host.lower(), url.port or default.get(url.scheme)

    return origin(one) == origin(other)


def retry_after(response: httpx2.Response) -> float:
    """Seconds to wait after a 429: what Retry-After or RateLimit says, within reason, or half a minute."""
    text = response.headers.get("Retry-After", "")
    if not text.isdigit():
        parts = dict(part.strip().partition("=")[::2] for part in response.headers.get("RateLimit", "").split(";"))
        text = parts.get("t", "")
    return min(float(text), 3600.0) if text.isdigit() else 30.0


def translate(error: Exception, connection: Connection, repository: str = "") -> Exception:
    """The error to show for what huggingface_hub or the HTTP client raised; ours pass unchanged."""
    endpoint = connection.settings.endpoint
    if isinstance(error, HubError | StoppedError):
        return error
    if isinstance(error, GatedRepoError):
        return GatedError(repository, endpoint)
    if isinstance(error, HfHubHTTPError):
        return status_error(error.response, repository, endpoint)
    if isinstance(error, huggingface_hub.errors.OfflineModeIsEnabled):
        return OfflineError()
    if isinstance(error, httpx2.HTTPError | httpx2.InvalidURL | ssl.SSLError | OSError):
        return UnreachableError(endpoint, _reason(error), _is_permanent(error))
    return ServerError(
        f"{endpoint} gave an answer that makes no sense ({type(error).__name__}).",
        remedy="Is this address a hub? See Settings, Network.",
    )


def status_error(response: httpx2.Response, repository: str, endpoint: str) -> HubError:
    """The error for an answer of 400 and more."""
    status, code = response.status_code, response.headers.get("X-Error-Code", "")
    if status == 429:
        return RateLimitedError(retry_after(response))
    if code == "GatedRepo":
        return GatedError(repository, endpoint)
    if status == 401 and "Invalid credentials" in response.headers.get("X-Error-Message", ""):
        return TokenRefusedError()
    if status in (401, 404, 410):
        return NotFoundError(
            f"{repository or response.url.path} was not found on {endpoint}"
            f"{', or it is private' if code == 'RepoNotFound' or status == 401 else ''}.",
            remedy="Check the name; for a private repository enter an access token: the key under Library, Discover.",
        )
    if status == 407:
        return UnreachableError(endpoint, "the proxy asks for a user name and a password", permanent=True)
    if status >= 500:
        return ServerError(f"{endpoint} has a problem of its own (status {status}).", remedy="Try again later.")
    return HubError(f"{endpoint} refused the request (status {status}).", remedy="Try again later.")


def _is_permanent(error: Exception) -> bool:
    text = str(error)
    return "CERTIFICATE_VERIFY_FAILED" in text or "407" in text or isinstance(error, httpx2.InvalidURL)


def _reason(error: Exception) -> str:
    text = str(error)
    if isinstance(error, httpx2.ProxyError):
        return f"the proxy failed ({text})"
    if "CERTIFICATE_VERIFY_FAILED" in text:
        return "its certificate is not trusted (a company proxy needs its own certificate file)"
    if isinstance(error, httpx2.ConnectTimeout):
        return f"no connection within {CONNECT_SECONDS:.0f} s"
    if isinstance(error, httpx2.TimeoutException):
        return "it stopped answering"
    if "Name or service not known" in text or "getaddrinfo" in text or "name resolution" in text:
        return "its name is not known (no network?)"
    if "refused" in text.lower():
        return "the connection was refused"
    return _ERRNO.sub("", text) or type(error).__name__


@functools.cache
def _certificates(ca_file: str) -> ssl.SSLContext:
    """Certificates of the system's store or SSL_CERT_FILE, and the owner's file. There is no way to switch
    verification off. HubError: that file is gone, or holds none."""
    context = httpcore2.default_ssl_context()
    if ca_file:
        try:
            context.load_verify_locations(cafile=ca_file)
        except OSError as error:
            reason = error.reason if isinstance(error, ssl.SSLError) else error.strerror
            raise HubError(
                f"{ca_file} cannot be read: {reason}.",
                remedy="Check the network, and the address, proxy and certificates under Settings, Network.",
            ) from error
    return context
