// Entry point of every GoogleTest program of the project. Cases run under the contract's floating-point mode.
#include <gtest/gtest.h>

#include "base/fp_env.h"

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  argon::ScopedFlushSubnormals flush;
  return RUN_ALL_TESTS();
}
