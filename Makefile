# Two commands do everything on a fresh machine:
#   make run    environment, build, starter model, then the app
#   make test   environment, build, starter model, then the whole suite, offscreen
PYTHON ?= python3
VENV ?= .venv
PY := $(VENV)/bin/python
PIP := $(PY) -m pip --disable-pip-version-check
NATIVE_SOURCES := $(shell find kernels -name '*.cpp' -o -name '*.h' -o -name '*.cu' -o -name '*.cuh' -o -name '*.cmake' -o -name CMakeLists.txt)
# llama.cpp's multimodal library doubles its build time and nothing here uses it.
export CMAKE_ARGS ?= -DLLAVA_BUILD=OFF
export PATH := $(abspath $(VENV)/bin):$(PATH)

.PHONY: run test bench soak gpu-check sanitize check format screenshots package package-test setup build test-build starter clean

run: build starter
	@if command -v nvidia-smi >/dev/null 2>&1; then $(PIP) install -q -c constraints.txt -e '.[gpu]' --no-build-isolation; fi
	$(PY) -m app

test: test-build starter
	QT_QPA_PLATFORM=offscreen $(PY) -m pytest tests $(ARGS)

setup: $(VENV)/.packages
build: $(VENV)/.native
# The suite's build has the AVX-512 tiers in software as well, for machines without them.
test-build: $(VENV)/.native-test

$(VENV)/.tools: pyproject.toml constraints.txt installer/system_libraries.sh
	sh installer/system_libraries.sh
	test -x $(PY) || $(PYTHON) -m venv $(VENV)
	$(PIP) install -q -c constraints.txt 'pip>=25.1'  # the first that reads dependency groups
	$(PIP) install -q -c constraints.txt --group build
	touch $@

$(VENV)/.packages: $(VENV)/.tools
	$(PIP) install -q -c constraints.txt --group test --group check --no-build-isolation -e .
	touch $@

$(VENV)/.native: $(VENV)/.packages $(NATIVE_SOURCES)
	$(PIP) install -q --no-deps --no-build-isolation -e .
	touch $@

$(VENV)/.native-test: $(VENV)/.packages $(NATIVE_SOURCES)
	sh installer/system_libraries.sh test
	$(PIP) install -q --no-deps --no-build-isolation -C cmake.define.TESSERA_EMULATE_AVX512=ON -e .
	touch $@ $(VENV)/.native

starter: $(VENV)/.native
	@$(PY) -m engine.hub.starter

# Speed beside llama.cpp, on the starter model and on random weights of real shapes (5 GB under build/).
bench: build starter
	$(PY) -m tests.bench.speed --json build/bench.json --markdown build/bench.md $(ARGS)

soak: test-build starter
	QT_QPA_PLATFORM=offscreen $(PY) -m pytest tests --soak $(ARGS)

# On a computer with an NVIDIA GPU: the kernels' tests on it, its probe, then speeds at several budgets beside what was
# predicted; to build/gpu-check.md.
# ARGS="--minutes 9" for a card that is lent for ten minutes; ARGS="--prepare 89" compiles for it ahead, without one.
gpu-check: build starter
	$(PY) -m tests.gpu_check $(ARGS)

# The native tests under AddressSanitizer with UBSan, then ThreadSanitizer, each pair of parameters once; builds its own
# extensions under build/, where the table of results, sanitize.md, lies afterwards.
sanitize: test-build starter
	$(PY) -m tests.sanitize $(ARGS)

screenshots: build starter
	QT_QPA_PLATFORM=offscreen $(PY) -m tests.screenshots $(ARGS)

# The bundle, and on Linux a .deb and a single file, in dist/; ARGS=--bundle-only makes the folder alone.
package: $(VENV)/.tools
	sh installer/system_libraries.sh package
	$(PY) installer/package.py $(ARGS)

# The same, tried where nothing of ours is: see installer/package_test.py. Needs root and a Debian mirror; TESTS=--quick
# does not.
package-test: package
	$(PY) installer/package_test.py $(TESTS)

check: build
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy
	$(VENV)/bin/lint-imports
	find kernels \( -name '*.cpp' -o -name '*.h' \) -print0 | xargs -0 $(VENV)/bin/clang-format --dry-run --Werror

format: setup
	$(PY) -m ruff check --fix-only .
	$(PY) -m ruff format .
	find kernels \( -name '*.cpp' -o -name '*.h' \) -print0 | xargs -0 $(VENV)/bin/clang-format -i

clean:
	rm -rf build dist $(VENV)
