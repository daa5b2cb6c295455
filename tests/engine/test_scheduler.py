"""Who computes in the next step, and who gives way: on a pool of a few blocks, without a model."""

from __future__ import annotations

from engine.memory import KVPool, PrefixCache, SequenceState
from engine.models.graph import KVLayer
from engine.scheduler import Schedule, Scheduler
from engine.sequence import Sequence
from engine.text.detokenizer import Detokenizer
from engine.text.stopping import StopMatcher


class NoPieces:
    def piece(self, token: int, /) -> bytes:
        return b""


class Bench:
    """A pool of blocks of 4 tokens, and sequences that always say 7."""

    def __init__(self, blocks: int) -> None:
        self.pool = KVPool((KVLayer(1, 4, 4),), blocks, block_tokens=4)
        self.cache = PrefixCache(self.pool)
        self.scheduler = Scheduler(self.cache)

    def add(self, name: str, prompt: int, first: int = 0) -> Sequence:
        tokens = list(range(first, first + prompt))
        sequence = Sequence(
            name, tokens, None, self.cache.take(tokens), lambda logits: 7, Detokenizer(NoPieces()), StopMatcher(()), 0.0
        )
        self.scheduler.add(sequence)
        return sequence

    def step(self, micro_batch: int = 100) -> dict[str, int]:
        """One step as if it had run; tokens computed for each sequence."""
        schedule = self.scheduler.schedule(micro_batch)
        for sequence, chunk in schedule.work:
            sequence.state.commit(chunk.tokens)
            if chunk.outputs:
                sequence.append(7)
        self.check()
        return work(schedule)

    def check(self) -> None:
        states = [s.state for s in self.scheduler.sequences] + list(self.cache)
        self.pool.check_integrity([state.held_blocks for state in states])


def work(schedule: Schedule) -> dict[str, int]:
    return {sequence.request_id: len(chunk.tokens) for sequence, chunk in schedule.work}


def test_prompt_is_read_in_micro_batches_then_decodes() -> None:
    bench = Bench(blocks=16)
    bench.add("a", 25)
    assert [bench.step(10) for _ in range(5)] == [{"a": 10}, {"a": 10}, {"a": 5}, {"a": 1}, {"a": 1}]


def test_prompts_share_a_micro_batch_in_order_of_arrival() -> None:
    bench = Bench(blocks=16)
    bench.add("a", 7)
    bench.add("b", 20, first=100)
    assert bench.step(10) == {"a": 7, "b": 3}
    assert bench.step(10) == {"a": 1, "b": 10}


def test_answers_go_on_while_a_prompt_is_read() -> None:
    bench = Bench(blocks=200)
    bench.add("a", 3)
    bench.step()
    bench.add("b", 400, first=100)
    assert bench.step(512) == {"a": 1, "b": 128}


def test_logits_are_wanted_only_at_the_end_of_a_prompt() -> None:
    bench = Bench(blocks=16)
    sequence = bench.add("a", 12)
    (_, first), *_ = bench.scheduler.schedule(8).work
    assert first.outputs == 0
    sequence.state.commit(first.tokens)
    (_, last), *_ = bench.scheduler.schedule(8).work
    assert (len(last.tokens), last.outputs) == (4, 1)


def test_kept_states_give_way_first() -> None:
    bench = Bench(blocks=4)
    kept = SequenceState(bench.pool)
    kept.reserve(8)
    kept.commit(range(50, 58))
    bench.cache.keep(kept)
    bench.add("a", 16)
    assert bench.step() == {"a": 16} and not list(bench.cache)


def test_the_youngest_gives_way_and_comes_back() -> None:
    bench = Bench(blocks=4)
    old = bench.add("old", 8)
    young = bench.add("young", 7, first=100)
    assert bench.step() == {"old": 8, "young": 7}
    while len(old.tokens) < 16:
        assert bench.step() == {"old": 1}
    assert young.state.length == 0, "it was put back in line"
    bench.scheduler.remove(old)
    bench.cache.keep(old.state)
    assert bench.step() == {"young": 8}


def test_alone_and_without_room_is_starved() -> None:
    bench = Bench(blocks=2)
    sequence = bench.add("a", 9)
    schedule = bench.scheduler.schedule(100)
    assert not schedule.work and schedule.starved[0][0] is sequence
    assert "Choose a longer context" in schedule.starved[0][1].remedy


def test_a_removed_sequence_is_never_scheduled() -> None:
    bench = Bench(blocks=8)
    sequence = bench.add("a", 9)
    bench.step(4)
    bench.scheduler.remove(sequence)
    sequence.state.release()
    assert bench.step() == {}
