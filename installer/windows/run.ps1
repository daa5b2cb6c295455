# What `make run` does, on Windows: environment, build, starter model, then the window. Never run so far: see README.md.
#   powershell -ExecutionPolicy Bypass -File installer\windows\run.ps1
# Needs Python 3.11 or newer (py launcher) and the C++ build tools of Visual Studio 2022 with clang.
. (Join-Path $PSScriptRoot "common.ps1")

$built = ".venv\.packages"
if (-not (Test-Path $built) -or (Get-Item $stamp).LastWriteTime -gt (Get-Item $built).LastWriteTime) {
  $env:CMAKE_ARGS = "-DLLAVA_BUILD=OFF -DGGML_OPENMP=OFF"  # OpenMP's library is no part of Windows
  Run $python -m pip install -q -c constraints.txt --no-build-isolation -e .
  New-Item -ItemType File -Force $built | Out-Null
} else {
  Run $python -m pip install -q --no-deps --no-build-isolation -e .  # CMake builds only what has changed
}
if (Get-Command nvidia-smi -ErrorAction SilentlyContinue) {
  Run $python -m pip install -q -c constraints.txt -e ".[gpu]" --no-build-isolation
}
Run $python -m engine.hub.starter
Run $python -m app @args
