"""What tests ask an engine, and the events that they wait for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from engine.client import EngineClient
from engine.messages import (
    AskResidency,
    Event,
    GenerationRequest,
    ResidencyTold,
    SamplingParams,
    TokenEvent,
)
from engine.telemetry.residency import RamUse, ResidencySnapshot

_Kind = TypeVar("_Kind", bound=Event)
_SECONDS = 60.0


def until(client: EngineClient, kind: type[Event], count: int = 1) -> list[Event]:
    """All events up to the `count`th of this kind."""
    events: list[Event] = []
    while count:
        events.append(client.next_event(timeout=_SECONDS))
        count -= isinstance(events[-1], kind)
    return events


def the_next(client: EngineClient, kind: type[_Kind]) -> _Kind:
    """The next event of this kind; what comes before it is passed over."""
    while not isinstance(event := client.next_event(timeout=_SECONDS), kind):
        pass
    return event


def residency_of(client: EngineClient) -> ResidencySnapshot:
    """Of a model on two devices."""
    client.send(AskResidency())
    residency = the_next(client, ResidencyTold).residency
    assert residency is not None
    return residency


def ram_of(client: EngineClient) -> RamUse:
    client.send(AskResidency())
    ram = the_next(client, ResidencyTold).ram
    assert ram is not None
    return ram


def greedy(name: str, tokens: int = 40, words: str = "One two three four") -> GenerationRequest:
    """Asks for the most likely `tokens` tokens behind `words`."""
    return GenerationRequest(name, (), SamplingParams(temperature=0.0), max_tokens=tokens, raw_prompt=words)


def text_of(events: Sequence[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, TokenEvent))
