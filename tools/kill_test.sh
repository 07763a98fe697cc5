#!/bin/sh
# Kills a training run again and again, and compares what it makes with a run that nobody disturbed.
#   tools/kill_test.sh [KILLS]       50 without a number; two in five of them inside the writing of a checkpoint
set -e
build=${BUILD:-build}
kills=${1:-50}
cmake --build "$build" --target train_tests
BERTIE_KILLS=$kills "$build/train_tests" --gtest_filter='RunFolder.KillsAtAnyMoment*'
