"""The benchmark runs both systems on the starter model and reports what the table and scripts read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from app.__main__ import main
from engine.benchmark.traffic import decode_bytes
from engine.gguf import GGUFFile
from engine.models import build_graph, load_spec
from engine.placement.hardware.catalogue import machine


@pytest.fixture(autouse=True)
def known_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine from the catalogue instead of one measured and kept in the owner's folder."""
    monkeypatch.setattr("engine.benchmark.prediction.data_folder", lambda: tmp_path)
    monkeypatch.setattr("engine.benchmark.prediction.this_machine", lambda *_: machine("Ryzen 7 5800X"))


def test_bench_measures_both_and_reports_ratios(starter_model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    short = ["--rounds", "1", "--threads", "1", "--prefill", "8", "--decode", "2", "--depth", "0,16"]
    assert main(["bench", str(starter_model), "--against", "llama.cpp", "--json", *short]) == 0
    report = json.loads(capsys.readouterr().out)
    systems = {row["system"].split(",")[0] for row in report["rows"]}
    assert systems <= {"tessera", "llama.cpp"}
    assert set(report["ratios"]) >= {"prefill", "decode", "prefill 8", "decode 2 at 0", "decode 2 at 16"}
    for row in report["rows"]:
        assert (row["prefill"] is None) != (row["decode"] is None)
        assert (row["prefill"] or row["decode"]) > 0
        assert ("predicted" in row) == row["system"].startswith("tessera")
        assert all(speed > 0 for speed in row.get("predicted", {}).values())


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
