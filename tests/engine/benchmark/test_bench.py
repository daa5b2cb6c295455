"""The benchmark runs both systems on the starter model and reports what the table and scripts read."""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from app.__main__ import main
from engine.benchmark.bench import _check_lengths
from engine.benchmark.contestant import Setup
from engine.benchmark.llama_bench import LlamaBench
from engine.benchmark.report import LOAD, MEMORY, PAUSE, Results, markdown, render
from engine.benchmark.rounds import Comparison, Measure, Turn
from engine.benchmark.traffic import Work, decode_bytes, prefill_products
from engine.benchmark.worker import Worker
from engine.errors import BackendCrashedError, EngineError
from engine.gguf import GGUFFile
from engine.models import build_graph, load_spec
from engine.placement.hardware.catalogue import machine
from tests.support.tiny_models import TinyModel


@pytest.fixture(autouse=True)
def known_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine from the catalogue instead of one measured and kept in the owner's folder; no turn is unsteady."""
    monkeypatch.setattr("engine.benchmark.rounds.PROBE_TOLERANCE", 1.0)
    few = (("repacked", 512), ("not repacked, no flash attention", 64))
    monkeypatch.setattr("engine.benchmark.bench._PEER_VARIANTS", few)
    monkeypatch.setattr("engine.benchmark.prediction.data_folder", lambda: tmp_path)
    monkeypatch.setattr("engine.benchmark.prediction.this_machine", lambda *_, **__: machine("Ryzen 7 5800X"))


