"""Predicted against measured, on this machine's CPU: `python -m tests.bench.accuracy MODEL [--threads 1,2]`.

Per round the bandwidth is probed before and after; rounds whose probes differ by more than 15 % are thrown away.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path

from engine.gguf import GGUFFile
from engine.memory.sequence_state import SequenceState
from engine.models import build_graph, load_spec
from engine.placement.hardware import probe
from engine.placement.hardware.profile import HardwareProfile
from engine.placement.predict import predict
from engine.placement.shape import ModelShape
from engine.runtime.executor import Chunk
from engine.runtime.loaded import LoadedModel, assemble

_DECODED = 24
_CHUNK = 512
_STEADY = 0.15


def measure(model: LoadedModel, depth: int) -> tuple[float, float]:
    """Prefill and decode, tokens per second, for a prompt of `depth` tokens."""
    state = SequenceState(model.pool)
    prompt = [1 + i % 97 for i in range(depth)]
    prefill = 0.0
    for begin in range(0, depth, _CHUNK):
        prefill += _step(model, state, prompt[begin : begin + _CHUNK])
    decode = [_step(model, state, [5]) for _ in range(_DECODED)]
    state.release()
    return depth / prefill, 1 / statistics.median(decode)


def _step(model: LoadedModel, state: SequenceState, tokens: list[int]) -> float:
    state.reserve(len(tokens))
    begin = time.perf_counter()
    model.executor.run([Chunk(state, tokens, len(tokens) - 1)])
    seconds = time.perf_counter() - begin
    state.commit(tokens)
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("model", type=Path)
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--depths", default="128,2048")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    gguf = GGUFFile.open(options.model)
    shape, spec = ModelShape.from_gguf(gguf), load_spec(gguf)
    graph = build_graph(spec)
    depths = [int(d) for d in options.depths.split(",")]
    print("threads depth   GB/s   decode predicted measured        prefill predicted measured")
    for threads in map(int, options.threads.split(",")):
        machine = HardwareProfile(probe.measure_cpu("this machine", 1 << 40, threads), source="measured")
        model = assemble(gguf, spec, graph, context_length=max(depths) + 64, threads=threads)
        measure(model, 32)
        for _ in range(options.rounds):
            for depth in depths:
                before = probe.read_bandwidth(threads)
                prefill, decode = measure(model, depth)
                after = probe.read_bandwidth(threads)
                steady = "" if abs(after / before - 1) <= _STEADY else "  unsteady: does not count"
                guess = predict(
                    shape,
                    machine,
                    prompt=depth,
                    depth=depth + _DECODED // 2,
                    chunk=_CHUNK,
                    bandwidth=(before + after) / 2,
                )
                print(
                    f"{threads:7} {depth:5} {before / 1e9:6.1f}   {guess.decode:16.1f} {decode:8.1f} "
                    f"{guess.decode / decode - 1:+5.0%}   {guess.prefill:17.0f} {prefill:8.0f} "
                    f"{guess.prefill / prefill - 1:+5.0%}{steady}"
                )


if __name__ == "__main__":
    main()
