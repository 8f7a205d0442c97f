// GGUF bytes built field by field, so that tests can write files that GgufHeader would refuse, and the checks
// that every error of the readers must pass.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "gguf/gguf.h"

namespace argon::testing {

template <class T>
std::string le(T v) {
  std::string out(sizeof(T), '\0');
  std::memcpy(out.data(), &v, sizeof(T));
  return out;
}
inline std::string text(std::string_view s) { return le(static_cast<uint64_t>(s.size())) + std::string(s); }
inline std::string entry(std::string_view key, uint32_t type, std::string_view encoded) {
  return text(key) + le(type) + std::string(encoded);
}
inline std::string u32_entry(std::string_view key, uint32_t v) { return entry(key, 4, le(v)); }
inline std::string string_entry(std::string_view key, std::string_view v) { return entry(key, 8, text(v)); }
inline std::string array(uint32_t element, uint64_t count, std::string_view elements) {
  return le(element) + le(count) + std::string(elements);
}

struct RawTensor {
  std::string name = "t";
  std::vector<uint64_t> dims = {32};
  uint32_t type = 0;
  uint64_t offset = 0;
  uint32_t n_dims = UINT32_MAX;  // UINT32_MAX: as many as dims

  std::string encode() const {
    std::string out = text(name) + le(n_dims == UINT32_MAX ? static_cast<uint32_t>(dims.size()) : n_dims);
    for (uint64_t d : dims) out += le(d);
    return out + le(type) + le(offset);
  }
};

struct RawFile {
  std::string magic = "GGUF";
  uint32_t version = 3;
  uint64_t tensor_count = UINT64_MAX;  // UINT64_MAX: as many as there are
  uint64_t entry_count = UINT64_MAX;
  std::vector<std::string> entries;
  std::vector<RawTensor> tensors;
  uint64_t alignment = 32;  // of the data section; the key is the test's business
  uint64_t data_bytes = 0;

  std::string header() const {
    std::string out = magic + le(version);
    out += le(tensor_count == UINT64_MAX ? static_cast<uint64_t>(tensors.size()) : tensor_count);
    out += le(entry_count == UINT64_MAX ? static_cast<uint64_t>(entries.size()) : entry_count);
    for (const std::string& e : entries) out += e;
    for (const RawTensor& t : tensors) out += t.encode();
    return out;
  }
  std::string encode() const {
    std::string out = header();
    out.resize((out.size() + alignment - 1) / alignment * alignment, '\0');
    out.append(data_bytes, 'd');
    return out;
  }
};

// The bytes in a heap block of exactly their size, so that a sanitizer sees the first byte read beyond it.
class ExactBytes {
 public:
  explicit ExactBytes(std::string_view s) : data_(std::make_unique<std::byte[]>(s.size())), size_(s.size()) {
    if (!s.empty()) std::memcpy(data_.get(), s.data(), s.size());
  }
  std::span<const std::byte> span() const { return {data_.get(), size_}; }

 private:
  std::unique_ptr<std::byte[]> data_;
  size_t size_;
};

// An error at the edge: of this class, one printable line that starts with `start` and contains all the
// words.
inline void expect_error(const Status& status, Code code, std::string_view start,
                         std::initializer_list<std::string_view> words) {
  EXPECT_FALSE(status.ok());
  EXPECT_EQ(static_cast<int>(status.code()), static_cast<int>(code)) << status.message();
  EXPECT_TRUE(status.message().starts_with(start)) << status.message();
  EXPECT_LT(status.message().size(), 700u) << status.message();
  for (char c : status.message())
    EXPECT_FALSE(static_cast<unsigned char>(c) < 0x20 || c == 0x7f) << status.message();
  for (std::string_view w : words)
    EXPECT_NE(status.message().find(w), std::string::npos) << w << " in: " << status.message();
}

// A folder that goes away with the test.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "argon-gguf-XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  std::string file(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }
  size_t count() const {
    return static_cast<size_t>(
        std::distance(std::filesystem::directory_iterator(path_), std::filesystem::directory_iterator()));
  }

 private:
  std::string path_;
};

inline void write_file(const std::string& path, std::string_view bytes) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}
inline std::string read_whole(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

}  // namespace argon::testing
