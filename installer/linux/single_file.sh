#!/bin/sh
# Tessera @VERSION@, unpacked once to the user's data folder and started. Everything after the last line is a tar.gz.
#   Tessera.run [FILE]     start, with a model
#   Tessera.run --install  also put it into the menu and open .gguf files with it
#   Tessera.run --remove   take both away; conversations, settings and models stay
set -eu
home="${XDG_DATA_HOME:-$HOME/.local/share}"
programs="$home/tessera-program"
here="$programs/@VERSION@-@DIGEST@"
log="$home/Tessera/logs/start.log"
self=$(readlink -f "$0")

tell() {  # a window if anything can show one, and standard error
  mkdir -p "$(dirname "$log")" 2>/dev/null && printf '%s\n' "$1" >>"$log" || true
  printf '%s\n' "$1" >&2
  if [ -n "${DISPLAY:-}${WAYLAND_DISPLAY:-}" ]; then
    zenity --error --no-markup --title=Tessera --text="$1" 2>/dev/null ||
      kdialog --title Tessera --error "$1" 2>/dev/null ||
      xmessage -center "$1" 2>/dev/null || true
  fi
}

unpack() {
  free=$(df -Pm "$programs" | awk 'NR == 2 { print $4 }')
  if [ "$free" -lt $((@MEGABYTES@ + 50)) ]; then
    tell "Tessera needs @MEGABYTES@ MB in $programs; $free MB are free. Nothing was changed. Free some space, then start it again. (Log: $log)"
    exit 1
  fi
  part="$here.$$"
  mkdir -p "$part"
  trap 'rm -rf "$part"' EXIT HUP INT TERM
  if ! tail -c +@OFFSET@ "$self" | tar -xzf - -C "$part" --strip-components=1; then
    tell "Tessera could not be unpacked to $programs: the file $self is damaged. Nothing was changed. Download it again. (Log: $log)"
    exit 1
  fi
  mv "$part" "$here" 2>/dev/null || [ -x "$here/tessera" ]  # a second start may have been faster
  trap - EXIT HUP INT TERM
}

desktop() {  # tell the desktop, if its tools are there
  update-desktop-database "$home/applications" 2>/dev/null || true
  update-mime-database "$home/mime" 2>/dev/null || true
}

if [ "${1:-}" = --remove ]; then
  rm -rf "$programs"
  rm -f "$home/applications/tessera.desktop" "$home/mime/packages/tessera.xml" \
    "$home/metainfo/tessera.metainfo.xml" "$home/icons/hicolor/scalable/apps/tessera.svg"
  desktop
  echo "Tessera was removed. Your conversations, settings and models are still in $home/Tessera."
  exit 0
fi
if ! mkdir -p "$programs" 2>/dev/null; then
  tell "Tessera cannot write to $programs. Check the permissions and the free space there."
  exit 1
fi
[ -x "$here/tessera" ] || unpack
if [ "${1:-}" = --install ]; then
  cp -R "$here/share/." "$home/"
  sed -i "s|^Exec=tessera|Exec=\"$self\"|" "$home/applications/tessera.desktop"
  desktop
  echo "Tessera is in the menu now. '$self --remove' takes it away again."
  exit 0
fi
exec "$here/tessera" "$@"
exit 0
