#!/bin/sh
# Qt's wheels need a few system libraries that a bare Linux lacks. Installs them where it may (root on a Debian-like
# system), else says which command does. Silent when nothing is missing. With the argument "test": what the suite needs, too;
# with "package": what trying the packages needs.
set -eu
[ "$(uname -s)" = Linux ] || exit 0

missing=""
need() {  # need LIBRARY PACKAGE
  ldconfig -p 2>/dev/null | grep -q "$1" || missing="$missing $2"
}
need libEGL.so.1 libegl1
need libGL.so.1 libgl1
need libxkbcommon.so.0 libxkbcommon0
need libdbus-1.so.3 libdbus-1-3
need libfontconfig.so.1 libfontconfig1
need libxcb-cursor.so.0 libxcb-cursor0
command -v c++ >/dev/null 2>&1 || missing="$missing g++"
fc-list 2>/dev/null | grep -q . || missing="$missing fontconfig fonts-dejavu-core"
if [ "${1:-}" = test ]; then
  [ -e /usr/include/simde/x86/avx512.h ] || missing="$missing libsimde-dev"
fi
if [ "${1:-}" = package ]; then
  # What Qt needs on an X server, to be taken into the bundle.
  need libxcb-icccm.so.4 libxcb-icccm4
  need libxcb-image.so.0 libxcb-image0
  need libxcb-keysyms.so.1 libxcb-keysyms1
  need libxcb-render-util.so.0 libxcb-render-util0
  need libxkbcommon-x11.so.0 libxkbcommon-x11-0
  command -v debootstrap >/dev/null 2>&1 || missing="$missing debootstrap"
  command -v Xvfb >/dev/null 2>&1 || missing="$missing xvfb"
  command -v xmessage >/dev/null 2>&1 || missing="$missing x11-utils"
  command -v qemu-x86_64 >/dev/null 2>&1 || missing="$missing qemu-user"
  command -v appstreamcli >/dev/null 2>&1 || missing="$missing appstream"
  command -v desktop-file-validate >/dev/null 2>&1 || missing="$missing desktop-file-utils"
  command -v update-mime-database >/dev/null 2>&1 || missing="$missing shared-mime-info"
fi
[ -n "$missing" ] || exit 0

if command -v apt-get >/dev/null 2>&1 && [ "$(id -u)" = 0 ]; then
  echo "installing system libraries:$missing"
  # A mirror can fail for a moment; three tries.
  for attempt in 1 2 3; do
    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null && exit 0
    sleep 2
  done
  exit 1
elif command -v apt-get >/dev/null 2>&1; then
  echo "Missing system libraries. Please run:  sudo apt-get install$missing" >&2
else
  echo "Missing system libraries (Debian names):$missing" >&2
fi
