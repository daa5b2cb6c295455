# What `make run` does, on Windows: environment, build, starter model, then the window. Never run so far: see README.md.
#   powershell -ExecutionPolicy Bypass -File installer\windows\run.ps1
# Needs Python 3.11 or newer (py launcher) and the C++ build tools of Visual Studio 2022, with clang-cl or MSVC.
$ErrorActionPreference = "Stop"
Set-Location (Join-Path $PSScriptRoot "..\..")
$python = ".venv\Scripts\python.exe"
function Run { & $args[0] $args[1..($args.Count - 1)]; if ($LASTEXITCODE -ne 0) { throw "$args failed ($LASTEXITCODE)" } }

if (-not (Get-Command py -ErrorAction SilentlyContinue)) {
  throw "Python is missing. Install it from python.org (3.11 or newer), then run this again."
}
if (-not (Test-Path $python)) { Run py -3 -m venv .venv }
$stamp = ".venv\.packages"
$inputs = Get-Item pyproject.toml, constraints.txt
if (-not (Test-Path $stamp) -or ($inputs | Where-Object { $_.LastWriteTime -gt (Get-Item $stamp).LastWriteTime })) {
  $env:CMAKE_ARGS = "-DLLAVA_BUILD=OFF"
  Run $python -m pip install -q -c constraints.txt "pip>=25.1"
  Run $python -m pip install -q -c constraints.txt --group build
  Run $python -m pip install -q -c constraints.txt --no-build-isolation -e .
  New-Item -ItemType File -Force $stamp | Out-Null
} else {
  Run $python -m pip install -q --no-deps --no-build-isolation -e .  # CMake builds only what has changed
}
Run $python -m engine.hub.starter
Run $python -m app @args
