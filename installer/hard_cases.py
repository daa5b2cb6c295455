"""What the packages bear: other processors, crashes, the data of the version before. For `package_test.py`.

Each says in a sentence what it found, or raises Failed.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import frames
from bare_root import ROOT, Failed, output

DIST = ROOT / "dist"
PYTHON = frames.PYTHON
LLAMA_CPP_ALONE = (
    "import sys; from engine.backends.llama_cpp.model import CompatibilityModel;"
    "from engine.messages import LoadOptions; CompatibilityModel(sys.argv[1], LoadOptions(), lambda _: None)"
)


def tiers() -> str:
    """Every tier of ours, and no AVX-512 in llama.cpp, which does not choose: its AVX2 is in a library of its own."""
    contents = DIST / "tessera/_internal"
    (kernels,) = (contents / "kernels").glob("_cpu*.so")
    found = set(re.findall(rb"\0(scalar|avx2|avx512|avx512_vnni)(?=\0)", kernels.read_bytes()))
    if len(found) != 4 or not _uses(kernels, "zmm"):
        raise Failed(f"the kernels' tiers: {found}")
    for library in (contents / "llama_cpp/lib").glob("lib*.so*"):
        if _uses(library, "zmm") or _uses(library, "ymm") != library.name.startswith("libggml-cpu"):
            raise Failed(f"{library.name} is not for any processor")
    return "our kernels: scalar, avx2, avx512, avx512_vnni; llama.cpp: no AVX-512, AVX2 in libggml-cpu alone"


def _uses(library: Path, registers: str) -> bool:
    code = subprocess.run(["objdump", "-d", library], check=True, capture_output=True, text=True).stdout
    return f"%{registers}" in code


def old() -> str:
    """Westmere has neither AVX nor AVX2. The bundle's program starts itself anew, which would leave the emulation: so
    the environment that it was made from is asked, the same Python and the same wheels."""
    python = ["qemu-x86_64", "-cpu", "Westmere", str(PYTHON), "-P"]
    emulated = [*python, "-m", "app"]
    found = output([*emulated, "doctor"])
    if not re.search(r"^-- +CPU kernels +scalar", found, re.MULTILINE):
        raise Failed(f"on a processor without AVX2: {found}")
    model = str(next((DIST / "tessera/_internal/models").glob("*.gguf")))
    answer = output([*emulated, "chat", model, "Hi", "--greedy", "--max-tokens", "2", "--quiet"]).strip()
    if not answer:
        raise Failed("no answer from the scalar kernels")
    refused = output([*python, "-c", LLAMA_CPP_ALONE, model], status=1)  # its child process would leave the emulation
    if "a processor with AVX2, which this one lacks" not in refused:
        raise Failed(f"llama.cpp without AVX2: {refused}")
    with tempfile.TemporaryDirectory(prefix="tessera-old-") as name:
        variables = {"PATH": "/usr/bin:/bin", "HOME": name, "DISPLAY": frames.DISPLAY, "LANG": "C.UTF-8"}
        window = subprocess.Popen([*emulated, "--data-dir", name], cwd="/", env=variables, stderr=subprocess.DEVNULL)
        try:
            told = Path(name) / "conversations.db"  # made once the window is painted
            frames.wait_for(told.is_file, "the window on an emulated processor")
            (DIST / "frames").mkdir(exist_ok=True)
            path = DIST / "frames/13-without-avx2.png"
            empty = frames.picture(path)  # emulation is slow: the cards have no words yet
            frames.wait_for(lambda: frames.picture(path) > 1.5 * empty, "the card about the processor")
        finally:
            window.terminate()
            window.wait()
    return f"emulated processor without AVX2: the scalar kernels answer {answer!r}, llama.cpp says why it does not"


def crash() -> str:
    """A model is loaded, and the process gets a segmentation fault: twice by opening it again. It is counted, and the
    next start by itself loads nothing."""
    model = next((DIST / "tessera/_internal/models").glob("*.gguf"))
    with tempfile.TemporaryDirectory(prefix="tessera-crash-") as name:
        data = Path(name)
        loading, counts, native = data / "loading.json", data / "crashes.json", data / "logs/last-native-crash.log"
        for wanted in (1, 2):
            with _window(data, str(model)) as window:
                frames.wait_for(lambda: loading.is_file() and '"loaded": true' in loading.read_text(), "the model")
                window.send_signal(signal.SIGSEGV)
                window.wait()
            native.unlink(missing_ok=True)
            with _window(data):
                frames.wait_for(native.is_file, "the crash to be noticed")
                words = f'": {wanted}' + "}"
                frames.wait_for(lambda words=words: counts.is_file() and words in counts.read_text(), "its count")
                time.sleep(10)
                if loading.exists():
                    raise Failed(f"after crash {wanted} the model was loaded again")
        if "Segmentation fault" not in native.read_text():
            raise Failed(f"the log of the crash: {native.read_text()[:200]}")
    return "after a segmentation fault, and a second one: noticed, logged, counted; the next start loads nothing"


@contextlib.contextmanager
def _window(data: Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """The bundle's window, offscreen, on a data folder of its own; ended with the block."""
    variables = {"PATH": "/usr/bin:/bin", "HOME": str(data), "QT_QPA_PLATFORM": "offscreen", "LANG": "C.UTF-8"}
    command = [str(DIST / "tessera/tessera"), "--data-dir", str(data), *arguments]
    window = subprocess.Popen(command, cwd="/", env=variables, stderr=subprocess.DEVNULL)
    try:
        yield window
    finally:
        window.terminate()
        window.wait()


def upgrade() -> str:
    """The previous commit writes a data folder, as a window does, by its own code and script; this one opens it."""
    with tempfile.TemporaryDirectory(prefix="tessera-upgrade-") as name:
        data = str(Path(name) / "data")
        for action, revision in (("write", "HEAD~1"), ("read", "HEAD")):
            code = Path(name) / action
            _check_out(revision, code)
            variables = {"HOME": name, "QT_QPA_PLATFORM": "offscreen", "PYTHONPATH": str(code)}
            output([str(PYTHON), "-P", str(code / "installer/upgrade_folder.py"), action, data], **variables)
    return f"what {_commit('HEAD~1')} wrote opens in {_commit('HEAD')}: conversation, answer, setting, draft, preset"


def _check_out(revision: str, folder: Path) -> None:
    """The source of a commit, with the kernels of the packages."""
    folder.mkdir()
    archive = subprocess.run(["git", "archive", revision], cwd=ROOT, check=True, capture_output=True).stdout
    subprocess.run(["tar", "-x", "-C", str(folder)], input=archive, check=True)
    for library in PYTHON.parent.parent.glob("lib/python*/site-packages/kernels/*.so"):
        shutil.copy(library, folder / "kernels")


def _commit(revision: str) -> str:
    found = subprocess.run(
        ["git", "rev-parse", "--short", revision], cwd=ROOT, check=True, capture_output=True, text=True
    )
    return found.stdout.strip()
