# The bundle, the wheels and the installer for Windows, in dist\. Never run so far: see README.md.
#   powershell -ExecutionPolicy Bypass -File installer\windows\build.ps1
# Needs what run.ps1 needs, and Inno Setup 6.3 or newer for the installer.
. (Join-Path $PSScriptRoot "common.ps1")

$env:QT_QPA_PLATFORM = "offscreen"
Run $python -m pip install -q -c constraints.txt pyside6-essentials
Run $python installer\icons.py build\package\tessera.ico
Run $python installer\package.py --bundle-only

# The wheels that it was put together from are good by themselves, with Microsoft's Visual C++ redistributable:
#   pip install -c constraints.txt dist\wheels\NAME.whl dist\wheels\NAME.whl
New-Item -ItemType Directory -Force dist\wheels | Out-Null
Copy-Item build\package\wheels\*.whl dist\wheels\

$version = (Select-String -Path pyproject.toml -Pattern '^version = "(.*)"').Matches[0].Groups[1].Value
$compilers = @("${env:ProgramFiles(x86)}\Inno Setup 6\ISCC.exe", "$env:ProgramFiles\Inno Setup 6\ISCC.exe")
$iscc = $compilers | Where-Object { Test-Path $_ } | Select-Object -First 1
if (-not $iscc) { throw "Inno Setup is missing: jrsoftware.org. The bundle is in dist\tessera." }
Run $iscc "/DVersion=$version" installer\windows\tessera.iss
