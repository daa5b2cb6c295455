"""From a model file to a NativeBackend that answers, while something else may end the load at any moment."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from engine.budget_control import BudgetControl
from engine.errors import EngineError, FormatError
from engine.gguf import GGUFFile, QuantType
from engine.gguf.metadata import Metadata
from engine.heat_recorder import HeatRecorder
from engine.memory.available import available_memory, format_bytes, require_memory
from engine.memory.heap import release_freed_memory
from engine.memory.kv_pool import BLOCK_TOKENS, KVPool
from engine.memory.prefix_cache import PrefixCache
from engine.messages import (
    Event,
    LoadOptions,
    MigrationProgress,
    ModelInfo,
    Notice,
    PlacementRolledBack,
)
from engine.models import ModelSpec, build_graph, load_spec
from engine.models.graph import KVLayer, StateLayer
from engine.models.quantization import quantization_name
from engine.native import Emit, NativeBackend
from engine.placement.budget import ram_overhead
from engine.placement.costs import Workload
from engine.placement.pin_store import PinStore
from engine.placement.shape import ModelShape
from engine.ram_control import RamControl
from engine.runtime.devices import Device
from engine.runtime.devices.device import DeviceChoice, parse_device
from engine.runtime.devices.open import open_chosen
from engine.runtime.executor import LARGEST_MICRO_BATCH
from engine.runtime.loaded import SPARE_BLOCKS, LoadedModel, assemble
from engine.runtime.threads import default_threads
from engine.runtime.trace import check_trace
from engine.session import Session
from engine.text.early_tokenizer import EarlyTokenizer
from engine.text.template import ChatTemplate
from engine.text.tokenizer import Tokenizer
from engine.text.vocabulary import free_vocabulary, vocabulary_loader
from engine.text.vocabulary_check import check_vocabulary, is_checked
from engine.text.vocabulary_excerpt import VocabularyExcerpts

_DEFAULT_CONTEXT_SHARE = 0.5  # of free memory, for the cache of a context that nobody chose
_SMALLEST_CONTEXT = 512
_MOST_THREADS = 1024  # of the thread pool
_HEARTBEAT_SECONDS = 0.1  # between two signs of progress while something else is waited for

Progress = Callable[[float, str], None]


def load_native(
    path: str | Path, options: LoadOptions, emit: Emit, progress: Progress, freed: int = 0
) -> NativeBackend:
    """Maps the file and prepares to answer; weights are read from disk when they are first used.

    `progress` is called several times a second where something takes longer, and ends the load by raising. `freed`
    bytes will be given back by the model that runs now. Errors: FileError, FormatError, UnsupportedError, DeviceError,
    OutOfMemoryError; nothing is left behind by a failed load.
    """
    _check_options(options)
    choice = parse_device(options.device)
    if options.gpu_budget is not None:
        choice = replace(choice, budget=options.gpu_budget)
    progress(0.0, "Reading the header")
    gguf = GGUFFile.open(path)
    reader = ThreadPoolExecutor(1, "vocabulary")
    vocabulary: Future[Any] | None = None  # as long as no tokenizer owns what it brings
    device: Device | None = None
    model: LoadedModel | None = None
    try:
        progress(0.2, "Reading the vocabulary")
        # The vocabulary takes most of the time until the first token, and llama.cpp reads it without the interpreter's
        # lock: all else is done meanwhile.
        # Where an excerpt of it does for the beginning, nothing waits for it.
        is_safe = is_checked(gguf)
        excerpts = VocabularyExcerpts.of(gguf.metadata) if is_safe else None
        excerpt = excerpts.excerpt("") if excerpts is not None else None
        read: Callable[[], Any]
        if excerpt is not None:
            read = partial(_read_beside, gguf.metadata)
        else:
            read = vocabulary_loader(gguf.metadata) if is_safe else partial(_check_and_read, gguf)
        reading = vocabulary = reader.submit(read)

        def is_read() -> bool:
            progress(0.2, "Reading the vocabulary")
            return reading.done()

        spec = load_spec(gguf, options.context_length)
        graph = build_graph(spec)
        kv_type, kv_warning = _kv_type(graph.kv_layers, options)
        per_token = max(1, KVPool.bytes_per_token(graph.kv_layers, kv_type))
        fixed = KVPool.fixed_bytes(graph.kv_layers, options.context_length or spec.context_length, kv_type)
        shape = ModelShape.from_gguf(gguf)
        context, context_warnings = _context_length(
            spec, per_token, options.context_length, freed - fixed, _within(options, choice, shape, fixed)
        )
        threads = options.threads or default_threads()
        device, device_warning = open_chosen(choice.kind, choice.budget, threads)
        model = assemble(
            gguf,
            spec,
            graph,
            context_length=context,
            threads=threads,
            tier=options.isa_tier,
            kv_type=kv_type,
            device=device,
        )
        cache = PrefixCache(model.pool)
        memory = RamControl(model, cache, shape)
        if device is None and excerpt is None:  # else the plan comes first: much of it may go there
            model.weights.populate_pages(is_read)
        tokenizer: Tokenizer
        if excerpts is not None and excerpt is not None:
            vocabulary = None
            tokenizer = EarlyTokenizer(excerpts, excerpt, reading, gguf.path)
        else:
            while not wait([reading], _HEARTBEAT_SECONDS).done:
                progress(0.2, "Reading the vocabulary")
            vocabulary = None
            tokenizer = Tokenizer(reading.result(), gguf.path)
        if tokenizer.n_vocab > spec.vocabulary_size:
            raise FormatError(
                f"{gguf.path.name} has {tokenizer.n_vocab} tokens, but embeddings of {spec.vocabulary_size} only."
            )
        progress(0.7, "Preparing the computation")
        if options.trace:
            model.start_trace(Path(options.trace))
        recorder = _recorder(model, shape, options)
        control = _place(model, shape, recorder, options, emit, progress)
        memory.set_limit(options.ram_budget)
        template = ChatTemplate.from_tokenizer(tokenizer, options.template)
        info = ModelInfo(
            path=str(path),
            name=spec.name,
            architecture=spec.architecture,
            engine="native",
            quantization=quantization_name(gguf),
            parameters=spec.parameters,
            file_bytes=gguf.file_bytes,
            context_length=context,
            trained_context_length=spec.context_length,
            isa_tier=model.tier,
            threads=threads,
            warnings=(
                *spec.warnings,
                *tokenizer.warnings,
                *context_warnings,
                *_size_warnings(gguf.file_bytes),
                *filter(None, [device_warning, kv_warning]),
            ),
            device=device.label if device is not None else "",
            kv_type="f16" if kv_type == QuantType.F16 else "q8_0",
            has_reasoning_switch=template.has_reasoning_switch,
        )
        gguf.release_header()
        release_freed_memory()
        session = Session(model.executor, cache, context, tokenizer.is_stop, emit)
        return NativeBackend(info, tokenizer, template, cache, session, model, emit, memory, control, recorder)
    except BaseException:
        if model is not None:
            model.close()
        elif device is not None:
            device.close()
        if vocabulary is not None:
            vocabulary.add_done_callback(free_vocabulary)
        gguf.close()
        raise
    finally:
        reader.shutdown(wait=False)  # a vocabulary that nobody waits for any more is read to its end, and freed


def _kv_type(layers: Sequence[KVLayer | StateLayer], options: LoadOptions) -> tuple[QuantType, str]:
    """As asked for; or F16, and why, where a head's numbers do not make whole blocks of Q8_0."""
    asked = QuantType[options.kv_type.upper()]
    caches = [layer for layer in layers if isinstance(layer, KVLayer)]
    odd = [row for layer in caches for row in layer.rows if row % asked.block_elements]
    if not odd:
        return asked, ""
    return QuantType.F16, f"The context is kept in 16 bits: this model's heads of {odd[0]} numbers do not fit 8 bits."


