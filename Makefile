# `make demo` and `make test` do everything on a fresh Debian 12: install what is missing, build, run.
PACKAGES := g++ cmake ninja-build pkg-config libhwy-dev libfmt-dev nlohmann-json3-dev libgtest-dev librapidcheck-dev \
            zlib1g-dev liblzma-dev libzstd-dev libcurl4-openssl-dev ca-certificates libboost1.81-dev prometheus-cpp-dev
MPI_PACKAGES   := libopenmpi-dev openmpi-bin
PAGE_PACKAGES  := chromium
BENCH_PACKAGES := libbenchmark-dev libdnnl-dev
FUZZ_PACKAGES  := clang-14 libclang-rt-14-dev python3
PYTHON_PACKAGES := python3-dev python3-venv
DEB_PACKAGES    := dpkg-dev file git
CLANG_PACKAGES  := clang-19 libc++-19-dev libc++abi-19-dev dpkg-dev
ARM64_PACKAGES  := g++-aarch64-linux-gnu qemu-user debootstrap
WERROR   ?= OFF
JOBS     ?= $(shell nproc)

.PHONY: all demo test test-slow test-arm64 test-clang test-python package test-package test-reproducible bench fuzz packages configure build install clean format
all: build

demo:
	@echo "1/3 Configuring: looks for a compiler and libraries, and installs what is missing."
	@$(MAKE) --no-print-directory configure
	@echo "2/3 Building build/bertie with $(JOBS) jobs: several minutes the first time, seconds after that."
	@cmake --build build -j $(JOBS) --target bertie_program
	@echo "3/3 Running build/bertie demo."
	@echo
	@build/bertie demo

test: PACKAGES += $(MPI_PACKAGES)
test: build
	@ctest --test-dir build --output-on-failure -j $(JOBS)

# What takes minutes; then the suites again under AddressSanitizer + UBSan, under ThreadSanitizer, by clang, and for 64-bit ARM.
test-slow: PACKAGES += $(MPI_PACKAGES) $(PAGE_PACKAGES)
test-slow: build
	@BERTIE_SLOW_TESTS=1 ctest --test-dir build --output-on-failure -R 'NumbersToWords|Memory|^page'
	@tests/tour/run.sh build/bertie docs/tour.md --slow
	@for preset in asan-ubsan tsan; do \
	  cmake --preset $$preset > /dev/null && cmake --build --preset $$preset -j $(JOBS) && \
	  ctest --preset $$preset -j $(JOBS) || exit 1; \
	done
	@$(MAKE) --no-print-directory test-clang
	@$(MAKE) --no-print-directory test-arm64

# The suites that are run of other compilers' and machines' builds.
SUITES := core kernels attention io text model tasks

# Built by clang, for libstdc++ and for libc++, with warnings as errors. Debian's C++ libraries are for libstdc++.
test-clang: PACKAGES += $(CLANG_PACKAGES)
test-clang: packages
	@JOBS=$(JOBS) tools/static_libraries.sh build-libcxx/static "highway fmtlib prometheus-cpp googletest" \
	  -DCMAKE_CXX_COMPILER=clang++-19 -DCMAKE_CXX_FLAGS=-stdlib=libc++
	@for preset in clang libcxx; do \
	  cmake --preset $$preset > /dev/null && \
	  cmake --build --preset $$preset -j $(JOBS) --target bertie bertie_program $(addsuffix _tests,$(SUITES)) || exit 1; \
	  for suite in $(SUITES); do echo "$$preset: $$suite"; build-$$preset/$${suite}_tests --gtest_brief=1 || exit 1; done; \
	  build-$$preset/bertie fill-mask "He was [MASK] in London in 1897." || exit 1; \
	done

# Built for 64-bit ARM, and run under qemu (needs root, for debootstrap).
test-arm64: PACKAGES += $(ARM64_PACKAGES)
test-arm64: packages
	@tools/arm64_root.sh $(PACKAGES)
	@cmake --preset arm64 > /dev/null
	@cmake --build --preset arm64 -j $(JOBS) --target bertie_program $(addsuffix _tests,$(SUITES))
	@for suite in $(SUITES); do echo "arm64: $$suite"; \
	  qemu-aarch64 -cpu max -L build-arm64/root build-arm64/build/$${suite}_tests --gtest_brief=1 || exit 1; \
	done
	@qemu-aarch64 -cpu max -L build-arm64/root build-arm64/build/bertie fill-mask "He was [MASK] in London in 1897."

# The Python module, as a wheel in an environment of its own (build-python/venv), beside what it is compared with. Torch
# takes gigabytes: without it (REFERENCE=) the tests against transformers are skipped. What the build needs is there too
# (--no-build-isolation): in a fresh environment for each build all of it would be compiled anew.
PYTHON    ?= python3
REFERENCE ?= -r python/tests/requirements-transformers.txt
PIP       := build-python/venv/bin/pip -q --disable-pip-version-check
test-python: PACKAGES += $(PYTHON_PACKAGES)
test-python: packages
	@test -d build-python/venv || $(PYTHON) -m venv build-python/venv
	@$(PIP) install -r python/tests/requirements.txt $(REFERENCE)
	@rm -rf build-python/wheels
	@CMAKE_BUILD_PARALLEL_LEVEL=$(JOBS) $(PIP) wheel . --no-deps --no-build-isolation -w build-python/wheels
	@$(PIP) install --force-reinstall --no-deps build-python/wheels/bertie-*.whl
	@BERTIE_WHEEL=$$(ls $(CURDIR)/build-python/wheels/bertie-*.whl) build-python/venv/bin/python -m pytest -q python/tests

# Debian packages and a tarball, in build-package; then both in a fresh Debian, in a folder of its own (needs root).
package: PACKAGES += $(MPI_PACKAGES) $(DEB_PACKAGES)
package: packages
	@JOBS=$(JOBS) tools/package.sh

test-package: package
	@tools/install_packages.sh debootstrap
	@tools/test_packages.sh bookworm bullseye

# Packages of the last commit made in two places: the same bytes.
test-reproducible: PACKAGES += $(MPI_PACKAGES) $(DEB_PACKAGES)
test-reproducible: packages
	@JOBS=$(JOBS) tools/test_reproducible.sh

# Kernel by kernel, the linear layers beside oneDNN's; then whole models and attention against the machine's peak.
bench: build
	@tools/install_packages.sh $(BENCH_PACKAGES)
	@cmake --preset release > /dev/null && cmake --build build --target bertie_kernels_bench -j $(JOBS)
	@OMP_NUM_THREADS=1 build/bertie_kernels_bench --benchmark_repetitions=8 --benchmark_enable_random_interleaving=true
	@build/bertie bench encode
	@build/bertie bench attention

FUZZ_SECONDS ?= 300
fuzz: PACKAGES += $(FUZZ_PACKAGES)
fuzz: packages
	@JOBS=$(JOBS) tools/fuzz.sh $(FUZZ_SECONDS)

packages:
	@tools/install_packages.sh $(PACKAGES)

configure: packages
	@mkdir -p build
	@cmake --preset release -DBERTIE_WERROR=$(WERROR) > build/configure.log 2>&1 || { cat build/configure.log; exit 1; }

build: configure
	@cmake --build build -j $(JOBS)

install: build
	@cmake --install build

clean:
	rm -rf build build-arm64 build-clang build-libcxx build-package build-debug build-asan-ubsan build-tsan build-fuzz build-python build-python-*

format:
	@tools/install_packages.sh clang-format
	@git ls-files '*.h' '*.cc' | xargs clang-format -i
