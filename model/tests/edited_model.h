// The bundled random model with chosen keys and tensors changed, as a GGUF file in memory.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "gguf/gguf.h"
#include "gguf/tests/raw_file.h"
#include "gguf/writer.h"
#include "tests/harness/paths.h"

namespace argon::testing {

struct EditedTensor {
  std::string name;
  WeightType type;
  std::vector<int64_t> dims;
  std::string data;  // cut or padded with zeros to the tensor's size
};

class EditedModel {
 public:
  struct Entry {
    std::string key;
    GgufType type;
    std::string encoded;
  };

  explicit EditedModel(const std::string& path = fixture_path("tiny-random-Q8_0.gguf")) {
    auto file = GgufFile::open(path);
    EXPECT_TRUE(file.ok()) << file.status().message();
    if (!file.ok()) return;
    for (const GgufEntry& e : (*file)->metadata()) {
      const auto enc = e.value.encoded();
      entries.push_back(
          {std::string(e.key), e.value.type(), {reinterpret_cast<const char*>(enc.data()), enc.size()}});
    }
    for (const GgufTensor& t : (*file)->tensors()) {
      tensors.push_back({std::string(t.name),
                         t.type,
                         {t.dims.begin(), t.dims.begin() + t.n_dims},
                         {reinterpret_cast<const char*>(t.data), t.bytes}});
    }
  }

  // The same edits so far; the copy opens a file of its own.
  EditedModel copy() const { return EditedModel(entries, tensors); }

  void remove(std::string_view key) {
    std::erase_if(entries, [&](const Entry& e) { return e.key == key; });
  }
  void set(std::string_view key, GgufType type, std::string encoded) {
    for (Entry& e : entries) {
      if (e.key == key) {
        e.type = type;
        e.encoded = std::move(encoded);
        return;
      }
    }
    entries.push_back({std::string(key), type, std::move(encoded)});
  }
  // Keys of the architecture, without its prefix.
  void u32(std::string_view key, uint32_t v) { set("qwen4exp." + std::string(key), GgufType::kU32, le(v)); }
  void i32(std::string_view key, int32_t v) { set("qwen4exp." + std::string(key), GgufType::kI32, le(v)); }
  void f32(std::string_view key, float v) { set("qwen4exp." + std::string(key), GgufType::kF32, le(v)); }
  void string(std::string_view key, std::string_view v) {
    set("qwen4exp." + std::string(key), GgufType::kString, text(v));
  }
  void i32s(std::string_view key, const std::vector<int32_t>& v) {
    std::string elements;
    for (int32_t x : v) elements += le(x);
    set("qwen4exp." + std::string(key), GgufType::kArray, array(5, v.size(), elements));
  }
  void u64s(std::string_view key, const std::vector<uint64_t>& v) {
    std::string elements;
    for (uint64_t x : v) elements += le(x);
    set("qwen4exp." + std::string(key), GgufType::kArray, array(10, v.size(), elements));
  }
  void drop(std::string_view key) { remove("qwen4exp." + std::string(key)); }

  EditedTensor& tensor(std::string_view name) {
    const auto it =
        std::find_if(tensors.begin(), tensors.end(), [&](const EditedTensor& t) { return t.name == name; });
    EXPECT_NE(it, tensors.end()) << name;
    return *it;
  }
  void remove_tensor(std::string_view name) {
    std::erase_if(tensors, [&](const EditedTensor& t) { return t.name == name; });
  }

  // Opens the edited file; the result stays valid until the next call.
  const GgufFile* open(uint64_t alignment = 32) {
    GgufHeader header;
    header.set_alignment(alignment);
    for (const Entry& e : entries) header.add_encoded(e.key, e.type, std::as_bytes(std::span(e.encoded)));
    for (const EditedTensor& t : tensors) header.add_tensor(t.name, t.type, t.dims);
    auto head = header.encode();
    EXPECT_TRUE(head.ok()) << head.status().message();
    if (!head.ok()) return nullptr;
    bytes_ = *head;
    const size_t start = bytes_.size();
    bytes_.resize(start + header.data_bytes(), '\0');
    for (size_t i = 0; i < tensors.size(); ++i) {
      const GgufHeader::Tensor& t = header.tensors()[i];
      std::memcpy(bytes_.data() + start + t.offset, tensors[i].data.data(),
                  std::min<size_t>(tensors[i].data.size(), t.bytes));
    }
    auto file = GgufFile::parse(std::as_bytes(std::span(bytes_)), "edited.gguf");
    EXPECT_TRUE(file.ok()) << file.status().message();
    file_ = file.ok() ? std::move(file).value() : nullptr;
    return file_.get();
  }

  std::vector<Entry> entries;
  std::vector<EditedTensor> tensors;

 private:
  EditedModel(std::vector<Entry> e, std::vector<EditedTensor> t)
      : entries(std::move(e)), tensors(std::move(t)) {}

  std::string bytes_;
  std::unique_ptr<GgufFile> file_;
};

}  // namespace argon::testing
