"""What goes into the bundle and what stays out: data for the PyInstaller spec, and the rules its result is held to."""

from __future__ import annotations

import fnmatch
import sys
from pathlib import Path

LIMIT_BYTES = 350 * 10**6  # without the starter model
PACKAGE_LIMIT_BYTES = 240 * 10**6  # of the .deb and of the single file, the model included

# What PyInstaller cannot see: modules that are started by name, imported late, or found beside others.
PACKAGES = (
    "app",
    "engine",
    "kernels",
    "keyring.backends",
    "markdown_it",
    "ziamath",
    "ziafont",
    "latex2mathml",
    "pypdf",
)
HIDDEN_IMPORTS = ("kernels._cpu", "PySide6.QtSvg", "PySide6.QtDBus", "pynvml", "hf_xet", "llama_cpp.llama_cpp")
METADATA = (
    "tessera", "pyside6-essentials", "llama-cpp-python", "huggingface-hub", "psutil", "nvidia-ml-py", "numpy", "jinja2",
    "keyring",
)  # fmt: skip

# (source below the repository, folder in the bundle): files that are read at run time.
DATA = (
    ("assets/catalogue.json", "assets"),
    ("assets/fonts", "assets/fonts"),
    ("assets/icons", "assets/icons"),
    ("assets/stylesheets", "assets/stylesheets"),
    ("assets/translations", "assets/translations"),
    ("engine/placement/hardware/catalogue.json", "engine/placement/hardware"),
    ("kernels/cuda/*.cu", "kernels/cuda"),
    ("kernels/cuda/*.cuh", "kernels/cuda"),
    ("LICENSE", "."),
)

EXCLUDED_MODULES = (
    "torch", "tkinter", "IPython", "matplotlib", "pandas", "scipy", "pytest", "hypothesis", "setuptools", "pip",
    "nvidia", "llama_cpp.server", "huggingface_hub.cli", "huggingface_hub.commands", "typer", "rich", "diskcache",
    "numpy.f2py", "numpy.distutils", "PIL", "lib2to3", "pydoc_data", "ensurepip", "idlelib", "curses",
)  # fmt: skip

# Files that come along with what is needed and are not needed themselves.
PRUNED = (
    "PySide6/Qt/translations/*[!N].qm",  # all but Qt's own words in the languages that we have
    "PySide6/Qt/translations/qt[!b]*", "PySide6/Qt/translations/[!q]*",
    "PySide6/Qt/plugins/platforms/libq*egl*", "PySide6/Qt/plugins/platforms/libqlinuxfb*",
    "PySide6/Qt/plugins/platforms/libqvkkhr*", "PySide6/Qt/plugins/platforms/libqvnc*",
    "PySide6/Qt/plugins/platforms/libqminimal.so",
    "PySide6/Qt/plugins/platforminputcontexts/libqtvirtualkeyboard*",
    "PySide6/Qt/plugins/platformthemes/libqgtk3*",  # would bring GTK; file dialogs come through the desktop's portal
    "PySide6/Qt/plugins/egldeviceintegrations/*", "PySide6/Qt/plugins/generic/*",
    "PySide6/Qt/plugins/imageformats/libq[!sij]*", "PySide6/Qt/plugins/imageformats/libqicns*",
    "PySide6/Qt/plugins/networkinformation/*", "PySide6/Qt/plugins/qmltooling/*", "PySide6/Qt/plugins/sqldrivers/*",
    "PySide6/Qt/qml/*", "PySide6/Qt/lib/libQt6Qml*", "PySide6/Qt/lib/libQt6Quick*", "PySide6/Qt/lib/libQt6Pdf*",
    "PySide6/Qt/lib/libQt6VirtualKeyboard*", "PySide6/Qt/lib/libQt6EglFS*",
    "PySide6/Qt6Qml*", "PySide6/Qt6Quick*", "PySide6/Qt6Pdf*", "PySide6/Qt6VirtualKeyboard*", "PySide6/opengl32sw.dll",
    # Of the desktop's own session: another version of these beside the system's graphics driver breaks it.
    "libwayland-*", "libX11.so*", "libX11-xcb.so*", "libxcb.so.1", "libEGL*", "libGL*", "libgbm*", "libdrm*",
    "libgtk*", "libgdk*", "libfontconfig*", "libfreetype*", "libdbus-1*", "libglib-2*", "libgobject*", "libgio*",
    "libgmodule*",
    # llama.cpp's wheel holds each library once per version number.
    "llama_cpp/lib/*.so.*.*", "llama_cpp/lib/libggml.so", "llama_cpp/lib/libggml-base.so",
    "llama_cpp/lib/libllama.so.*", "llama_cpp/include/*", "llama_cpp/lib/cmake/*", "llama_cpp/lib/pkgconfig/*",
    "numpy/*tests*", "*/tests/*.py", "*.pyi", "*.a", "llama_cpp/lib/*.lib",
)  # fmt: skip

