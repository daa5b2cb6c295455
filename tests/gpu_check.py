"""What only a computer with an NVIDIA GPU can tell: `make gpu-check`.

    python -m tests.gpu_check [MODEL …] [--rounds 3] [--prompt 512] [--decode 64] [--threads N] [--quick] [--minutes N]
    python -m tests.gpu_check --prepare CAPABILITY

Compiles all kernels, runs their tests on the card, compares a hybrid model's logits with the CPU's, probes computer and
card (kept as the memory page keeps it), then measures, beside what that predicts, prefill, decode, TTFT and start with
25, 50, 75 and 100 % of each model on the card; llama.cpp beside it where its build has CUDA, with the same share of
layers. Writes build/gpu-check.md and .json, anew after each part and budget: a part that breaks off is named there, and
the next goes on. Without a card it says so, and exits with 1. `--prepare 89` compiles ahead what a card of sm_89 needs.
`--minutes N` ends it in about that time: what was not measured by then is named in the table.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from engine.benchmark.contestant import Setup
from engine.benchmark.worker import Worker
from engine.budget_control import BudgetControl
from engine.errors import EngineError
from engine.gguf import GGUFFile
from engine.hub.folders import cache_folder, data_folder
from engine.hub.starter import ensure_starter_model
from engine.models import build_graph, load_spec
from engine.placement.budget import Budget
from engine.placement.hardware.profile import HardwareProfile
from engine.placement.hardware.store import hardware_folder, this_machine
from engine.placement.plan import Speeds
from engine.placement.planner import Planner
from engine.placement.shape import ModelShape
from engine.placement.simulator import choice_of
from engine.placement.step_times import StepTimes
from engine.runtime.devices.cuda.find import FoundCard, find_card
from engine.runtime.devices.open import open_device
from engine.runtime.loaded import assemble
from engine.runtime.placement import Placement
from engine.runtime.threads import default_threads
from kernels.cuda import nvrtc, source
from tests.support.gpu_report import Report, Row
from tests.support.hybrid_model import HybridModel, banks_of, items_of
from tests.support.logit_bounds import bounds
from tests.support.native_model import NativeModel
from tests.support.tiny_models import TinyModel, tiny_model_factory

SHARES = (25, 50, 75, 100)
FOLDER = Path("build")
# Those that compare a kernel with its reference; what else is tested there needs no card.
KERNEL_FILES = ("attention", "experts", "flags", "matrices", "recurrent", "rows")
KERNEL_TESTS = ("-m", "pytest", "-q", "--device", *(f"tests/kernels/cuda/test_{file}.py" for file in KERNEL_FILES))
KERNEL_SHARE = 0.5  # of the time, at most
TINY = (
    TinyModel("llama", "Q4_K", layers=3),
    TinyModel("qwen3moe", "Q8_0", layers=3),
)
_SMALLEST_CONTEXT = 256

MakeWorker = Callable[[str, Setup, Any], Any]


@dataclass(frozen=True, slots=True)
class Need:
    """Bytes on the card: of a whole model with its cache, and of everything beside it; and how it is placed."""

    model: int
    overhead: int
    planner: Planner

    def budget(self, share: int) -> int:
        return self.overhead + self.model * share // 100

    def predicted(self, budget: int, prompt: int, decode: int) -> Speeds:
        """By the planner, with the rates that were measured on this card."""
        planner = self.planner
        work = replace(planner.work, prompt=prompt, depth=prompt + decode // 2)
        times = StepTimes(planner.shape, planner.hardware, work)
        return times.speeds(choice_of(planner.plan(Budget(budget))))


def need_of(path: str, context: int, threads: int) -> Need:
    """Found by opening the model, with nothing on the card yet."""
    gguf = GGUFFile.open(path)
    spec = load_spec(gguf)
    device = open_device("cuda", 0, threads)
    model = assemble(gguf, spec, build_graph(spec), context_length=context, threads=threads, device=device)
    planner = BudgetControl.of(model, ModelShape.from_gguf(gguf), lambda event: None).planner
    whole = sum(planner.sizes) + planner.times.model.expert_bytes
    model.close()
    return Need(whole, planner.overhead, planner)


def check_numbers(folder: Path) -> list[str]:
    """Tiny models with parts on either side, prompt and captured steps: what is wrong with their logits."""
    wrong = []
    write = tiny_model_factory(folder, ensure_starter_model)
    tokens = np.random.default_rng(0).integers(0, 512, 48).tolist()
    for shape in TINY:
        path = write(shape)
        reference = NativeModel(path).logits(tokens)
        device = open_device("cuda", None, 1)
        model = HybridModel(path, device=device)
        items = [item for item in items_of(model.graph) if item not in ("embedding", "blk.1.attn", "blk.2.ffn")]
        model.place(Placement(frozenset(items), {bank: n // 2 for bank, n in banks_of(model.graph).items()}))
        state = model.new_state()
        rows = [model.extend(state, tokens[:33]), *(model.extend(state, [token]) for token in tokens[33:])]
        state.release()
        model.close()
        off, limit = np.concatenate(rows) - reference, bounds(reference, shape.mix, shape.layers)
        if not limit.allow(off):
            wrong.append(f"{shape.family}: rms {np.sqrt(np.mean(off**2)):.3g}, allowed {limit.rms:.3g}")
    return wrong


def compile_kernels(capability: int, threads: int) -> float:
    """Compiles what is not in the cache yet, several units at once; the seconds that took."""
    began, target, folder = time.monotonic(), nvrtc.target(capability), cache_folder() / "cubins"
    with ThreadPoolExecutor(threads) as compilers:  # ctypes gives the GIL back while NVRTC works
        list(compilers.map(lambda unit: nvrtc.load_or_compile(unit, target, folder), source.units().values()))
    return time.monotonic() - began


def measure(
    path: str,
    options: argparse.Namespace,
    make_worker: MakeWorker,
    peer_layers: int,
    room: int,
    until: float = math.inf,
) -> Iterator[Row]:
    """A row per share and system. `peer_layers`: of the model, or 0 where llama.cpp cannot use the card. `until`: on
    the monotonic clock, when no row is begun any more."""
    context = max(_SMALLEST_CONTEXT, -(-(options.prompt + options.decode + 32) // 256) * 256)
    need = need_of(path, context, options.threads)
    for share in SHARES:
        budget = need.budget(share)
        ours = Setup(path, options.threads, context, device=f"cuda:{budget}")
        row = Row(Path(path).stem, "tessera", share, budget)
        if budget > room or time.monotonic() > until:
            yield _without(row, "more than the card has" if budget > room else "not measured: the time was up")
        else:
            speeds = need.predicted(budget, options.prompt, options.decode)
            row = replace(row, predicted=(speeds.prefill, speeds.decode))
            yield _measured(row, ours, options, make_worker)
        if peer_layers:
            layers = round(peer_layers * share / 100)
            peer = Setup(path, options.threads, context, gpu_layers=layers)
            row = Row(row.model, "llama.cpp", share, 0)
            late = time.monotonic() > until
            yield _without(row, "not measured: the time was up") if late else _measured(row, peer, options, make_worker)


def _measured(row: Row, setup: Setup, options: argparse.Namespace, make_worker: MakeWorker) -> Row:
    system = row.system
    try:
        with closing(make_worker(system, setup, "steps")) as worker:
            worker.prefill(min(options.prompt, 64))  # compiles and loads what is loaded once
            prefill = statistics.median(worker.prefill(options.prompt) for _ in range(options.rounds))
            worker.fill(options.prompt)
            worker.decode(4)  # captures
            decode = statistics.median(_decode(worker, options) for _ in range(options.rounds))
        with closing(make_worker(system, setup, "answers")) as worker:
            start = worker.first_token()
    except EngineError as error:
        return _without(row, str(error))
    ttft = prefill + decode / options.decode
    return replace(row, prefill=options.prompt / prefill, decode=options.decode / decode, ttft=ttft, start=start)


def _decode(worker: Any, options: argparse.Namespace) -> float:
    worker.fill(options.prompt)
    return float(worker.decode(options.decode))


def _without(row: Row, problem: str) -> Row:
    return Row(row.model, row.system, row.share, row.budget, problem=problem)


def peer_layers(path: str) -> int:
    """Layers that llama.cpp may put on the card, the output included; 0 where its build has no CUDA."""
    try:
        import llama_cpp
    except ImportError:
        return 0
    if not llama_cpp.llama_supports_gpu_offload():
        return 0
    with GGUFFile.open(path) as gguf:
        return len(ModelShape.from_gguf(gguf).layers) + 1


def probe_card() -> HardwareProfile:
    """This machine with its card, measured anew and kept where plans look for it; says how long that took."""
    folder, began = hardware_folder(data_folder()), time.monotonic()
    folder.mkdir(parents=True, exist_ok=True)
    machine = this_machine(folder, default_threads(), measure_again=True)
    print(f"machine measured in {time.monotonic() - began:.1f} s. {' '.join(machine.notes)}", flush=True)
    return machine


def run_kernel_tests(patience: float | None = None) -> str:
    """pytest's last line, or what it ended with. `patience`: seconds after which it is ended."""
    try:
        command = [sys.executable, *KERNEL_TESTS]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=patience)
    except subprocess.TimeoutExpired:
        return f"FAILED, not done after {patience:.0f} s"
    last = (done.stdout.strip().splitlines() or ["no output"])[-1].strip("= ")
    return last if done.returncode == 0 else f"FAILED, {last}"