def test_bench_measures_both_and_reports_ratios(starter_model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    short = ["--rounds", "1", "--threads", "1", "--prefill", "8", "--decode", "2", "--depth", "0,16", "--starts"]
    assert main(["bench", str(starter_model), "--against", "llama.cpp", "--json", *short]) == 0
    report = json.loads(capsys.readouterr().out)
    speeds = [row for row in report["rows"] if "tokens" in row]
    assert {row["system"].split(",")[0] for row in speeds} == {"tessera", "llama.cpp"}
    assert set(report["ratios"]) >= {"prefill", "decode", "prefill 8", "decode 2 at 0", "decode 2 at 16"}
    for row in speeds:
        assert (row["prefill"] is None) != (row["decode"] is None)
        assert (row["prefill"] or row["decode"]) > 0
        assert ("predicted" in row) == row["system"].startswith("tessera")
        assert all(speed > 0 for speed in row.get("predicted", {}).values())
        assert (row["prefill"] is None) or row["int8_peak_share"] > 0
    expect_starts(report, starter_model.stat().st_size)


def test_ratios_of_rounds_that_do_not_count_are_null() -> None:
    prefill, decode = Measure("prefill", 8), Measure("decode", 2)
    apart = (Turn("tessera", prefill, 0, 10.0, 1e9), Turn("llama.cpp, repacked", prefill, 1, 5.0, 1e9))
    alone = (Turn("llama.cpp, repacked", decode, 0, 5.0, 1e9),)
    results = Results(
        model="m",
        threads=1,
        tier="avx2",
        device="cpu",
        kv_type="f16",
        peer="llama.cpp",
        work=Work(1.0, 1.0, 1.0),
        peak=1.0,
        prediction=None,
        comparisons=[Comparison(prefill, apart, 3), Comparison(decode, alone, 3)],
        starts=[],
        held=[],
        others=[("llama-bench 1", decode, 4.0)],
    )
    report = json.loads(json.dumps(results.report(), allow_nan=False))
    assert report["ratios"]["prefill"] is None and report["ratios"]["decode"] is None
    assert "6 turns thrown away" in render(report)


@pytest.mark.skipif(sys.platform == "win32", reason="an interrupt for one process")
def test_an_interrupt_ends_a_measured_system_without_a_word(starter_model: Path, capfd: Any) -> None:
    worker = Worker("tessera", Setup(str(starter_model), 1, 256, ""))
    stopped_child().send_signal(signal.SIGINT)
    with pytest.raises(BackendCrashedError, match="ended by itself"):
        worker.prefill(8)
    worker.close()
    assert capfd.readouterr().err == ""


def stopped_child() -> psutil.Process:
    """Between measures a system stands still, a moment after it was told to."""
    until = time.monotonic() + 60
    while not (found := [one for one in psutil.Process().children() if one.status() == psutil.STATUS_STOPPED]):
        assert time.monotonic() < until
        time.sleep(0.01)
    (child,) = found
    return child


def expect_starts(report: dict[str, Any], file_bytes: int) -> None:
    starts = {row["system"]: row for row in report["rows"] if "first_token_seconds" in row}
    held = {row["system"]: row["resident_bytes"] for row in report["rows"] if "resident_bytes" in row}
    loads = {"llama.cpp, repacked", "llama.cpp, not repacked"}
    assert set(starts) == {"tessera"} | loads
    assert set(held) == {"tessera", "llama.cpp, repacked", "llama.cpp, not repacked, no flash attention"}
    assert all(row["first_token_seconds"] > 0 and 0 < row["pause_share"] < 1 for row in starts.values())
    assert 0 < held["tessera"] < file_bytes  # the weights are mapped
    assert {LOAD, MEMORY, PAUSE} <= set(report["ratios"])
    # Titles and their line; prefill, twice decode, load with pause, memory.
    assert markdown([report]).count("\n") == 6
    assert LOAD in render(report)


FAKE_LLAMA_BENCH = """#!/usr/bin/env python3
import json, sys
if "{broken}":
    sys.exit(print("{broken}") or int("{status}"))
options = dict(zip(sys.argv[1::2], sys.argv[2::2]))
assert options["-o"] == "json" and options["-t"] == "1" and options["-m"].endswith(".gguf"), options
assert (options.get("-ctk"), options.get("-ctv"), options.get("-fa")) in ((None,) * 3, ("q8_0", "q8_0", "1")), options
print(json.dumps([{{
    "build_commit": "8cf427ff", "build_number": 5163, "cpu_info": "a CPU", "gpu_info": "", "backends": "CPU",
    "model_filename": options["-m"], "model_type": "llama ?B Q4_1", "model_size": 4677120000, "n_batch": 2048,
    "n_ubatch": 512, "n_threads": 1, "use_mmap": True, "n_prompt": int(options["-p"]), "n_gen": int(options["-n"]),
    "n_depth": int(options["-d"]), "test_time": "2025-04-24T11:58:50Z", "avg_ns": 72135640, "stddev_ns": 1453752,
    "avg_ts": 7100.002165, "stddev_ts": 140.34152, "samples_ns": [7, 8, 9], "samples_ts": [30.0, 10.0, 20.0],
}}]))
"""


@pytest.fixture
def llama_bench(tmp_path: Path) -> Callable[..., Path]:
    """A program that prints what llama-bench prints (tools/llama-bench/README.md of llama.cpp)."""

    def make(broken: str = "", status: int = 0) -> Path:
        program = tmp_path / "llama-bench"
        program.write_text(FAKE_LLAMA_BENCH.format(broken=broken, status=status))
        program.chmod(0o755)
        return program

    return make


def test_rows_of_a_llama_bench_binary_and_all_in_8_bits(
    starter_model: Path, llama_bench: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    short = ["--rounds", "1", "--threads", "1", "--prefill", "8", "--decode", "2", "--depth", "16"]
    systems = ["--against", "llama.cpp", "--llama-bench", str(llama_bench()), "--kv-type", "q8_0"]
    assert main(["bench", str(starter_model), *systems, "--json", *short]) == 0
    report = json.loads(capsys.readouterr().out)
    assert "keys and values in 8 bits" in render(report)
    peer = {row["system"] for row in report["rows"] if row["system"].startswith("llama.cpp")}
    assert peer == {"llama.cpp, repacked"}  # without flash attention it keeps none so
    rows = [row for row in report["rows"] if row["system"] == "llama-bench 8cf427ff"]
    assert [(row["prefill"], row["decode"], row["depth"]) for row in rows] == [(20.0, None, 0), (None, 20.0, 16)]
    ours = report["rows"][0]["prefill"]
    assert report["ratios"]["prefill 8 : llama-bench 8cf427ff"] == pytest.approx(ours / 20.0)


def test_heads_that_do_not_fit_8_bits_are_a_message(
    tiny_models: Callable[[TinyModel], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    odd = str(tiny_models(TinyModel("llama", head_dim=48)))
    assert main(["bench", odd, "--prefill", "8", "--decode", "2", "--kv-type", "q8_0"]) == 1
    assert "do not fit 8 bits" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("broken", "status", "reason"),
    [("no such model", 1, "exit code 1"), ("not json", 0, "not llama-bench's JSON"), ("[{}]", 0, "samples_ts")],
)
def test_a_llama_bench_that_fails_is_a_message(
    llama_bench: Callable[..., Path], broken: str, status: int, reason: str
) -> None:
    with pytest.raises(EngineError, match=reason):
        LlamaBench(llama_bench(broken, status), 1, 1).speeds("model.gguf", [Measure("prefill", 8)])


def test_a_llama_bench_that_is_not_there_is_a_message(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="could not be measured"):
        LlamaBench(tmp_path / "nothing", 1, 1)


def test_a_llama_bench_beside_us_needs_no_dot_and_slash(
    llama_bench: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(llama_bench().parent)
    found = LlamaBench(Path("llama-bench"), 1, 1).speeds("model.gguf", [Measure("prefill", 8)])
    assert [speed for _, _, speed in found] == [20.0]


def test_a_file_that_is_no_model_is_a_message(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "letter.gguf"
    file.write_text("Dear reader")
    assert main(["bench", str(file)]) == 1
    assert "letter.gguf" in capsys.readouterr().err


def test_decode_traffic_of_the_starter_model(starter_model: Path) -> None:
    with GGUFFile.open(starter_model) as gguf:
        graph = build_graph(load_spec(gguf))
        weights = sum(tensor.n_bytes for tensor in gguf.tensors.values())
    assert decode_bytes(graph, 0, 0, 2.0) == weights  # tied: every tensor is read in full
    per_position = 30 * 3 * (64 + 64) * 2  # layers × heads × (key + value) × F16
    assert decode_bytes(graph, 0, 10, 2.0) - weights == 10 * per_position


def test_products_of_the_starter_model(starter_model: Path) -> None:
    with GGUFFile.open(starter_model) as gguf:
        graph = build_graph(load_spec(gguf))
    attention, feed_forward = 576 * (576 + 192 + 192 + 576), 3 * 576 * 1536
    whole = 30 * (attention + feed_forward)
    assert whole - 576 * 576 - feed_forward <= prefill_products(graph, 0) <= whole  # the last layer ends with one row


@pytest.mark.parametrize(
    ("lengths", "said"),
    [
        (["--depth", "0,9999999"], "“decode 64 at 9999999” needs a context of 10,000,063 tokens"),
        (["--prefill", "9999999"], "“prefill 9999999” needs a context of 9,999,999 tokens"),
    ],
)
def test_lengths_beyond_the_trained_context_are_refused(
    starter_model: Path, lengths: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", str(starter_model), *lengths]) == 1
    assert said in capsys.readouterr().err


def test_a_measure_may_fill_the_trained_context() -> None:
    _check_lengths([Measure("decode", 64, 8128)], 8192)
    with pytest.raises(EngineError, match=r"trained for 8,192\."):
        _check_lengths([Measure("prefill", 512), Measure("decode", 64, 8129)], 8192)