# Their absence would be noticed only by whoever needs them.
REQUIRED = (
    "assets/icons/tessera.svg", "assets/fonts/Inter-Regular.ttf", "assets/stylesheets/tessera.qss",
    "assets/translations/tessera_zh_CN.ts", "assets/catalogue.json", "engine/placement/hardware/catalogue.json",
    "kernels/_cpu*.so", "kernels/_cuda_host*.so", "kernels/cuda/matmul.cu", "kernels/cuda/language.cuh",
    "llama_cpp/lib/libllama.so", "llama_cpp/lib/libggml.so.0", "llama_cpp/lib/libggml-base.so.0",
    "llama_cpp/lib/libggml-cpu.so", "shiboken6/files.dir/shibokensupport/signature/__pycache__/parser.*.pyc",
    "PySide6/Qt/plugins/platforms/libqxcb.so", "PySide6/Qt/plugins/platforms/libqoffscreen.so",
    "PySide6/Qt/plugins/platforms/libqwayland*.so", "PySide6/Qt/plugins/wayland-shell-integration/libxdg-shell.so",
    "PySide6/Qt/plugins/imageformats/libqsvg.so", "PySide6/Qt/plugins/platformthemes/libqxdgdesktopportal.so",
    "PySide6/Qt/translations/qtbase_zh_CN.qm", "PySide6/Qt/plugins/tls/libqopensslbackend.so",
    "libxcb-cursor.so.0", "libxcb-icccm.so.4",
    "libxcb-keysyms.so.1", "libxcb-image.so.0", "libxcb-render-util.so.0", "libxkbcommon-x11.so.0", "libgomp.so.1",
)  # fmt: skip
FORBIDDEN = ("*torch*", "*nvrtc*", "*Quick*", "*Qml*", "*WebEngine*", "*.cpp", "*/tests/*", "*.gguf")


def is_pruned(name: str) -> bool:
    """Whether a file, by its name inside the bundle, is left out."""
    return any(fnmatch.fnmatchcase(name.replace("\\", "/"), _here(pattern)) for pattern in PRUNED)


def _here(pattern: str) -> str:
    """Qt's files lie one folder higher in its wheels for Windows."""
    return pattern.replace("PySide6/Qt/", "PySide6/") if sys.platform == "win32" else pattern


def complaints(folder: Path) -> list[str]:
    """What is wrong with a bundle's contents (the folder that its files lie in, without the starter model)."""
    files = [path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()]
    wanted = [_here(rule) for rule in REQUIRED if ".so" not in rule or sys.platform == "linux"]
    found = [f"missing: {rule}" for rule in wanted if not fnmatch.filter(files, rule)]
    for rule in FORBIDDEN:
        found += [f"not wanted: {name}" for name in fnmatch.filter(files, rule) if not name.startswith("models/")]
    size = sum((folder / name).lstat().st_size for name in files if not name.startswith("models/"))
    if size > LIMIT_BYTES:
        found.append(f"{size / 1e6:.0f} MB, more than {LIMIT_BYTES / 1e6:.0f}")
    return found
