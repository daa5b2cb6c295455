# Dot-sourced by run.ps1 and build.ps1: the repository's root, a way to run programs, Python, and clang-cl in the environment.
# In ASCII, all of them: Windows PowerShell takes other files for the system's code page, and curly quotes for its own.
$ErrorActionPreference = "Stop"
Set-Location (Join-Path $PSScriptRoot "..\..")
$python = ".venv\Scripts\python.exe"
function Run {
  $rest = @($args | Select-Object -Skip 1 | ForEach-Object { $_ })  # a list among them becomes its items
  & $args[0] @rest
  if ($LASTEXITCODE -ne 0) { throw "$args failed ($LASTEXITCODE)" }
}

if (-not (Get-Command py -ErrorAction SilentlyContinue)) {
  throw "Python is missing. Install it from python.org (3.11 or newer), then run this again."
}
$vswhere = "${env:ProgramFiles(x86)}\Microsoft Visual Studio\Installer\vswhere.exe"
$studio = if (Test-Path $vswhere) {
  & $vswhere -latest -products * -requires Microsoft.VisualStudio.Component.VC.Llvm.Clang -property installationPath
}
if (-not $studio) {
  throw "The C++ build tools of Visual Studio 2022 with clang are missing: visualstudio.microsoft.com, Build Tools, " +
    "'Desktop development with C++' and 'C++ Clang tools for Windows'."
}
& "$studio\Common7\Tools\Launch-VsDevShell.ps1" -Arch amd64 -SkipAutomaticLocation | Out-Null
$env:PATH = "$studio\VC\Tools\Llvm\x64\bin;$env:PATH"
# The kernels need clang-cl; llama.cpp takes it too. Ninja, as on Linux: Visual Studio's generator would pass cl's flags.
$env:CC = "clang-cl"
$env:CXX = "clang-cl"
$env:CMAKE_GENERATOR = "Ninja"

if (-not (Test-Path $python)) { Run py -3 -m venv .venv }
$stamp = ".venv\.tools"
$inputs = Get-Item "pyproject.toml", "constraints.txt"
if (-not (Test-Path $stamp) -or ($inputs | Where-Object { $_.LastWriteTime -gt (Get-Item $stamp).LastWriteTime })) {
  Run $python -m pip install -q -c constraints.txt "pip>=25.1"
  Run $python -m pip install -q -c constraints.txt --group build
  New-Item -ItemType File -Force $stamp | Out-Null
}
