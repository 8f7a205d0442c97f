#include "model/inspect.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "model/tests/edited_model.h"
#include "tests/harness/paths.h"

namespace argon {
namespace {

using testing::EditedModel;

bool contains(const std::string& text, std::string_view word) { return text.find(word) != std::string::npos; }

TEST(Inspect, BundledModel) {
  auto file = GgufFile::open(testing::tiny_model_path());
  ASSERT_TRUE(file.ok());
  InspectOptions options;
  options.tokens = 100;
  const InspectReport r = inspect(**file, options);
  EXPECT_TRUE(r.runnable());
  EXPECT_EQ(r.state.kv, 2u * 100 * 2 * 2 * 64 * 2);
  uint64_t values = 0;
  uint64_t bytes = 0;
  for (const InspectReport::Type& t : r.types) {
    values += t.values;
    bytes += t.bytes;
  }
  EXPECT_EQ(values, r.values);
  EXPECT_EQ(bytes, (*file)->total_bytes());
  // Counted by hand from the sizes: everything, less 12 of 16 experts, all but one embedding row and 8 n-gram
  // rows.
  const uint64_t experts = 8u * 3 * 16 * 128 * 256;
  const uint64_t table = 72320u * 32;
  EXPECT_EQ(r.active_values, r.values - experts / 16 * 12 - 4095u * 256 - (table - 8 * 32));
  const std::string text = inspect_text(r);
  EXPECT_TRUE(contains(text, "general.name = 'argon-tiny'")) << text;
  EXPECT_TRUE(contains(text, "tokenizer.ggml.tokens = [4096 x string]"));
  EXPECT_TRUE(contains(text, "argon can run this file"));
  EXPECT_FALSE(contains(text, "blk.0.attn_qkv.weight"));
  options.tensors = true;
  EXPECT_TRUE(contains(inspect_text(inspect(**file, options)), "blk.0.attn_qkv.weight"));
}

TEST(Inspect, JsonIsWhole) {
  auto file = GgufFile::open(testing::tiny_model_path());
  ASSERT_TRUE(file.ok());
  const auto j = nlohmann::json::parse(inspect_json(inspect(**file, {})));
  EXPECT_EQ(j["metadata"]["qwen4exp.embedding_length"], 256);
  EXPECT_EQ(j["metadata"]["tokenizer.ggml.tokens"]["count"], 4096);
  EXPECT_EQ(j["metadata"]["qwen4exp.ple.layer_multipliers"][0], 2043359076095531u);
  EXPECT_EQ(j["tensors"].size(), 214u);
  EXPECT_EQ(j["sizes"]["H"], 256);
  EXPECT_EQ(j["context"]["tokens"], 8192);
  EXPECT_TRUE(j["runnable"]);
}

TEST(Inspect, SaysWhyNot) {
  EditedModel m;
  m.u32("new.key", 3);
  m.set("odd\nname", GgufType::kString, testing::text("\xff\x1b[31m"));
  m.tensor("blk.0.attn_qkv.weight").type = WeightType::kQ4_0;
  m.tensor("blk.1.attn_qkv.weight").type = WeightType::kQ5_0;
  m.tensor("blk.0.hc_attn_up.weight").type = WeightType::kQ4_0;
  InspectOptions options;
  options.can_compute = [](WeightType t) { return t != WeightType::kQ4_0 && t != WeightType::kQ5_0; };
  const InspectReport r = inspect(*m.open(), options);
  EXPECT_FALSE(r.runnable());
  ASSERT_EQ(r.problems.size(), 2u);
  EXPECT_EQ(r.warnings.size(), 1u);
  const std::string text = inspect_text(r);
  EXPECT_TRUE(contains(text, "2 tensors are stored as Q4_0"));
  EXPECT_TRUE(contains(text, "1 tensors are stored as Q5_0 ('blk.1.attn_qkv.weight' first)"));
  EXPECT_TRUE(contains(text, "odd\\x0aname = '\\xff\\x1b[31m'"));
  EXPECT_TRUE(contains(text, "not read: 'qwen4exp.new.key'"));
  EXPECT_FALSE(nlohmann::json::parse(inspect_json(r))["runnable"]);
}

TEST(Inspect, OtherArchitecturesAreShown) {
  EditedModel m;
  m.set("general.architecture", GgufType::kString, testing::text("llama"));
  const InspectReport r = inspect(*m.open(), {});
  EXPECT_FALSE(r.runnable());
  EXPECT_FALSE(r.config.has_value());
  EXPECT_TRUE(contains(inspect_text(r), "the architecture is 'llama'"));
  EXPECT_FALSE(nlohmann::json::parse(inspect_json(r)).contains("sizes"));
}

}  // namespace
}  // namespace argon