def _check_and_read(gguf: GGUFFile) -> Any:
    check_vocabulary(gguf)
    return vocabulary_loader(gguf.metadata)()


def _read_beside(metadata: Metadata) -> Any:
    model = vocabulary_loader(metadata)()
    release_freed_memory()
    return model


def _recorder(model: LoadedModel, shape: ModelShape, options: LoadOptions) -> HeatRecorder | None:
    """Where the uses of experts are counted at all, and are wanted."""
    if model.hybrid is None or not shape.is_moe or options.heat_folder is None:
        return None
    return HeatRecorder(Path(options.heat_folder), shape, model.hybrid.heat)


def _place(
    model: LoadedModel,
    shape: ModelShape,
    recorder: HeatRecorder | None,
    options: LoadOptions,
    emit: Emit,
    progress: Progress,
) -> BudgetControl | None:
    """Puts on the device what its memory is planned to hold."""
    if model.hybrid is None:
        return None

    def tell(event: Event) -> None:
        if isinstance(event, MigrationProgress):
            progress(0.7 + 0.3 * event.done_bytes / max(1, event.total_bytes), "Copying to the device")
        elif isinstance(event, PlacementRolledBack) and event.error.kind == "PinError":
            emit(Notice(event.error.cause, "The model was loaded without the pins."))
        elif isinstance(event, PlacementRolledBack):
            emit(Notice(event.error.cause, "The model runs on the processor."))

    control = BudgetControl.of(model, shape, tell, recorder.for_planner if recorder is not None else None)
    control.ram_bytes = options.ram_budget
    if options.pins_folder is not None:
        control.pin_store = PinStore(Path(options.pins_folder), shape)
        if pins := control.pin_store.load():
            control.set_pins(pins.all)
    control.set_budget(model.hybrid.device.memory.limit)
    control.finish()
    control.emit = emit
    return control


