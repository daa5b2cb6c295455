# For any runner with Windows: the wheels, the bundle and the installer, and whether they answer. Never run so far.
#   powershell -ExecutionPolicy Bypass -File .ci\windows.ps1
$ErrorActionPreference = "Stop"
Set-Location (Join-Path $PSScriptRoot "..")
. .\installer\windows\build.ps1  # and what it dot-sources: Run

# The wheels in an environment without the source, on the bundle's starter model.
$place = Join-Path ([IO.Path]::GetTempPath()) "tessera-wheels"
Remove-Item -Recurse -Force $place -ErrorAction SilentlyContinue
Run py -3 -m venv $place
Run "$place\Scripts\python.exe" -m pip install -q -c constraints.txt (Get-Item dist\wheels\*.whl).FullName
$model = (Get-Item dist\tessera\_internal\models\*.gguf).FullName
Push-Location $place
Run Scripts\python.exe -P -m app smoke $model
Pop-Location
# The program has no console: its exit status tells.
$bundle = Start-Process dist\tessera\tessera.exe smoke -PassThru -Wait
if ($bundle.ExitCode -ne 0) { throw "the bundle's smoke test failed ($($bundle.ExitCode))" }
