#!/bin/sh
# Kills training runs again and again, and compares what they make with runs that nobody disturbed: a small
# learner in the tests' own process, and then bertie pretrain with looks at held-out data.
#   tools/kill_test.sh [KILLS]       50 of each without a number; two in five of them inside the writing of a
#                                    checkpoint
set -e
build=${BUILD:-build}
export BERTIE_KILLS="${1:-50}"
cmake --build "$build" --target train_tests cli_tests bertie_program
"$build/train_tests" --gtest_filter='RunFolder.KillsAtAnyMoment*'
"$build/cli_tests" --gtest_filter='Pretrain.KillsAtAnyMoment*'
