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

words() {  # words ENGLISH CHINESE: what the user reads
  case "${LANGUAGE:-${LC_ALL:-${LC_MESSAGES:-${LANG:-}}}}" in zh*) printf '%s\n' "$2" ;; *) printf '%s\n' "$1" ;; esac
}

tell() {  # a window if anything can show one, and standard error
  text=$(words "$1" "$2")
  mkdir -p "$(dirname "$log")" 2>/dev/null && printf '%s\n' "$text" >>"$log" || true
  printf '%s\n' "$text" >&2
  if [ -n "${DISPLAY:-}${WAYLAND_DISPLAY:-}" ]; then
    zenity --error --no-markup --title=Tessera --text="$text" 2>/dev/null ||
      kdialog --title Tessera --error "$text" 2>/dev/null ||
      xmessage -xrm '*international: true' -center "$text" 2>/dev/null || true
  fi
}

unpack() {
  free=$(df -Pm "$programs" | awk 'NR == 2 { print $4 }')
  if [ "$free" -lt $((@MEGABYTES@ + 50)) ]; then
    tell "Tessera needs @MEGABYTES@ MB in $programs; $free MB are free. Nothing was changed. Free some space, then start it again. (Log: $log)" \
      "Tessera 需要 $programs 中有 @MEGABYTES@ MB 可用空间，目前只有 $free MB。未做任何更改。请释放一些空间后重新启动。（日志：$log）"
    exit 1
  fi
  part="$here.$$"
  mkdir -p "$part"
  trap 'rm -rf "$part"' EXIT HUP INT TERM
  if ! tail -c +@OFFSET@ "$self" | tar -xzf - -C "$part" --strip-components=1; then
    tell "Tessera could not be unpacked to $programs: the file $self is damaged. Nothing was changed. Download it again. (Log: $log)" \
      "无法将 Tessera 解压到 $programs：文件 $self 已损坏。未做任何更改。请重新下载。（日志：$log）"
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
  words "Tessera was removed. Your conversations, settings and models are still in $home/Tessera." \
    "Tessera 已移除。您的对话、设置和模型仍在 $home/Tessera 中。"
  exit 0
fi
if ! mkdir -p "$programs" 2>/dev/null; then
  tell "Tessera cannot write to $programs. Check the permissions and the free space there." \
    "Tessera 无法写入 $programs。请检查该处的权限和可用空间。"
  exit 1
fi
[ -x "$here/tessera" ] || unpack
if [ "${1:-}" = --install ]; then
  cp -R "$here/share/." "$home/"
  sed -i "s|^Exec=tessera|Exec=\"$self\"|" "$home/applications/tessera.desktop"
  desktop
  words "Tessera is in the menu now. '$self --remove' takes it away again." \
    "Tessera 已加入菜单。“$self --remove”可将其移除。"
  exit 0
fi
exec "$here/tessera" "$@"
exit 0
