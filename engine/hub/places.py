"""Where models are already: folders of other programs, looked at and never written to.

The only module here that reads environment variables of other programs. (The hub's cache is where the hub's own
client library says it is.)
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

import platformdirs
from huggingface_hub import constants

OUR_FOLDER, ADDED, IMPORTED, INSTALLATION, HUB_CACHE = "Tessera", "Folder", "Imported", "Came with Tessera", "Hub cache"


@dataclass(frozen=True, slots=True)
class Place:
    """`origin` is shown to people; `layout` is "files", "ollama" (blobs behind manifests) or "installation" (files that
    are left out where a file of the same name was found before)."""

    folder: Path
    origin: str
    layout: str = "files"
    ours: bool = False


def known_places() -> tuple[Place, ...]:
    """Folders that other programs keep models in, whether they exist or not."""
    home = Path.home()
    lm_studio = (home / ".lmstudio" / "models", home / ".cache" / "lm-studio" / "models")
    ollama = [Path(os.environ["OLLAMA_MODELS"])] if os.environ.get("OLLAMA_MODELS") else []
    ollama.append(home / ".ollama" / "models")
    if sys.platform.startswith("linux"):
        ollama.append(Path("/usr/share/ollama/.ollama/models"))
    llama_cpp = os.environ.get("LLAMA_CACHE") or platformdirs.user_cache_dir("llama.cpp", appauthor=False)
    return (
        *(Place(folder, "LM Studio") for folder in lm_studio),
        *(Place(folder, "Ollama", "ollama") for folder in ollama),
        Place(Path(llama_cpp), "llama.cpp"),
        Place(Path(constants.HF_HUB_CACHE), HUB_CACHE),
    )
