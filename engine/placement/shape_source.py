"""The shape of what a person names: a GGUF file, or a hub repository of which only headers are read."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.errors import EngineError, FileError
from engine.gguf import GGUFFile, TensorInfo
from engine.placement.shape import ModelShape, TensorShape

if TYPE_CHECKING:  # the hub takes half a second to import, and files do without it
    from engine.hub.connection import Connection
    from engine.hub.names import LogicalModel
    from engine.hub.repository import RepositoryCard

_REPOSITORY = re.compile(r"\w[\w.-]*/\w[\w.-]*", re.ASCII)  # owner/name, as the hub allows them
_PREFERRED = ("Q4_K_M", "MXFP4", "Q4_K_XL", "Q4_K_S", "Q4_0")


def read_shape(name: str) -> ModelShape:
    """`name`: a file, or `owner/repository`, or `owner/repository:Q4_K_M`. Asks the network for the latter two."""
    if os.path.exists(name):  # noqa: PTH110  (Path.exists raises where a name is too long)
        with GGUFFile.open(name) as gguf:
            return ModelShape.from_gguf(gguf)
    repository, _, quantization = name.partition(":")
    if not _REPOSITORY.fullmatch(repository) or name.lower().endswith(".gguf"):
        raise FileError(
            f"There is no file {name}.", remedy="Name a GGUF file, or a repository as owner/name or owner/name:Q4_K_M."
        )
    from engine.hub.connection import Connection, settings_from_environment
    from engine.hub.folders import cache_folder
    from engine.hub.repository import open_repository

    connection = Connection(settings_from_environment())
    try:
        connection.install()
        card = open_repository(connection, repository)
        return remote_shape(connection, card, choose_model(card, quantization), cache_folder() / "headers")
    finally:
        connection.close()


def choose_model(card: RepositoryCard, quantization: str) -> LogicalModel:
    """The model of that quantisation; without one, the usual choice. EngineError names what there is."""
    models = [model for model in card.listing.models if not model.problem and not model.missing]
    wanted = [quantization.upper()] if quantization else list(_PREFERRED)
    for label in wanted:
        for model in models:
            if model.quantization.removeprefix("UD-") == label.removeprefix("UD-"):
                return model
    if models and not quantization:
        return models[0]
    there = ", ".join(sorted({model.quantization or model.name for model in models})) or "no GGUF model"
    raise EngineError(f"{card.summary.name} has {there}.", remedy="Choose one of them, as owner/name:QUANTISATION.")


def remote_shape(
    connection: Connection,
    card: RepositoryCard,
    model: LogicalModel,
    cache: Path,
    stop: threading.Event | None = None,
) -> ModelShape:
    """The shape of a model on the hub, from the headers of all its shards (a few megabytes each, cached)."""
    from engine.hub.journal import Source
    from engine.hub.remote_header import remote_header

    headers = [
        remote_header(
            connection, Source(card.summary.name, card.revision, file.path, file.size, file.sha256), cache, stop
        )
        for file in model.files
    ]
    tensors = [tensor for header in headers for tensor in header.tensors.values()]
    return shape_of_header(headers[0].metadata, tensors, model.name)


def shape_of_header(metadata: Mapping[str, Any], tensors: Iterable[TensorInfo], source: str) -> ModelShape:
    shapes = [TensorShape(t.name, t.type_name, tuple(t.ggml_shape), t.n_bytes) for t in tensors]
    return ModelShape.from_header(metadata, shapes, source)
