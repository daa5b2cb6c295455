"""`tessera plan`: what goes where, how fast that would be, and what other strategies would make of it."""

from __future__ import annotations

import argparse
import json
import sys
from contextlib import suppress
from dataclasses import replace

from engine.errors import EngineError
from engine.gguf.errors import printable
from engine.hub.folders import data_folder
from engine.placement.arguments import add_arguments
from engine.placement.budget import Budget, gpu_limit, recommended_budget
from engine.placement.costs import Workload
from engine.placement.hardware import catalogue
from engine.placement.hardware.profile import HardwareProfile
from engine.placement.hardware.store import hardware_folder, this_machine
from engine.placement.llama_cpp import compatibility_machine
from engine.placement.plan import Mode
from engine.placement.planner import Planner
from engine.placement.report_format import PlanReport, as_json, as_text
from engine.placement.rivals import Rivals
from engine.placement.shape import ModelShape
from engine.placement.shape_source import read_shape
from engine.placement.simulator import simulate
from engine.placement.state import VALUE_BYTES
from engine.runtime.devices.device import parse_device
from engine.runtime.devices.open import with_device
from engine.runtime.threads import default_threads

_CURVE_POINTS = 9


def run(args: argparse.Namespace) -> int:
    try:
        report = make_report(args)
    except EngineError as error:
        print("\n".join(map(printable, f"Error: {error}".splitlines())), file=sys.stderr)
        return 1
    print(json.dumps(as_json(report), indent=1) if args.json else as_text(report))
    return 0


def make_report(args: argparse.Namespace) -> PlanReport:
    _check_arguments(args)
    shape = read_shape(args.model)
    hardware = _hardware(args, shape)
    if args.budget and hardware.gpu is None:
        raise EngineError("--budget is memory of a GPU, and this plan has none.", remedy='Name one: --gpu "RTX 4090".')
    if args.context < 1 or (args.prompt is not None and args.prompt < 1):
        raise EngineError("A context and a prompt have at least one token.")
    if args.prompt is not None and args.prompt > args.context:
        raise EngineError(
            f"A prompt of {args.prompt:,} tokens does not fit into a context of {args.context:,}.",
            remedy="Give the context by --context.",
        )
    prompt = min(args.prompt or 2048, args.context)
    value_bytes = shape.value_bytes(args.kv_type)
    if value_bytes != VALUE_BYTES[args.kv_type]:
        odd = "The context is counted in 16 bits: this model's heads are not whole blocks of 32 numbers."
        hardware = replace(hardware, notes=(*hardware.notes, odd))
    work = Workload(context=args.context, prompt=prompt, depth=prompt, value_bytes=value_bytes)
    chosen = args.budget if args.budget is not None or args.device is None else parse_device(args.device).budget
    budget = recommended_budget(hardware) if chosen is None else Budget(chosen)
    what_if = any(option is not None for option in (args.gpu, args.cpu, args.ram))
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
    """Of an architecture that our own engine does not build: of the compatibility engine, which plans nothing and runs
    on the CPU."""
    if not shape.is_native:
        hardware, budget = compatibility_machine(hardware), Budget(0, budget.ram_bytes)
    planner = Planner(shape, hardware, work, mode)
    plan = planner.plan(budget)
    return PlanReport(
        shape,
        hardware,
        work,
        plan,
        simulate(plan, planner.times),
        tuple(Rivals(shape, hardware, work, budget).all()) if shape.is_native else (),
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


def _check_arguments(args: argparse.Namespace) -> None:
    """EngineError where one option would leave another without effect."""
    if args.cpu is not None and args.device is not None:
        raise EngineError(
            "--cpu plans for a computer of the catalogue, --device for this one.",
            remedy='With --cpu, name the card by --gpu: --gpu "RTX 4090", or --gpu none.',
        )
    other = "--cpu" if args.cpu is not None else "--device emulated" if _is_emulated(args.device) else ""
    if other and (args.measure or args.threads):
        ignored = "--measure" if args.measure else "--threads"
        raise EngineError(f"{ignored} is of this computer, {other} of another.", remedy=f"Leave {ignored} out.")
    if args.device is not None and parse_device(args.device).budget is not None and args.budget is not None:
        raise EngineError(f"--device {args.device} names a budget already.", remedy="Leave --budget out.")


def _is_emulated(device: str | None) -> bool:
    return device is not None and parse_device(device).kind.startswith("emulated")


def _hardware(args: argparse.Namespace, shape: ModelShape) -> HardwareProfile:
    gpu = None if args.gpu is None or args.gpu.lower() == "none" else args.gpu
    if args.cpu is not None:
        return catalogue.machine(args.cpu, gpu, args.ram)
    folder = hardware_folder(getattr(args, "data_dir", None) or data_folder())
    with suppress(OSError):  # a plan needs no folder
        folder.mkdir(parents=True, exist_ok=True)
    own = this_machine(
        folder,
        args.threads or default_threads(),
        measure_again=args.measure,
        progress=_show_progress,
        types=shape.type_names,
    )
    if args.ram is not None:
        own = own.with_ram(args.ram)
    if args.device is not None:
        chosen = with_device(own, parse_device(args.device))
        return chosen if args.ram is None else chosen.with_ram(args.ram)
    if args.gpu is None:
        return own
    if gpu is None:
        return replace(own, gpu=None, link=None, drives_display=False)
    return catalogue.with_gpu(own, gpu)


def _show_progress(fraction: float, stage: str) -> None:
    if sys.stderr.isatty():
        end = "\n" if fraction >= 1 else ""
        print(f"\rmeasuring this machine: {100 * fraction:3.0f} % {stage:30}", end=end, file=sys.stderr, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="plan")
    add_arguments(parser)
    return run(parser.parse_args())


if __name__ == "__main__":
    sys.exit(main())
