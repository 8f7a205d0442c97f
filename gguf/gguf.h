// Reading GGUF model files, versions 2 and 3, little-endian, in one part or split (-0000i-of-0000N.gguf).
// Files are mapped and nothing is copied: names, strings and tensor data point into the mapping, valid as
// long as the GgufFile lives. Everything is checked before use, so that a damaged or hostile file ends in one
// line of text. Source: GGUF.md.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "formats/weight_type.h"
#include "gguf/mapped_file.h"
#include "gguf/value.h"

namespace argon {

inline constexpr int kGgufMaxDims = 4;

struct GgufTensor {
  std::string_view name;
  WeightType type = WeightType::kF32;
  int n_dims = 0;  // 1..4
  std::array<int64_t, kGgufMaxDims> dims = {
      1, 1, 1, 1};                  // fastest first; a row has dims[0] values; product fits int64
  const std::byte* data = nullptr;  // `bytes` bytes; aligned to GgufFile::alignment() within the part
  uint64_t bytes = 0;
  int part = 0;              // index of the file that holds it
  uint64_t file_offset = 0;  // of data, from the start of that file

  int64_t values() const { return dims[0] * dims[1] * dims[2] * dims[3]; }
};

struct GgufEntry {
  std::string_view key;
  GgufValue value;
};

// Called after each part's header was read: parts done, parts in all.
using GgufProgress = std::function<void(int done, int total)>;

class GgufFile {
 public:
  // Opens the model of which `path` is a part; the other parts are looked for beside it.
  // kBadInput: missing, empty, truncated, inconsistent. kUnsupported: a version, byte order or tensor type
  // that this engine does not read. kResource: out of descriptors or address space. The text is one line that
  // starts with the path.
  static Result<std::unique_ptr<GgufFile>> open(const std::string& path,
                                                const GgufProgress& progress = nullptr);
  // A single-part file in memory, which must outlive the object; `name` stands for the path in messages.
  static Result<std::unique_ptr<GgufFile>> parse(std::span<const std::byte> bytes, const std::string& name);

  const std::string& name() const { return name_; }  // the path, printable: messages start with it
  uint32_t version() const { return version_; }
  int parts() const { return static_cast<int>(parts_.size()); }
  const std::string& part_path(int part) const { return parts_[static_cast<size_t>(part)].path; }
  uint64_t part_bytes(int part) const { return parts_[static_cast<size_t>(part)].bytes.size(); }
  // Of the first part: general.alignment, else 32. A power of two, 1 possible.
  uint64_t alignment() const { return alignment_; }
  uint64_t file_bytes() const;                            // of all parts
  uint64_t total_bytes() const { return tensor_bytes_; }  // of all tensors' data

  std::span<const GgufEntry> metadata() const { return metadata_; }  // of the first part, in file order
  // nullptr when there is no such key.
  const GgufValue* find(std::string_view key) const;
  bool has(std::string_view key) const { return find(key) != nullptr; }

  // kBadInput when the key is missing, has another type or does not fit; the text names key, found and
  // wanted.
  Result<uint64_t> get_u64(std::string_view key) const;  // any integer type
  Result<uint32_t> get_u32(std::string_view key) const;  // any integer type
  Result<int64_t> get_i64(std::string_view key) const;   // any integer type
  Result<double> get_f64(std::string_view key) const;    // f32, f64 or an integer; finite
  Result<float> get_f32(std::string_view key) const;     // the same, rounded to f32; finite
  Result<bool> get_bool(std::string_view key) const;
  Result<std::string_view> get_string(std::string_view key) const;
  Result<std::vector<int64_t>> get_i64s(std::string_view key) const;   // an array of any integer type
  Result<std::vector<uint64_t>> get_u64s(std::string_view key) const;  // an array of any integer type
  Result<std::span<const std::string_view>> get_strings(std::string_view key) const;

  // All tensors, in the order of their data: by part, then by offset.
  std::span<const GgufTensor> tensors() const { return tensors_; }
  // nullptr when there is none.
  const GgufTensor* find_tensor(std::string_view name) const;

  // kBadInput when a part was shortened or written since open() (see MappedFile about SIGBUS).
  Status still_whole() const;

 private:
  struct Part {
    std::string path;
    std::unique_ptr<MappedFile> file;  // null when the bytes are the caller's
    std::span<const std::byte> bytes;
  };
  GgufFile() = default;
  Status add_part(Part part, int index, int count);
  Status check_split(const std::vector<GgufEntry>& metadata, const std::string& path, int index, int count);
  Status finish();
  Status error(std::string_view key, const GgufValue* found, std::string_view wanted) const;

  std::string name_;
  uint32_t version_ = 0;
  uint64_t alignment_ = 32;
  uint64_t tensor_bytes_ = 0;
  uint64_t declared_tensors_ = 0;  // split.tensors.count of the first part
  std::vector<Part> parts_;
  std::vector<GgufEntry> metadata_;
  std::vector<GgufTensor> tensors_;
  std::unordered_map<std::string_view, size_t> keys_;
  std::unordered_map<std::string_view, size_t> names_;
};

}  // namespace argon
