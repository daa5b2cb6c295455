#!/bin/sh
# The kernel tests under sanitizers:  tests/sanitize.sh address,undefined | thread  [pytest arguments]
#
# Builds the native module apart with TESSERA_SANITIZE, preloads the sanitizer's runtime into Python (which is not
# instrumented itself) and lets the tests import that build. Any report ends the run with an error.
set -eu
kind=$1
shift
python=.venv/bin/python
build=build/sanitize-$(echo "$kind" | tr ',' '-')
export PATH="$PWD/.venv/bin:$PATH"

cmake -S kernels -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DTESSERA_SANITIZE="$kind" \
  -DPython_EXECUTABLE="$PWD/$python" >"$build.log" 2>&1 || { cat "$build.log"; exit 1; }
cmake --build "$build" --target _cpu >"$build.log" 2>&1 || { cat "$build.log"; exit 1; }

case $kind in
  thread)
    runtimes=libtsan.so
    set -- "$@" --deselect tests/kernels/test_thread_pool.py::test_a_forked_child_is_told # TSan ends such children
    ;;
  *) runtimes="libasan.so libubsan.so" ;;
esac
preload=
for runtime in $runtimes; do preload="$preload $(${CXX:-g++} -print-file-name=$runtime)"; done
# Python keeps memory until exit by design, so leaks are not looked for; numpy's own threads would only add noise.
LD_PRELOAD="$preload" \
  ASAN_OPTIONS=detect_leaks=0:abort_on_error=1 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 \
  TSAN_OPTIONS=halt_on_error=1:report_signal_unsafe=0:die_after_fork=0 OPENBLAS_NUM_THREADS=1 PYTHONMALLOC=malloc \
  TESSERA_TEST_KERNELS="$build" "$python" -m pytest -p tests.support.other_kernels "$@"
