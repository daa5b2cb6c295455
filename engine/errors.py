"""Errors fit to be shown to a person: what happened, what was done about it, what to do next."""

from __future__ import annotations


class EngineError(Exception):
    """Base of all errors that reach the owner.

    `cause` says what is wrong, `done` what Tessera did about it, `remedy` what the owner can do. Each is one or
    two plain sentences; `done` and `remedy` may be empty.
    """

    def __init__(self, cause: str, *, done: str = "", remedy: str = "") -> None:
        self.cause = cause
        self.done = done
        self.remedy = remedy
        super().__init__(" ".join(part for part in (cause, done, remedy) if part))


class FileError(EngineError):
    """A file is missing, locked, unreadable, or too short."""


class FormatError(FileError):
    """A file is not what it claims to be; names the file and the key or tensor."""


class UnsupportedError(EngineError):
    """A file is sound, but holds an architecture, type or value that this version cannot run; named."""


class DeviceError(EngineError):
    """A device that was asked for is not here, or cannot be opened. No other engine would help."""


class DeviceFailedError(EngineError):
    """A device that computed does so no more. It may have been for once; a context that is lost needs another load."""


class OutOfMemoryError(EngineError):
    """Memory for weights, KV cache or scratch could not be had."""


class ContextOverflowError(EngineError):
    """A prompt does not fit the context, and the request asked to be told instead of trimmed."""

    def __init__(self, prompt_tokens: int, context_length: int) -> None:
        self.prompt_tokens = prompt_tokens
        self.context_length = context_length
        super().__init__(
            f"The conversation needs {prompt_tokens:,} tokens, and the context holds {context_length:,}.",
            done="Nothing was generated and nothing was removed.",
            remedy="Trim the oldest messages, choose a longer context, or shorten the prompt.",
        )


class TurnTooLongError(EngineError):
    """The last turn does not fit the context even without any older one: trimming would not help."""

    def __init__(self, prompt_tokens: int, context_length: int) -> None:
        self.prompt_tokens = prompt_tokens
        super().__init__(
            f"Even without older messages {prompt_tokens:,} tokens are needed, and the context holds "
            f"{context_length:,}.",
            done="Nothing was generated and nothing was removed.",
            remedy="Choose a longer context, or shorten the last message.",
        )


class TemplateError(EngineError):
    """A chat template failed; the message names its line."""


class BackendCrashedError(EngineError):
    """The compatibility engine's process ended without an answer."""


class ReportedError(EngineError):
    """An error that came from another thread or process as plain values; `kind` is the class it had there."""

    def __init__(self, kind: str, cause: str, *, done: str = "", remedy: str = "", detail: str = "") -> None:
        self.kind = kind
        self.detail = detail
        super().__init__(cause, done=done, remedy=remedy)
