# The way in for newcomers; the build itself is CMake (CMakePresets.json).
# Every target installs the Debian packages that it needs and that are missing, after saying which.

BUILD := build/release
ARGON := $(BUILD)/bin/argon
FUZZ_SECONDS := 60
# Taken literally: a $ in the prompt stays a $.
export ARGON_PROMPT := $(if $(value PROMPT),$(value PROMPT),What is a glacier?)

BUILD_PACKAGES := g++ cmake ninja-build libgtest-dev libcli11-dev nlohmann-json3-dev libfmt-dev libutf8proc-dev \
                  libedit-dev libssl-dev xz-utils
# qemu-user runs the program as on older processors; clang, its runtime and Boost.Context run GPU kernels on the CPU.
TEST_PACKAGES := qemu-user clang libclang-rt-14-dev libboost-context-dev

.DEFAULT_GOAL := help
.PHONY: help run build test test-long fuzz cuda clean

help: ## this list
	@sed -n 's/^\([a-z-]*\):[^#]*## /  make \1\t/p' Makefile

run: $(BUILD)/build.ninja ## answer PROMPT="..." with the bundled model (ARGS="..." for more options)
	@ninja -C $(BUILD) -n argon | grep -q 'no work to do' || ninja -C $(BUILD) argon >&2
	@$(ARGON) run $(ARGS) -p "$$ARGON_PROMPT"

build: $(BUILD)/build.ninja ## build every program into build/release/bin
	@ninja -C $(BUILD)

test: $(BUILD)/build.ninja ## build and run the tests (a few minutes)
	@scripts/need-packages $(TEST_PACKAGES)
	@cmake --preset release >/dev/null  # sees what was just installed
	@ninja -C $(BUILD)
	@scripts/run-tests $(BUILD) short

test-long: $(BUILD)/build.ninja ## build and run the tests that take longer
	@scripts/need-packages $(TEST_PACKAGES)
	@cmake --preset release >/dev/null  # sees what was just installed
	@ninja -C $(BUILD)
	@scripts/run-tests $(BUILD) long

# Both at once; a failure leaves crash-*.bin in build/fuzz.
fuzz: packages ## fuzz the parsers under AddressSanitizer and UBSan (FUZZ_SECONDS=60 each)
	@cmake --preset fuzz >/dev/null
	@ninja -C build/fuzz fuzz_gguf fuzz_tokenizer
	@cd build/fuzz && { bin/fuzz_gguf -seconds $(FUZZ_SECONDS) $(CURDIR)/gguf/seeds & g=$$!; \
	  bin/fuzz_tokenizer -seconds $(FUZZ_SECONDS) $(CURDIR)/tokenizer/fuzz_seeds; t=$$?; wait $$g && exit $$t; }

# In a folder of its own, as the presets take -DCMAKE_CUDA_ARCHITECTURES for other GPUs.
cuda: packages ## compile the CUDA backend and its tests for compute capability 9.0 (needs nvcc)
	@command -v nvcc >/dev/null || { echo "make cuda: there is no nvcc on the PATH; install NVIDIA's CUDA toolkit" >&2; exit 1; }
	@scripts/need-packages $(TEST_PACKAGES)
	@cmake -B build/cuda-90 -G Ninja -DCMAKE_BUILD_TYPE=Release -DARGON_CUDA=ON -DCMAKE_CUDA_ARCHITECTURES=90a >/dev/null
	@ninja -C build/cuda-90 argon cuda_ops_parity cuda_model_test cuda_fault_test gdn_prompt_parity comb_fold_parity cuda_bench cuda_step_bench cuda_stream_bench

clean: ## remove what was built
	rm -rf build

# Once: ninja itself notices when CMakeLists.txt files change. The packages are looked at every time, which is quick.
$(BUILD)/build.ninja: packages
	@test -f $@ || cmake --preset release

.PHONY: packages
packages:
	@scripts/need-packages $(BUILD_PACKAGES)
