// What goes wrong on the device ends the request that meets it, says what helps, and leaves the process able
// to go on: without memory, with a launch refused, with the device lost. The words are errors_test.cpp's.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "cuda/cuda_backend.h"
#include "cuda/tests/fault_kernels.h"
#include "tests/e2e/engine.h"

namespace argon::testing {
namespace {

constexpr int64_t kPass = 512, kContext = 1024;
constexpr ops::KvType kKv = ops::KvType::kF16;
const std::vector<int32_t> kIds = {1, 2, 3, 4, 5, 6, 7};

std::string model_file() { return fixture_path("tiny-random-Q8_0.gguf"); }

// A model on the device; reads may fail.
class OnDevice {
 public:
  explicit OnDevice(const std::string& path) : backend_(must(CudaBackend::create(0))) {
    model_ = must(Model::load(path, *backend_));
  }
  Status prepare() {
    const ModelConfig& c = model_->config();
    ARGON_ASSIGN_OR_RETURN(forward_, Forward::create(c, model_->weights(), *backend_, kPass, kContext));
    ARGON_ASSIGN_OR_RETURN(state_, SequenceState::create(c, *backend_, kContext, kKv));
    return {};
  }
  // The logits of all tokens into `out`.
  Status read(std::span<const int32_t> ids, std::vector<float>& out) {
    out.assign(ids.size() * static_cast<size_t>(model_->config().V), 0.0f);
    ReadOptions r;
    r.logits = LogitsFor::kAll;
    r.out = out.data();
    return forward_->read(*state_, ids, r);
  }
  CudaBackend& backend() { return *backend_; }
  SequenceState& state() { return *state_; }

 private:
  std::unique_ptr<CudaBackend> backend_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<Forward> forward_;
  std::unique_ptr<SequenceState> state_;
};

std::vector<float> wanted_logits() {
  return Engine(model_file(), {.kv = kKv, .max_pass = kPass, .context = kContext}).logits(kIds);
}

bool same(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// Takes what memory the device has left, to less than 2 MiB in one piece.
class Filler {
 public:
  Filler() {
    for (size_t bytes = size_t{1} << 40; bytes >= size_t{1} << 20; bytes /= 2) {
      void* p = nullptr;
      while (cudaMalloc(&p, bytes) == cudaSuccess) taken_.push_back(p);
      cudaGetLastError();
    }
  }
  ~Filler() { release(); }
  void release() {
    for (void* p : taken_) cudaFree(p);
    taken_.clear();
  }

 private:
  std::vector<void*> taken_;
};

void expect_parts(const Status& s, std::initializer_list<const char*> parts) {
  for (const char* part : parts)
    EXPECT_NE(s.message().find(part), std::string::npos) << part << " is not in: " << s.message();
}

class CudaFault : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!cuda_available()) GTEST_SKIP() << "no CUDA device of compute capability 8.0 or newer";
  }
};

TEST_F(CudaFault, NoMemoryForAModel) {
  OnDevice model(tiny_model_path());
  Filler filler;
  const Status s = model.prepare();
  EXPECT_EQ(s.code(), Code::kResource);
  expect_parts(s, {"cannot get ", " MiB of GPU memory for ", " are free", "--gpu-memory", "--backend cpu"});
  filler.release();
  const Status again = model.prepare();
  EXPECT_TRUE(again.ok()) << again.message();
}

TEST_F(CudaFault, NoMemoryForAPassEndsTheRequest) {
  std::vector<float> found;
  {
    // Kernels are loaded as they are first used, which takes memory, too.
    OnDevice first(model_file());
    ASSERT_TRUE(first.prepare().ok());
    ASSERT_TRUE(first.read(kIds, found).ok());
  }
  OnDevice model(model_file());
  ASSERT_TRUE(model.prepare().ok());
  Filler filler;
  const Status s = model.read(kIds, found);
  EXPECT_EQ(s.code(), Code::kResource);
  expect_parts(s, {"cannot get ", " MiB of GPU memory for working memory of kernels", " are free", "--pass"});
  EXPECT_EQ(model.state().position(), 0);
  filler.release();
  const Status again = model.read(kIds, found);
  EXPECT_TRUE(again.ok()) << again.message();
  EXPECT_TRUE(same(found, wanted_logits()));
}

// Again and again at the same place, so that one of them is met while a graph is made.
TEST_F(CudaFault, RefusedLaunchEndsTheRequest) {
  const std::vector<float> wanted = wanted_logits();
  OnDevice model(model_file());
  ASSERT_TRUE(model.prepare().ok());
  std::vector<float> found;
  for (int i = 0; i < 4; ++i) {
    ask_too_much(model.backend().queue());
    const Status s = model.read(kIds, found);
    EXPECT_EQ(s.code(), Code::kInternal);
    expect_parts(s, {"CUDA device ", "starting a kernel: "});
    EXPECT_EQ(s.message().find("lost"), std::string::npos) << s.message();
    EXPECT_EQ(model.state().position(), 0);
    const Status again = model.read(kIds, found);
    ASSERT_TRUE(again.ok()) << again.message();
    EXPECT_TRUE(same(found, wanted)) << "after refusal " << i;
    model.state().reset();
  }
}

#define EXPECT_HERE(what) \
  if (!(what)) std::fprintf(stderr, "line %d: %s\n", __LINE__, #what), std::exit(1)

// In a process of its own.
void lose_the_device() {
  const std::vector<float> wanted = wanted_logits();
  std::vector<float> found;
  {
    OnDevice model(model_file());
    EXPECT_HERE(model.prepare().ok());
    EXPECT_HERE(model.read(kIds, found).ok());
    EXPECT_HERE(same(found, wanted));
    model.state().reset();
    write_nowhere(model.backend().queue());
    for (int i = 0; i < 3; ++i) {
      const Status s = model.read(kIds, found);
      std::fprintf(stderr, "%s\n", s.message().c_str());
      EXPECT_HERE(s.code() == Code::kInternal);
      EXPECT_HERE(s.message().find("lost to this process") != std::string::npos);
      EXPECT_HERE(model.state().position() == 0);
    }
    const auto p = model.backend().allocate(1000);
    EXPECT_HERE(!p.ok() && p.status().code() == Code::kInternal);
    EXPECT_HERE(p.status().message().find("lost to this process") != std::string::npos);
  }
  // The CPU goes on.
  EXPECT_HERE(same(wanted_logits(), wanted));
  std::fprintf(stderr, "the process goes on\n");
  std::exit(0);
}

TEST_F(CudaFault, LostDeviceEndsTheRequestAndNotTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(lose_the_device(), ::testing::ExitedWithCode(0), "the process goes on");
}

}  // namespace
}  // namespace argon::testing