def check(
    options: argparse.Namespace,
    card: FoundCard,
    make_worker: MakeWorker = Worker,
    kernel_tests: Callable[[float | None], str] = run_kernel_tests,
    layers_of: Callable[[str], int] = peer_layers,
    compiler: Callable[[int, int], float] = compile_kernels,
    probe: Callable[[], HardwareProfile] = probe_card,
) -> int:
    """0 where everything was right and measured; 1 otherwise."""
    if options.prepare:
        prepare(options.prepare, compiler)
        return 0
    if card.facts is None:
        print(f"No NVIDIA GPU was checked. {card.reason} {card.remedy}".rstrip(), file=sys.stderr)
        return 1
    facts, until = card.facts, time.monotonic() + 60 * options.minutes if options.minutes else math.inf
    report = Report(facts, card.name, options.folder, options.prompt)

    def compile_all() -> None:
        print(f"kernels compiled in {compiler(card.capability, os.cpu_count() or 1):.0f} s", flush=True)

    def test_kernels() -> None:
        patience = KERNEL_SHARE * (until - time.monotonic()) if options.minutes else None
        report.kernels = kernel_tests(patience)
        print(f"kernel tests: {report.kernels}", flush=True)

    def compare() -> None:
        with tempfile.TemporaryDirectory() as folder:
            report.numbers = check_numbers(Path(folder))

    def measure_machine() -> None:
        report.machine = probe()

    def measure_model(path: str) -> None:
        for row in measure(path, options, make_worker, layers_of(path), facts.memory_bytes, until):
            report.rows.append(row)
            report.write()
            print(row.problem or f"{row.model}, {row.share} %, {row.system}: {row.decode:.1f} tok/s", flush=True)

    report.part("Compiling", compile_all)
    if not options.quick:
        report.part("Kernel tests", test_kernels)
    report.part("Logits", compare)
    report.part("The probe", measure_machine)
    for path in options.models or [str(ensure_starter_model())]:
        report.part(Path(path).stem, partial(measure_model, path))
    print(report.table())
    return int(not report.is_good)


def prepare(capability: int, compiler: Callable[[int, int], float]) -> None:
    """What takes time and needs no card: kernels for one of this capability, and the starter model."""
    took, folder = compiler(capability, os.cpu_count() or 1), cache_folder() / "cubins"
    print(f"kernels for sm_{capability} compiled in {took:.0f} s, kept in {folder}; models in {ensure_starter_model()}")


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL", help="GGUF files (default: the starter model)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--decode", type=int, default=64)
    parser.add_argument("--threads", type=int, default=default_threads())
    parser.add_argument("--folder", type=Path, default=FOLDER)
    parser.add_argument("--prepare", type=int, metavar="CAPABILITY", help="only compile, as for 89; needs no card")
    parser.add_argument("--minutes", type=float, help="begin no measurement later than that")
    parser.add_argument("--quick", action="store_true", help="leave the kernels' tests out")
    return parser


if __name__ == "__main__":
    sys.exit(check(arguments().parse_args(), find_card()))
