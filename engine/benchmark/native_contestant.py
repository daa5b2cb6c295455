"""Tessera's own engine as a contestant: the executor that answers are made with, without sampling."""

from __future__ import annotations

import time
from pathlib import Path

from engine.benchmark.contestant import Setup, benchmark_tokens
from engine.budget_control import BudgetControl
from engine.gguf import GGUFFile, QuantType
from engine.memory.heap import release_freed_memory
from engine.memory.sequence_state import SequenceState
from engine.models import build_graph, load_spec
from engine.placement.shape import ModelShape
from engine.runtime.devices.device import parse_device
from engine.runtime.devices.open import choose_device, open_device
from engine.runtime.executor import Chunk
from engine.runtime.loaded import assemble
from engine.text.tokenizer import Tokenizer


class NativeContestant:
    """`variant` is the ISA tier to run on; empty for the best."""

    def __init__(self, setup: Setup) -> None:
        self._tokenizer = Tokenizer.load(setup.path)  # not used here, but the peer holds its vocabulary as well
        gguf = GGUFFile.open(setup.path)
        spec = load_spec(gguf)
        choice = parse_device(setup.device)
        device = open_device(choose_device(choice.kind)[0], choice.budget, setup.threads)
        self._model = assemble(
            gguf,
            spec,
            build_graph(spec),
            context_length=setup.context_length,
            threads=setup.threads,
            tier=setup.variant or "auto",
            kv_type=QuantType[setup.kv_type.upper()],
            device=device,
        )
        shape = ModelShape.from_gguf(gguf)
        gguf.release_header()  # as after every load
        release_freed_memory()
        if self._model.hybrid is not None:
            control = BudgetControl.of(self._model, shape, lambda event: None)
            control.set_budget(self._model.hybrid.device.memory.limit)
            control.finish()
        if setup.trace:
            self._model.start_trace(Path(setup.trace))
        self._micro_batch = setup.micro_batch
        self._state = SequenceState(self._model.pool)
        self._tokens = benchmark_tokens(setup.context_length, spec.vocabulary_size)

    def prefill(self, tokens: int) -> float:
        self._state.truncate(0)
        return self._evaluate(tokens)

    def fill(self, depth: int) -> None:
        self._state.truncate(self._state.reusable(min(depth, self._state.length)))
        if depth > self._state.length:
            self._evaluate(depth - self._state.length)

    def decode(self, tokens: int) -> float:
        return sum(self._evaluate(1) for _ in range(tokens))

    def close(self) -> None:
        self._model.close()

    def _evaluate(self, count: int) -> float:
        begin = time.perf_counter()
        start = self._state.length
        for first in range(start, start + count, self._micro_batch):
            chunk = self._tokens[first : min(first + self._micro_batch, start + count)]
            self._state.reserve(len(chunk))
            self._model.executor.run([Chunk(self._state, chunk, len(chunk) - 1)])
            self._state.commit(chunk)
        return time.perf_counter() - begin
