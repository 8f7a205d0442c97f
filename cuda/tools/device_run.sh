#!/bin/bash
# On a machine with an NVIDIA GPU, in the repository's root: parity, the whole model, faults, then the benches.
# usage: cuda/tools/device_run.sh BIN_FOLDER [SCRATCH_FOLDER]
set -u
bin=$1
scratch=${2:-/tmp}
"$bin"/cuda_ops_parity --gtest_brief=1 && "$bin"/cuda_model_test --gtest_brief=1 && "$bin"/cuda_fault_test --gtest_brief=1 || exit 1
"$bin"/cuda_bench scan
"$bin"/cuda_bench make "$scratch"/synth12.gguf 12
"$bin"/cuda_bench model "$scratch"/synth12.gguf 12 8192 4096
"$bin"/cuda_bench model "$scratch"/synth12.gguf 48 8192 4096
