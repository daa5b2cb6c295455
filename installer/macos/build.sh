#!/bin/sh
# Tessera.app and a disk image with it, in dist/. Processor only, unsigned; never run so far: see ../README.md.
set -eu
cd "$(dirname "$0")/../.."
[ "$(uname -s)" = Darwin ] || { echo "This builds on macOS only." >&2; exit 1; }
xcode-select -p >/dev/null 2>&1 || { echo "The command line tools are missing: xcode-select --install" >&2; exit 1; }
make package ARGS=--bundle-only
version=$(sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)
icons=build/package/tessera.iconset
rm -rf "$icons" && mkdir -p "$icons"
QT_QPA_PLATFORM=offscreen .venv/bin/python installer/icons.py "$icons"
iconutil -c icns -o build/package/tessera.icns "$icons"
app=dist/Tessera.app/Contents
rm -rf dist/Tessera.app && mkdir -p "$app/MacOS" "$app/Resources"
cp dist/tessera/tessera "$app/MacOS/"
cp -R dist/tessera/_internal "$app/Frameworks"  # where PyInstaller's program looks inside an .app
cp build/package/tessera.icns "$app/Resources/"
sed "s/@VERSION@/$version/" installer/macos/Info.plist >"$app/Info.plist"
hdiutil create -ov -volname Tessera -srcfolder dist/Tessera.app "dist/Tessera-$version.dmg"
