"""`tessera plan`: sizes, tables, JSON, and errors fit to be shown."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.errors import EngineError, FormatError, UnsupportedError
from engine.hub.names import RepoFile, fold
from engine.hub.repository import RepositoryCard, RepositorySummary
from engine.placement import report
from engine.placement.arguments import MODES, add_arguments, parse_size
from engine.placement.budget import Budget, GiB, MiB, gpu_overhead
from engine.placement.costs import Workload
from engine.placement.hardware.catalogue import machine
from engine.placement.plan import Mode
from engine.placement.shape import ModelShape
from engine.placement.shape_source import choose_model
from tests.support.shapes import dense_tensors, header, published_shape
from tests.support.tiny_models import TinyModel

DESKTOP = machine("Ryzen 7 5800X", "RTX 4090", ram_bytes=64 * GiB)


def _run(*arguments: str) -> int:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return report.run(parser.parse_args(arguments))


@pytest.mark.parametrize(
    ("text", "size"),
    [("6GiB", 6 * GiB), ("6", 6 * GiB), ("512 MiB", 512 * MiB), ("24GB", 24 * 10**9), ("1.5gib", 3 * GiB // 2)],
)
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "much", "-3GiB", "3 TiBs"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        parse_size(text)


def test_the_modes_offered_are_the_planners() -> None:
    assert [mode.value for mode in Mode] == list(MODES)


def test_the_command_is_wired(starter_model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from app.__main__ import main

    assert main(["plan", str(starter_model), "--cpu", "5800X", "--gpu", "none"]) == 0
    out = capsys.readouterr().out
    assert out.endswith("\n") and not out.endswith("\n\n")  # no room for a curve that a machine without a GPU has not
    assert "Tessera" in out
    assert "GPU  " not in out and "      GPU" not in out  # neither row nor column of nothing


def test_the_tables_of_a_mixture_of_experts() -> None:
    shape = published_shape("qwen3-30b-a3b-q4_k_m")
    text = report.as_text(report.plan_report(shape, DESKTOP, Workload(), Budget(6 * GiB), what_if=True))
    for part in ("Qwen3 30B", "simulated", "router and shared experts", "--n-cpu-moe", "fetch on miss", "One GiB more"):
        assert part in text
    assert max(len(line) for line in text.splitlines()) < 160


@pytest.mark.parametrize(
    ("source", "others_load", "what_if", "said"),
    [
        ("datasheet", 0.0, True, "(simulated, from datasheets)"),
        ("mixed", 0.0, True, "(simulated, partly from datasheets)"),
        ("measured", 0.0, True, "(simulated, measured rates)"),
        ("measured", 0.02, False, "(measured rates)"),
        ("measured", 0.85, False, "(measured rates; other programs took 85 % of the processor while it was measured)"),
    ],
)
def test_the_table_says_where_its_rates_come_from(source: Any, others_load: float, what_if: bool, said: str) -> None:
    machine = replace(DESKTOP, source=source, others_load=others_load)
    made = report.plan_report(published_shape("qwen3-14b-q4_k_m"), machine, Workload(), Budget(0), what_if=what_if)
    assert said in report.as_text(made)


def test_json_says_what_the_table_says() -> None:
    shape = published_shape("qwen3-14b-q4_k_m")
    made = report.plan_report(shape, DESKTOP, Workload(), Budget(6 * GiB), what_if=True)
    data = json.loads(json.dumps(report.as_json(made)))
    assert data["predicted"]["decode"] == pytest.approx(made.plan.predicted.decode, rel=0.05)
    assert data["predicted"]["prefill"] == pytest.approx(made.plan.predicted.prefill, rel=0.05)
    buffers = sum(placed.item.bytes for placed in made.plan.items if placed.item.key in made.plan.lent)
    assert data["memory"]["gpu"]["overhead"] == gpu_overhead(shape, Workload()) + buffers and buffers
    assert any(task.name.endswith(" prefetched") for task in made.simulation.prefill.tasks), "through this room"
    assert data["memory"]["gpu"]["total"] <= 6 * GiB
    assert sum(p["bytes"] for p in data["placement"]) == shape.weight_bytes
    assert data["simulated"] is True
    assert [r["strategy"] for r in data["rivals"]] == ["llama.cpp", "per-operator knapsack"]
    speeds = [point["decode"] for point in data["curve"]]
    assert speeds == sorted(speeds)


def test_a_name_from_a_file_cannot_steer_the_terminal() -> None:
    shape = ModelShape.from_header(header() | {"general.name": "a\x1b[2Jb\nc\u202e"}, dense_tensors(), "m.gguf")
    text = report.as_text(report.plan_report(shape, DESKTOP, Workload(), Budget(0)))
    assert text.startswith("a\ufffd[2Jb\ufffdc\ufffd: ") and "\x1b" not in text


def test_an_architecture_of_the_compatibility_engine_is_said_to_be_one() -> None:
    shape = replace(published_shape("qwen3-14b-q4_k_m"), architecture="starcoder9")
    made = report.plan_report(shape, DESKTOP, Workload(), Budget(6 * GiB), what_if=True)
    text, data = report.as_text(made), report.as_json(made)
    assert "“starcoder9” is not one that Tessera builds itself" in text
    assert "compatibility engine (simulated)" in text
    assert data["engine"] == "compatibility" and data["simulated"] is True
    assert data["items"]["gpu"] == 0 and data["rivals"] == []
    cpu_only = report.plan_report(published_shape("qwen3-14b-q4_k_m"), DESKTOP, Workload(), Budget(0), what_if=True)
    llama_cpp = next(r for r in cpu_only.rivals if r.setting == "-ngl 0")
    assert data["predicted"]["decode"] == pytest.approx(llama_cpp.speeds.decode)


def test_an_unknown_architecture_whose_header_says_too_little_is_named() -> None:
    with pytest.raises(UnsupportedError, match="“starcoder9” is not one that Tessera builds itself") as raised:
        ModelShape.from_header({"general.architecture": "starcoder9"}, [], "m.gguf")
    assert "compatibility engine" in raised.value.remedy
    with pytest.raises(FormatError, match="block_count"):
        ModelShape.from_header({"general.architecture": "llama"}, [], "m.gguf")


def test_a_file_on_the_command_line(starter_model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(str(starter_model), "--cpu", "5800x", "--gpu", "4090", "--budget", "2GiB", "--json") == 0
    data = json.loads(capsys.readouterr().out)
    assert data["machine"] == "RTX 4090 + Ryzen 7 5800X"
    assert data["items"] == {"gpu": 61, "cpu": 1}


def test_keys_and_values_in_8_bits(starter_model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    states = []
    for kv_type in ("f16", "q8_0"):
        arguments = (str(starter_model), "--cpu", "5800x", "--gpu", "none", "--kv-type", kv_type)
        assert _run(*arguments, "--json") == 0
        states.append(json.loads(capsys.readouterr().out)["memory"]["ram"]["state"])
    assert states[1] * 32 == states[0] * 17
    assert _run(*arguments) == 0
    assert "context 4096, kept in 8 bits" in capsys.readouterr().out


def test_heads_that_do_not_fit_8_bits_are_counted_in_16(
    tiny_models: Callable[[TinyModel], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    path = tiny_models(TinyModel("llama", head_dim=48))
    assert _run(str(path), "--context", "512", "--cpu", "5800x", "--gpu", "4090", "--kv-type", "q8_0") == 0
    out = capsys.readouterr().out
    assert "heads are not whole blocks of 32 numbers" in out and "in 8 bits" not in out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["/nowhere/model.gguf"], "There is no file"),
        (["MODEL", "--cpu", "Core i9-99999"], "Error: No CPU named “Core i9-99999” is in the catalogue. Did you mean"),
        (["MODEL", "--cpu", "5800X", "--gpu", "nonsense"], "catalogue. Write it as “"),
        (["MODEL", "--cpu", "5800X", "--gpu", "GTX 10"], "No GPU named"),
        (["MODEL", "--cpu", "5800X", "--ram", "2GiB"], "are missing"),
        (["MODEL", "--cpu", "5800X", "--context", "0"], "at least one token"),
        (["MODEL", "--cpu", "5800X", "--device", "emulated"], "--device for this one"),
        (["MODEL", "--cpu", "5800X", "--measure"], "Leave --measure out"),
        (["MODEL", "--cpu", "5800X", "--threads", "1"], "Leave --threads out"),
        (["MODEL", "--device", "emulated:1GiB", "--budget", "2GiB"], "Leave --budget out"),
        (["MODEL", "--device", "cpu:4GiB"], "no memory of its own"),
        (["MODEL", "--cpu", "5800X", "--ram", "0"], "0 GiB may be used"),
        (["MODEL", "--device", "emulated", "--ram", "0"], "0 GiB may be used"),
        (["MODEL", "--cpu", ""], "No CPU named"),
        (["MODEL", "--cpu", "5800X", "--gpu", ""], "No GPU named"),
        (["MODEL", "--cpu", "5800X", "--prompt", "4097"], "does not fit into a context of 4,096"),
        (["MODEL", "--device", "emulated", "--measure"], "Leave --measure out"),
        (["MODEL", "--device", "emulated:1GiB", "--threads", "1"], "Leave --threads out"),
        (["MODEL", "--cpu", "5800X", "--gpu", "none", "--budget", "2GiB"], "this plan has none"),
    ],
)
def test_errors_are_sentences(
    arguments: list[str], said: str, starter_model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    named = [str(starter_model) if a == "MODEL" else a for a in arguments]
    assert _run(*named) == 1
    assert said in capsys.readouterr().err


def _card(*names: str) -> RepositoryCard:
    summary = RepositorySummary("o/r", 0, 0, None, False, False, "", (), None, "", None)
    return RepositoryCard(summary, "main", fold([RepoFile(name, 100) for name in names]))


def test_the_quantisation_asked_for_or_the_usual_one() -> None:
    card = _card("m-Q2_K.gguf", "m-Q4_K_M.gguf", "m-Q8_0-00001-of-00002.gguf", "m-Q8_0-00002-of-00002.gguf")
    assert choose_model(card, "").quantization == "Q4_K_M"
    assert choose_model(card, "q8_0").shards == 2
    assert choose_model(_card("m-Q2_K.gguf"), "").quantization == "Q2_K"
    with pytest.raises(EngineError, match="Q2_K, Q4_K_M, Q8_0"):
        choose_model(card, "Q5_K_M")
    with pytest.raises(EngineError, match="no GGUF model"):
        choose_model(_card(), "")
