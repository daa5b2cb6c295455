; Inno Setup: dist\tessera becomes dist\Tessera-VERSION-setup.exe. build.ps1 runs it. Never run so far: see README.md.
; Per user, so that no administrator is asked; uninstalling leaves %LOCALAPPDATA%\Tessera, where the user's data is.
[Setup]
AppId={{6B0F3C52-1A5E-4C0B-9C1E-7E55E2A7D0F1}
AppName=Tessera
AppVersion={#Version}
AppPublisher=The Tessera authors
DefaultDirName={autopf}\Tessera
DefaultGroupName=Tessera
DisableProgramGroupPage=yes
PrivilegesRequired=lowest
PrivilegesRequiredOverridesAllowed=dialog
ArchitecturesAllowed=x64compatible
ArchitecturesInstallIn64BitMode=x64compatible
MinVersion=10.0.17763
OutputDir=..\..\dist
OutputBaseFilename=Tessera-{#Version}-setup
LicenseFile=..\..\LICENSE
SetupIconFile=..\..\build\package\tessera.ico
UninstallDisplayIcon={app}\tessera.exe
Compression=lzma2/normal
SolidCompression=yes
ChangesAssociations=yes
CloseApplications=yes
WizardStyle=modern

[Languages]
Name: "en"; MessagesFile: "compiler:Default.isl"

[Tasks]
Name: "desktop"; Description: "Create a &desktop shortcut"; Flags: unchecked
Name: "gguf"; Description: "Open .gguf model files with Tessera"

[Files]
Source: "..\..\dist\tessera\*"; DestDir: "{app}"; Flags: recursesubdirs ignoreversion

[InstallDelete]
; What an older version had and this one has not must not be imported by accident.
Type: filesandordirs; Name: "{app}\_internal"

[Icons]
Name: "{group}\Tessera"; Filename: "{app}\tessera.exe"
Name: "{autodesktop}\Tessera"; Filename: "{app}\tessera.exe"; Tasks: desktop

[Registry]
Root: HKA; Subkey: "Software\Classes\.gguf\OpenWithProgids"; ValueType: string; ValueName: "Tessera.gguf"; ValueData: ""; Flags: uninsdeletevalue; Tasks: gguf
Root: HKA; Subkey: "Software\Classes\Tessera.gguf"; ValueType: string; ValueData: "GGUF language model"; Flags: uninsdeletekey; Tasks: gguf
Root: HKA; Subkey: "Software\Classes\Tessera.gguf\DefaultIcon"; ValueType: string; ValueData: "{app}\tessera.exe,0"; Tasks: gguf
Root: HKA; Subkey: "Software\Classes\Tessera.gguf\shell\open\command"; ValueType: string; ValueData: """{app}\tessera.exe"" ""%1"""; Tasks: gguf

[Run]
Filename: "{app}\tessera.exe"; Description: "Start Tessera"; Flags: nowait postinstall skipifsilent
