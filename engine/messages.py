"""Commands and events: the only things that cross between the engine thread and its owner.

Every message is a frozen dataclass of plain values, so that it may cross a thread or a process unchanged.
Times are seconds, sizes bytes, speeds tokens per second.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from engine.errors import EngineError, ReportedError
from engine.placement.pins import Pin
from engine.telemetry.residency import RamUse, ResidencySnapshot

Role = Literal["system", "user", "assistant", "tool"]


@dataclass(frozen=True, slots=True)
class ChatMessage:
    role: Role
    content: str


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """Sampler settings; the defaults are neutral except temperature, top-k, top-p and min-p.

    temperature 0 means greedy. top_k 0, top_p 1, min_p 0 and penalties of 1/0/0 switch the stage off.
    `seed` None draws one per request. `grammar` is GBNF text or empty.
    """

    temperature: float = 0.8
    top_k: int = 40
    top_p: float = 0.95
    min_p: float = 0.05
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    penalty_last_n: int = 64
    seed: int | None = None
    grammar: str = ""


class Overflow(enum.Enum):
    """What to do when a prompt does not fit the context."""

    ASK = "ask"  # fail with ContextOverflowError; the owner chooses
    TRIM_OLDEST = "trim_oldest"  # drop the oldest turns (never the system prompt), and say how many


@dataclass(frozen=True, slots=True)
class GenerationRequest:
    """One answer to one conversation. `request_id` is chosen by the sender and names every event that follows."""

    request_id: str
    messages: tuple[ChatMessage, ...]
    sampling: SamplingParams = SamplingParams()
    max_tokens: int | None = None  # None: until a stop token or the context's end
    stop: tuple[str, ...] = ()
    overflow: Overflow = Overflow.ASK
    raw_prompt: str | None = None  # when set, tokenised as it stands: no template
    reasoning: bool | None = None  # where the template has a switch for it; None: as the template wants
    answer_prefix: str = ""  # how the answer begins: it is told to the model, and only what follows is generated


@dataclass(frozen=True, slots=True)
class LoadOptions:
    context_length: int | None = None  # None: the model's own, capped by memory
    threads: int | None = None  # None: physical performance cores
    isa_tier: Literal["auto", "scalar", "avx2", "avx512", "avx512_vnni"] = "auto"  # may only lower the tier; for tests
    kv_type: Literal["f16", "q8_0"] = "f16"  # of keys and values; q8_0 takes 53 % of the memory
    template: str | None = None  # overrides the file's chat template
    engine: Literal["auto", "native", "compatibility"] = "auto"
    # Beside the processor, as on the command line: "cpu" (nothing), "auto" (a card, if one is here), "cuda:6GiB"
    device: str = "cpu"
    gpu_budget: int | None = None  # bytes of its memory, before what `device` says; None: that, or what is sensible
    ram_budget: int | None = None  # bytes of RAM that it may take; None: what the machine has
    heat_folder: str | None = None  # where the use of experts is kept between runs; None: nowhere
    pins_folder: str | None = None  # where pins are kept between runs; None: nowhere
    trace: str | None = None  # a file for what ran when, in Chrome's trace format; written when the model is unloaded


# --- commands -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LoadModel:
    path: str
    options: LoadOptions = LoadOptions()


@dataclass(frozen=True, slots=True)
class CancelLoad:
    """The model that is being loaded is not wanted any more; without effect when none is."""


@dataclass(frozen=True, slots=True)
class UnloadModel:
    pass


@dataclass(frozen=True, slots=True)
class Generate:
    request: GenerationRequest


@dataclass(frozen=True, slots=True)
class Abort:
    request_id: str


@dataclass(frozen=True, slots=True)
class SetBudget:
    """How much memory may be used on the device, in bytes; 0: none. Answers in progress go on."""

    gpu_bytes: int


@dataclass(frozen=True, slots=True)
class SetRamBudget:
    """How much RAM may be taken, in bytes; None: what the machine has. Answered by RamBudgetTold."""

    ram_bytes: int | None


@dataclass(frozen=True, slots=True)
class SetPins:
    """What is to be on the device, or in RAM, whatever a plan would say; the latest set counts, and is kept.
    Experts follow with the next tokens; what finds no room is told by PlacementRolledBack."""

    pins: frozenset[Pin] = frozenset()


@dataclass(frozen=True, slots=True)
class AskResidency:
    """Asks for a ResidencyTold."""


@dataclass(frozen=True, slots=True)
class AskTimeline:
    """Asks for a TimelineTold; from then on the next steps are watched."""


@dataclass(frozen=True, slots=True)
class Shutdown:
    pass


Command = (
    LoadModel
    | CancelLoad
    | UnloadModel
    | Generate
    | Abort
    | SetBudget
    | SetRamBudget
    | SetPins
    | AskResidency
    | AskTimeline
    | Shutdown
)


# --- events ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ErrorInfo:
    """An EngineError as plain values; `kind` is its class name."""

    kind: str
    cause: str
    done: str = ""
    remedy: str = ""
    detail: str = ""  # traceback for the log, never shown unasked

    @classmethod
    def from_exception(cls, error: BaseException, detail: str = "") -> ErrorInfo:
        if isinstance(error, ReportedError):
            return cls(error.kind, error.cause, error.done, error.remedy, error.detail or detail)
        if isinstance(error, EngineError):
            return cls(type(error).__name__, error.cause, error.done, error.remedy, detail)
        return cls(
            type(error).__name__,
            f"Something unexpected went wrong: {error}" if str(error) else "Something unexpected went wrong.",
            remedy="Please save the log and report it.",
            detail=detail,
        )

    def to_exception(self) -> ReportedError:
        return ReportedError(self.kind, self.cause, done=self.done, remedy=self.remedy, detail=self.detail)


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """What runs now. `engine` is "native" or "compatibility" (llama.cpp in a child process)."""

    path: str
    name: str
    architecture: str
    engine: Literal["native", "compatibility"]
    quantization: str  # e.g. "Q4_K_M"
    parameters: int
    file_bytes: int
    context_length: int  # as loaded
    trained_context_length: int
    isa_tier: str  # empty for the compatibility engine
    threads: int
    warnings: tuple[str, ...] = ()
    has_reasoning_switch: bool = False  # the template lets reasoning be switched on and off
    device: str = ""  # what computes beside the processor, as shown to people; empty: nothing
    kv_type: Literal["f16", "q8_0"] = "f16"  # of keys and values


@dataclass(frozen=True, slots=True)
class ModelLoading:
    path: str
    fraction: float  # 0..1
    stage: str


@dataclass(frozen=True, slots=True)
class ModelLoaded:
    info: ModelInfo
    seconds: float


@dataclass(frozen=True, slots=True)
class ModelLoadFailed:
    """The model that ran before, if any, still runs (`still_loaded`)."""

    path: str
    error: ErrorInfo
    still_loaded: str | None = None


@dataclass(frozen=True, slots=True)
class ModelLoadCancelled:
    """The model that ran before, if any, still runs (`still_loaded`)."""

    path: str
    still_loaded: str | None = None


@dataclass(frozen=True, slots=True)
class ModelUnloaded:
    path: str


class FinishReason(enum.Enum):
    STOP = "stop"  # an end-of-turn token or a stop string
    LENGTH = "length"  # max_tokens reached
    CONTEXT_FULL = "context_full"
    ABORTED = "aborted"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class GenerationStarted:
    request_id: str
    prompt_tokens: int
    reused_tokens: int  # of them, already in the KV cache
    trimmed_messages: int = 0  # dropped by Overflow.TRIM_OLDEST
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PrefillProgress:
    request_id: str
    done_tokens: int
    total_tokens: int


class TokenEvent(NamedTuple):  # made between any two tokens: a frozen dataclass takes three times as long
    """Text of one or more new tokens: whole characters only; may be empty while a character is incomplete."""

    request_id: str
    text: str
    tokens: int = 1


@dataclass(frozen=True, slots=True)
class GenerationStats:
    """Measured times of one answer. Prefill counts new prompt tokens only; decode excludes the first token."""

    prompt_tokens: int
    reused_tokens: int
    generated_tokens: int
    time_to_first_token: float
    prefill_seconds: float
    decode_seconds: float
    depth: int  # KV positions in use at the end

    @property
    def prefill_speed(self) -> float:
        new = self.prompt_tokens - self.reused_tokens
        return new / self.prefill_seconds if self.prefill_seconds > 0 else 0.0

    @property
    def decode_speed(self) -> float:
        steps = self.generated_tokens - 1
        return steps / self.decode_seconds if steps > 0 and self.decode_seconds > 0 else 0.0


@dataclass(frozen=True, slots=True)
class GenerationFinished:
    """The end of an answer, whatever the reason; with ERROR, `error` is set and the text so far stays valid."""

    request_id: str
    reason: FinishReason
    stats: GenerationStats | None
    error: ErrorInfo | None = None


@dataclass(frozen=True, slots=True)
class MigrationProgress:
    """Weights on their way to the device, for a budget of `gpu_bytes`; `experts` of them are experts."""

    gpu_bytes: int
    done_bytes: int
    total_bytes: int
    experts: int = 0


@dataclass(frozen=True, slots=True)
class PlacementChanged:
    """The model now runs as `residency` says. `seconds`: from the command to here."""

    residency: ResidencySnapshot
    seconds: float


@dataclass(frozen=True, slots=True)
class PlacementRolledBack:
    """A budget could not be put into effect; `residency` is what is in effect instead."""

    gpu_bytes: int
    error: ErrorInfo
    residency: ResidencySnapshot


@dataclass(frozen=True, slots=True)
class RamBudgetTold:
    """The answer to SetRamBudget: what is in force now. `error`: why that is not what was wanted."""

    wanted: int | None
    ram: RamUse | None
    error: ErrorInfo | None = None


@dataclass(frozen=True, slots=True)
class ResidencyTold:
    """The answer to AskResidency; None where no model of our own engine is loaded, or none with a device."""

    residency: ResidencySnapshot | None
    ram: RamUse | None = None


@dataclass(frozen=True, slots=True)
class StepSpan:
    """Work of a step, in seconds on a clock of its own; `lane`: "CPU", "GPU" or "link"."""

    lane: str
    name: str
    begin: float
    end: float


@dataclass(frozen=True, slots=True)
class TimelineTold:
    """The answer to AskTimeline: what ran when in the last watched steps of one token and of a prompt. Empty where none
    was watched since the last change of placement, or where no device computes beside the processor."""

    decode: tuple[StepSpan, ...] = ()
    prefill: tuple[StepSpan, ...] = ()


@dataclass(frozen=True, slots=True)
class Notice:
    """Something the owner should see that is no error."""

    text: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class EngineStopped:
    """The engine thread has ended; `error` is set when it was not asked to."""

    error: ErrorInfo | None = None
    warnings: tuple[str, ...] = field(default=())


Event = (
    ModelLoading
    | ModelLoaded
    | ModelLoadFailed
    | ModelLoadCancelled
    | ModelUnloaded
    | GenerationStarted
    | PrefillProgress
    | TokenEvent
    | GenerationFinished
    | MigrationProgress
    | PlacementChanged
    | PlacementRolledBack
    | RamBudgetTold
    | ResidencyTold
    | TimelineTold
    | Notice
    | EngineStopped
)
