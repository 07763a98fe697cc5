# `make demo` and `make test` do everything on a fresh Debian 12: install what is missing, build, run.
PACKAGES := g++ cmake ninja-build pkg-config libhwy-dev libutf8proc-dev libfmt-dev nlohmann-json3-dev \
            libcli11-dev libgtest-dev librapidcheck-dev libbenchmark-dev libdnnl-dev
WERROR   ?= OFF
JOBS     ?= $(shell nproc)
DATA     ?= $(firstword $(wildcard $(BERTIE_DATA) ../shared/data) none)

.PHONY: all demo test test-slow bench fuzz packages build install clean format
all: build

demo: build
	@build/bertie demo

test: build
	@ctest --test-dir build --output-on-failure -j $(JOBS)

packages:
	@tools/install_packages.sh $(PACKAGES)

build: packages
	@cmake --preset release -DBERTIE_WERROR=$(WERROR) > build-configure.log 2>&1 || { cat build-configure.log; exit 1; }
	@rm -f build-configure.log
	@cmake --build build -j $(JOBS)

install: build
	@cmake --install build

clean:
	rm -rf build build-debug build-asan-ubsan build-tsan build-fuzz

format:
	git ls-files '*.h' '*.cc' | xargs clang-format -i
