"""`tessera plan`: what goes where, how fast that would be, and what other strategies would make of it."""

from __future__ import annotations

import argparse
import json
import re
import sys
from dataclasses import replace

from engine.errors import EngineError
from engine.hub.folders import data_folder
from engine.placement.budget import Budget, GiB, gpu_limit, recommended_budget
from engine.placement.costs import Workload
from engine.placement.hardware import catalogue
from engine.placement.hardware.profile import HardwareProfile
from engine.placement.hardware.store import hardware_folder, this_machine
from engine.placement.plan import Mode
from engine.placement.planner import Planner
from engine.placement.report_format import PlanReport, as_json, as_text
from engine.placement.rivals import Rivals
from engine.placement.shape import ModelShape
from engine.placement.shape_source import read_shape
from engine.placement.simulator import simulate
from engine.runtime.threads import default_threads

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(GIB|MIB|GB|MB|G|M|)(?:YTES?)?", re.IGNORECASE)
_UNITS = {"GIB": GiB, "G": GiB, "": GiB, "MIB": 1 << 20, "M": 1 << 20, "GB": 10**9, "MB": 10**6}
_CURVE_POINTS = 9


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="FILE|REPO", help="a GGUF file, or owner/name[:QUANT] on the hub")
    parser.add_argument("--gpu", metavar="NAME", help='a GPU of the catalogue ("RTX 4090"), or "none"')
    parser.add_argument("--cpu", metavar="NAME", help='a CPU of the catalogue ("Core i7-11700")')
    parser.add_argument("--ram", type=parse_size, metavar="SIZE", help="RAM of the machine, as 64GiB")
    parser.add_argument("--budget", type=parse_size, metavar="SIZE", help="GPU memory that may be used, as 6GiB")
    parser.add_argument("--context", type=int, default=4096, metavar="N", help="tokens of context (4096)")
    parser.add_argument("--prompt", type=int, default=None, metavar="N", help="tokens of the prompt to predict for")
    parser.add_argument("--mode", choices=[mode.value for mode in Mode], default=Mode.DECODE.value)
    parser.add_argument("--threads", type=int, default=None, metavar="N", help="processor threads")
    parser.add_argument("--measure", action="store_true", help="measure this machine again")
    parser.add_argument("--json", action="store_true", help="for programs")


def run(args: argparse.Namespace) -> int:
    try:
        report = make_report(args)
    except EngineError as error:
        print(error, file=sys.stderr)
        return 1
    print(json.dumps(as_json(report), indent=1) if args.json else as_text(report))
    return 0


def make_report(args: argparse.Namespace) -> PlanReport:
    shape = read_shape(args.model)
    hardware = _hardware(args)
    if args.context < 1 or (args.prompt is not None and args.prompt < 1):
        raise EngineError("A context and a prompt have at least one token.")
    prompt = min(args.prompt or 2048, args.context)
    work = Workload(context=args.context, prompt=prompt, depth=prompt)
    budget = recommended_budget(hardware) if args.budget is None else Budget(args.budget)
    what_if = any((args.gpu, args.cpu, args.ram))
    return plan_report(shape, hardware, work, budget, Mode(args.mode), what_if=what_if)


def plan_report(
    shape: ModelShape,
    hardware: HardwareProfile,
    work: Workload,
    budget: Budget,
    mode: Mode = Mode.DECODE,
    *,
    what_if: bool = False,
) -> PlanReport:
    planner = Planner(shape, hardware, work, mode)
    plan = planner.plan(budget)
    return PlanReport(
        shape,
        hardware,
        work,
        plan,
        simulate(plan, planner.times),
        tuple(Rivals(shape, hardware, work, budget).all()),
        budget_curve(planner, gpu_limit(budget, hardware)),
        what_if,
    )


def budget_curve(planner: Planner, limit: int) -> tuple[tuple[int, float], ...]:
    """Decode speed over budgets, up to the card's limit or to where everything is on the GPU."""
    everything = planner.overhead + sum(planner.sizes[1:]) + planner.times.model.expert_bytes
    most = min(max(limit, recommended_budget(planner.hardware).gpu_bytes), everything)
    if not most:
        return ()
    budgets = [most * i // (_CURVE_POINTS - 1) for i in range(_CURVE_POINTS)]
    return tuple((b, 1 / planner.times.seconds(planner.choose(b), decode=True)) for b in budgets)


def _hardware(args: argparse.Namespace) -> HardwareProfile:
    gpu = None if (args.gpu or "none").lower() == "none" else args.gpu
    if args.cpu:
        return catalogue.machine(args.cpu, gpu, args.ram)
    folder = hardware_folder(data_folder())
    folder.mkdir(parents=True, exist_ok=True)
    own = this_machine(folder, args.threads or default_threads(), measure_again=args.measure, progress=_show_progress)
    if args.ram:
        own = own.with_ram(args.ram)
    if args.gpu is None:
        return own
    if gpu is None:
        return replace(own, gpu=None, link=None, drives_display=False)
    entry = catalogue.find_gpu(gpu)
    return replace(
        own,
        gpu=catalogue.gpu_profile(entry),
        link=catalogue.link_profile(entry),
        drives_display=False,
        source="mixed",
        notes=(),
    )


def _show_progress(fraction: float, stage: str) -> None:
    if sys.stderr.isatty():
        end = "\n" if fraction >= 1 else ""
        print(f"\rmeasuring this machine: {fraction:4.0%} {stage:30}", end=end, file=sys.stderr, flush=True)


def parse_size(text: str) -> int:
    """Bytes of "6GiB", "6" (GiB), "512 MiB", "24GB"."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no size; write it as 6GiB or 512MiB")
    return int(float(match[1]) * _UNITS[match[2].upper()])


def main() -> int:
    parser = argparse.ArgumentParser(prog="plan")
    add_arguments(parser)
    return run(parser.parse_args())


if __name__ == "__main__":
    sys.exit(main())
