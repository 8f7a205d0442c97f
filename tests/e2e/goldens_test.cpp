// The logits of the fixtures, pinned by SHA-256: what one machine computes, all compute, today and later. A
// change of the numeric contract (base/contract.h) comes with new values in tests/data/goldens.json, in the
// same commit; any other difference is a fault. A failing case prints what it found.
#include <gtest/gtest.h>
#include <openssl/evp.h>

#include <array>
#include <bit>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/contract.h"
#include "tests/e2e/engine.h"
#include "tests/harness/safetensors.h"

namespace argon::testing {
namespace {

// Of the float32 logits [T][V] as little-endian bytes.
std::string sha256(const std::vector<float>& logits) {
  static_assert(std::endian::native == std::endian::little);
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  if (EVP_Digest(logits.data(), logits.size() * sizeof(float), digest.data(), &size, EVP_sha256(), nullptr) !=
      1)
    return "EVP_Digest failed";
  std::string hex;
  for (unsigned i = 0; i < size; ++i) {
    constexpr char kDigits[] = "0123456789abcdef";
    hex += {kDigits[digest[i] >> 4], kDigits[digest[i] & 15]};
  }
  return hex;
}

class Goldens : public ::testing::Test {
 protected:
  nlohmann::json goldens = nlohmann::json::parse(std::ifstream(source_path("tests/data/goldens.json")));

  void expect(const std::string& name, const std::vector<float>& logits) {
    const auto& values = goldens.at("sha256");
    const std::string found = sha256(logits);
    EXPECT_EQ(found, values.contains(name) ? values.at(name).get<std::string>() : "no value recorded")
        << "\"" << name << "\" at level " << isa_name(wanted_isa()) << ": found " << found;
  }
  void expect_tiny_random(const std::string& type, const std::string& kv_name, ops::KvType kv) {
    const SafeTensors reference(source_path("tests/data/tiny-random/reference.safetensors"));
    Engine engine(fixture_path("tiny-random-" + type + ".gguf"), {.kv = kv});
    expect("tiny-random " + type + " kv " + kv_name + " ids_300",
           engine.logits(reference.get<int32_t>("ids_300")));
  }
};

TEST_F(Goldens, AreOfThisContract) {
  EXPECT_EQ(goldens.at("contract").get<uint32_t>(), kContractVersion)
      << "record the goldens anew: each failing case prints its value";
}

TEST_F(Goldens, TinyRandomF32KvF32) { expect_tiny_random("F32", "f32", ops::KvType::kF32); }
TEST_F(Goldens, TinyRandomF32KvF16) { expect_tiny_random("F32", "f16", ops::KvType::kF16); }
TEST_F(Goldens, TinyRandomQ8) { expect_tiny_random("Q8_0", "f16", ops::KvType::kF16); }

TEST_F(Goldens, ArgonTinyQ8) {
  Engine engine(tiny_model_path(), {});
  const SafeTensors reference(source_path("tests/data/argon-tiny/reference.safetensors"));
  for (int i = 0; i < 6; ++i) {
    const std::string ids = "ids_" + std::to_string(i);
    expect("argon-tiny Q8_0 kv f16 " + ids, engine.logits(reference.get<int32_t>(ids)));
  }
}

}  // namespace
}  // namespace argon::testing
