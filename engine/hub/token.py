"""The hub's access token: in the system's keyring, or else in a file that only its owner can read.

A token belongs to the endpoint it was entered for. One that the hub's own command line has stored (or HF_TOKEN) is
used for huggingface.co and nothing else, so no mirror ever sees it.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
from pathlib import Path

import huggingface_hub
import keyring
from keyring.errors import KeyringError

from engine.errors import FileError
from engine.hub.connection import PUBLIC_ENDPOINT
from engine.hub.folders import data_folder
from engine.hub.records import write_json

SERVICE = "Tessera hub token"


class TokenStore:
    def __init__(self, fallback: Path | None = None) -> None:
        self._fallback = fallback or data_folder() / "hub-tokens.json"

    def get(self, endpoint: str) -> str | None:
        """The token for `endpoint`, or None. Never raises: without a token public models still work."""
        with contextlib.suppress(KeyringError, RuntimeError, OSError):
            if token := keyring.get_password(SERVICE, endpoint):
                return token
        if token := self._read().get(endpoint):
            return token
        return huggingface_hub.get_token() if endpoint == PUBLIC_ENDPOINT else None

    def set(self, endpoint: str, token: str) -> str:
        """Keep `token` (an empty one is forgotten). Returns a warning to show when it could only go into a file."""
        token = token.strip()
        in_keyring = False
        with contextlib.suppress(KeyringError, RuntimeError, OSError):
            if token:
                keyring.set_password(SERVICE, endpoint, token)
                in_keyring = True
            elif keyring.get_password(SERVICE, endpoint) is not None:
                keyring.delete_password(SERVICE, endpoint)
        tokens = self._read()
        tokens.pop(endpoint, None)
        if token and not in_keyring:
            tokens[endpoint] = token
        self._write(tokens)
        if not token or in_keyring:
            return ""
        return (
            "This system has no keyring, so the token was put into a file that only your account can read: "
            f"{self._fallback}"
        )

    def _read(self) -> dict[str, str]:
        with contextlib.suppress(OSError, ValueError, RecursionError):
            values = json.loads(self._fallback.read_text("utf-8"))
            return {str(key): str(value) for key, value in values.items()} if isinstance(values, dict) else {}
        return {}

    def _write(self, tokens: dict[str, str]) -> None:
        if not tokens:
            self._fallback.unlink(missing_ok=True)
            return
        before = os.umask(0o077)
        try:
            write_json(self._fallback, tokens)
            self._fallback.chmod(stat.S_IRUSR | stat.S_IWUSR)
        except OSError as error:
            raise FileError(f"The token could not be kept: {error.strerror or error}.") from error
        finally:
            os.umask(before)
