"""A model in our engine without text: token ids in, logits out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from engine.gguf import GGUFFile, QuantType
from engine.memory import SequenceState
from engine.models import build_graph, load_spec
from engine.models.graph import Router
from engine.runtime.executor import Chunk, make_batch
from engine.runtime.loaded import assemble
from tests.support.program_reference import router_scores

Logits = npt.NDArray[np.float32]


class NativeModel:
    """The model in `path`, with room for `context` tokens."""

    def __init__(
        self,
        path: Path | str,
        *,
        context: int = 512,
        threads: int = 1,
        tier: str = "auto",
        kv_type: QuantType = QuantType.F16,
        wanted: int | None = None,
    ) -> None:
        """`wanted`: the context that the owner chose."""
        self.gguf = gguf = GGUFFile.open(path)
        spec = load_spec(gguf, wanted)
        self.model = assemble(
            gguf, spec, build_graph(spec), context_length=context, threads=threads, tier=tier, kv_type=kv_type
        )

    def new_state(self) -> SequenceState:
        return SequenceState(self.model.pool)

    def logits(self, tokens: Sequence[int], batch: int = 512) -> Logits:
        """Logits [tokens, vocabulary] after each token of one sequence, read `batch` tokens at a time."""
        state = self.new_state()
        parts = [self.extend(state, tokens[i : i + batch]) for i in range(0, len(tokens), batch)]
        state.release()
        return np.concatenate(parts)

    def extend(self, state: SequenceState, tokens: Sequence[int]) -> Logits:
        """Reads `tokens` into `state` in one step; the logits after each."""
        return self.extend_together([(state, tokens)])[0]

    def extend_together(self, parts: Sequence[tuple[SequenceState, Sequence[int]]]) -> list[Logits]:
        """One step for several sequences; the logits of each."""
        for state, tokens in parts:
            state.reserve(len(tokens))
        logits = self.model.executor.run([Chunk(state, tokens, 0) for state, tokens in parts]).copy()
        for state, tokens in parts:
            state.commit(tokens)
        ends = np.cumsum([len(tokens) for _, tokens in parts])
        return np.split(logits, ends[:-1])

    def greedy(self, prompt: Sequence[int], count: int) -> list[int]:
        state = self.new_state()
        tokens = [int(self.extend(state, prompt)[-1].argmax())]
        while len(tokens) < count:
            tokens.append(int(self.extend(state, tokens[-1:])[-1].argmax()))
        state.release()
        return tokens

    def logits_with_experts(
        self, tokens: Sequence[int], ranked: dict[int, npt.NDArray[np.int32]], batch: int = 512
    ) -> tuple[Logits, list[float]]:
        """As `logits`, but with the experts that another engine prefers.

        `ranked` is [tokens, experts] per layer, best first. Where the choice differs, the other engine's is forced;
        the list holds, for each such token and layer, by how much our router's first choice was ahead.
        """
        state, parts, leads = self.new_state(), list[Logits](), list[float]()
        for begin in range(0, len(tokens), batch):
            part = tokens[begin : begin + batch]
            theirs = {layer: ranks[begin : begin + len(part)] for layer, ranks in ranked.items()}
            parts.append(self._step_with_experts(state, part, theirs, leads))
        state.release()
        return np.concatenate(parts), leads

    def _step_with_experts(
        self,
        state: SequenceState,
        tokens: Sequence[int],
        ranked: dict[int, npt.NDArray[np.int32]],
        leads: list[float],
    ) -> Logits:
        program, pool = self.model.program.program, self.model.executor.pool
        values = self.model.program.values
        state.reserve(len(tokens))
        batch, begin = make_batch([Chunk(state, tokens, 0)]), 0
        for index, op in enumerate(self.model.graph.ops):
            if isinstance(op, Router):
                program.run(pool, batch, begin, index + 1)
                begin = index + 1
                scores = program.read(values[op.logits]).copy()
                layer = int(op.item.split(".")[1])
                ids = np.ascontiguousarray(ranked[layer][:, : op.top_k])
                bias = np.frombuffer(self.gguf.buffer(op.bias), "<f4") if op.bias else None
                gates, ranks = router_scores(scores, op.gating, bias, (op.groups, op.groups_used))
                plain = op.gating == "softmax" and not op.bias and op.groups == 1
                leads += _leads(scores if plain else ranks, program.read(values[op.ids]), ids)
                program.write(values[op.ids], ids)
                program.write(values[op.weights], _mix(gates, ids, op))
        program.run(pool, batch, begin, -1)
        state.commit(tokens)
        return program.read(self.model.program.logits).copy()


def _leads(scores: npt.NDArray[np.floating], ours: npt.NDArray[np.int32], theirs: npt.NDArray[np.int32]) -> list[float]:
    """Where two choices of experts differ: the best score that only we took, less the worst that only they took."""
    leads = []
    for row, our_ids, their_ids in zip(scores, ours, theirs, strict=True):
        only_ours, only_theirs = set(our_ids) - set(their_ids), set(their_ids) - set(our_ids)
        if only_ours:
            leads.append(float(max(row[list(only_ours)]) - min(row[list(only_theirs)])))
    return leads


def _mix(gates: npt.NDArray[np.float64], ids: npt.NDArray[np.int32], op: Router) -> npt.NDArray[np.float32]:
    """The router's weights for given experts: their gates, renormalised over these if the model does so."""
    chosen = np.take_along_axis(gates, ids, axis=1)
    if op.normalise:
        chosen /= chosen.sum(axis=1, keepdims=True)
    return np.ascontiguousarray(chosen * op.scale, np.float32)
