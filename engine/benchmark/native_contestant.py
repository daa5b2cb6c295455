"""Tessera's own engine as a contestant: the executor that answers are made with, without sampling."""

from __future__ import annotations

import time

from engine.benchmark.contestant import Setup, benchmark_tokens
from engine.gguf import GGUFFile
from engine.memory.kv_pool import BLOCK_TOKENS, KVPool
from engine.memory.sequence_state import SequenceState
from engine.memory.weight_store import WeightStore
from engine.models import build_graph, load_spec
from engine.runtime.executor import Chunk, Executor
from engine.runtime.lowering import capture
from kernels import _cpu


class NativeContestant:
    """`variant` is the ISA tier to run on; empty for the best."""

    def __init__(self, setup: Setup) -> None:
        gguf = GGUFFile.open(setup.path)
        spec = load_spec(gguf)
        graph = build_graph(spec)
        blocks = setup.context_length // BLOCK_TOKENS + 1
        pool = KVPool(graph.kv_layers, blocks)
        program = capture(graph, kv_type=pool.quant_type, block_tokens=BLOCK_TOKENS, tier=setup.variant or "auto")
        self._weights = WeightStore(gguf)
        self._weights.bind(program.program, program.weights)
        for index, handle in enumerate(program.kv_layers):
            program.program.bind_kv(handle, *pool.layer(index))
        self._executor = Executor(program, _cpu.ThreadPool(setup.threads))
        self._micro_batch = setup.micro_batch
        self._state = SequenceState(pool)
        self._tokens = benchmark_tokens(setup.context_length, spec.vocabulary_size)

    def prefill(self, tokens: int) -> float:
        self._state.truncate(0)
        return self._evaluate(tokens)

    def fill(self, depth: int) -> None:
        self._state.truncate(0)
        if depth:
            self._evaluate(depth)

    def decode(self, tokens: int) -> float:
        return sum(self._evaluate(1) for _ in range(tokens))

    def _evaluate(self, count: int) -> float:
        begin = time.perf_counter()
        start = self._state.length
        for first in range(start, start + count, self._micro_batch):
            chunk = self._tokens[first : min(first + self._micro_batch, start + count)]
            self._state.reserve(len(chunk))
            self._executor.run([Chunk(self._state, chunk, len(chunk) - 1)])
            self._state.commit(chunk)
        return time.perf_counter() - begin