def _check_options(options: LoadOptions) -> None:
    for name, value, most in (
        ("number of threads", options.threads, _MOST_THREADS),
        ("context length", options.context_length, None),
    ):
        if value is not None and (value < 1 or (most is not None and value > most)):
            limits = "at least 1 is needed" if most is None else f"from 1 to {most} are possible"
            raise EngineError(f"The {name} is {value}; {limits}.", done="The model was not loaded.")
    if options.trace:
        check_trace(options.trace)


def _size_warnings(file_bytes: int) -> tuple[str, ...]:
    """Mapped weights count as free memory, so a model that fits is compared with what is free beside it."""
    available = available_memory()
    if file_bytes <= available:
        return ()
    return (
        f"The model is {format_bytes(file_bytes)}, and {format_bytes(available)} of memory are free: "
        "parts of it will be read from disk again and again, and answers will be slow.",
    )


def _within(options: LoadOptions, choice: DeviceChoice, shape: ModelShape, fixed: int) -> int | None:
    """What a RAM budget leaves for the context; None without one. A device takes as many weights as it may hold."""
    if options.ram_budget is None:
        return None
    elsewhere = 0 if choice.kind == "cpu" else choice.budget or 0
    overhead = ram_overhead(shape, Workload(chunk=LARGEST_MICRO_BATCH))
    return max(0, options.ram_budget - overhead - fixed - max(0, shape.weight_bytes - elsewhere))


def _context_length(
    spec: ModelSpec, per_token: int, chosen: int | None, freed: int, within: int | None
) -> tuple[int, tuple[str, ...]]:
    """Tokens of context, and what the owner should know about it. OutOfMemoryError where a chosen one does not fit.
    One that nobody chose keeps `within` what a RAM budget leaves."""
    if chosen is not None:
        fits = max(0, available_memory() + freed) // per_token
        require_memory(
            chosen * per_token,
            f"A context of {chosen} tokens",
            freed=freed,
            remedy=f"Choose a context of at most {fits} tokens, or close other programs.",
        )
        beyond = f"The model was trained for {spec.context_length} tokens of context; answers beyond may be poor."
        return chosen, (beyond,) if chosen > spec.context_length else ()
    affordable = int((available_memory() + freed) * _DEFAULT_CONTEXT_SHARE) // per_token
    allowed = affordable if within is None else within // per_token - SPARE_BLOCKS * BLOCK_TOKENS
    if min(affordable, allowed) >= spec.context_length:
        return spec.context_length, ()
    context = max(_SMALLEST_CONTEXT, min(affordable, allowed) // BLOCK_TOKENS * BLOCK_TOKENS)
    require_memory(
        context * per_token,
        f"Even a context of {context} tokens",
        freed=freed,
        remedy="Choose a smaller model, or close other programs.",
    )
    if allowed < affordable:
        return context, (f"The context is {context} of {spec.context_length} tokens, to keep within the RAM budget.",)
    free = format_bytes(available_memory())
    return context, (f"The context is {context} of {spec.context_length} tokens, because {free} of memory are free.",)
