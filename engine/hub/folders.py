"""Where Tessera keeps its files on this machine."""

from __future__ import annotations

from pathlib import Path

import platformdirs

APPLICATION = "Tessera"


def data_folder() -> Path:
    """The user's data folder for Tessera; it may not exist yet."""
    return Path(platformdirs.user_data_dir(APPLICATION, appauthor=False))


def cache_folder() -> Path:
    """Files that may be thrown away at any time, such as remote headers and search answers."""
    return Path(platformdirs.user_cache_dir(APPLICATION, appauthor=False))


def gpu_support_folder() -> Path:
    """Where the installed GPU support lies (gpu_support.py), if it does."""
    return data_folder() / "components" / "nvrtc"


def models_folder() -> Path:
    """The folder that downloads go to unless the owner chose another one."""
    return data_folder() / "models"
