// The words of the device's errors, which need no device (cuda_fault_test makes them happen).
#include "cuda/errors.h"

#include <gtest/gtest.h>

namespace argon::cuda {
namespace {

void expect_parts(const Status& s, std::initializer_list<const char*> parts) {
  for (const char* part : parts)
    EXPECT_NE(s.message().find(part), std::string::npos) << part << " is not in: " << s.message();
  EXPECT_EQ(s.message().find('\n'), std::string::npos) << s.message();
}

TEST(CudaErrors, OutOfMemorySaysHowMuchByWhatHowMuchIsFreeAndWhatHelps) {
  const Status s =
      out_of_memory((uint64_t{3} << 30) + 1, "weights", {uint64_t{512} << 20, uint64_t{24} << 30});
  EXPECT_EQ(s.code(), Code::kResource);
  expect_parts(s, {"3073 MiB of GPU memory for weights", "512 MiB of 24576 MiB are free", "--gpu-memory SIZE",
                   "(-c)", "--pass", "--backend cpu"});
}

TEST(CudaErrors, DeviceErrorSaysWhereAndWhat) {
  const Status s = device_error("H200", "starting a kernel", "invalid argument", false);
  EXPECT_EQ(s.code(), Code::kInternal);
  EXPECT_EQ(s.message(), "CUDA device H200, starting a kernel: invalid argument");
}

TEST(CudaErrors, LostDeviceSaysWhatIsLeftToDo) {
  const Status s = device_error("H200", "computing", "an illegal memory access was encountered", true);
  EXPECT_EQ(s.code(), Code::kInternal);
  expect_parts(s, {"illegal memory access", "lost to this process", "start argon again", "--backend cpu"});
}

}  // namespace
}  // namespace argon::cuda
