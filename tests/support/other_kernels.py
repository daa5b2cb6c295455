"""pytest plugin: the tests import kernels._cpu from the build folder that TESSERA_TEST_KERNELS names."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

import kernels

(path,) = Path(os.environ["TESSERA_TEST_KERNELS"]).glob("_cpu.*")
spec = importlib.util.spec_from_file_location("kernels._cpu", path)
assert spec is not None and spec.loader is not None
module = importlib.util.module_from_spec(spec)
sys.modules["kernels._cpu"] = module
kernels._cpu = module  # type: ignore[assignment]
spec.loader.exec_module(module)
