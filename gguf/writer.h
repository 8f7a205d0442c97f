// Writing GGUF files, version 3, little-endian, one part. The header (metadata and tensor records) is
// complete before the first tensor byte, so a file of any size streams through a small buffer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "base/status.h"
#include "formats/weight_type.h"
#include "gguf/value.h"

namespace argon {

// Metadata and tensor records in the order they were added. The first mistake (a name twice, a row that is no
// whole number of blocks) is kept and returned by status() and encode().
class GgufHeader {
 public:
  struct Tensor {
    std::string name;
    WeightType type;
    std::vector<int64_t> dims;  // fastest first
    uint64_t bytes;
    uint64_t offset;  // from the start of the data section, a multiple of the alignment
  };

  // A power of two up to 2^20; written as general.alignment when it is not 32. Call before anything is added.
  void set_alignment(uint64_t alignment);
  void add_u8(std::string_view key, uint8_t v);
  void add_u16(std::string_view key, uint16_t v);
  void add_u32(std::string_view key, uint32_t v);
  void add_i32(std::string_view key, int32_t v);
  void add_u64(std::string_view key, uint64_t v);
  void add_i64(std::string_view key, int64_t v);
  void add_f32(std::string_view key, float v);
  void add_f64(std::string_view key, double v);
  void add_bool(std::string_view key, bool v);
  void add_string(std::string_view key, std::string_view v);
  void add_i32s(std::string_view key, std::span<const int32_t> v);
  void add_u64s(std::string_view key, std::span<const uint64_t> v);
  void add_f32s(std::string_view key, std::span<const float> v);
  void add_strings(std::string_view key, std::span<const std::string> v);
  // A value already in the file's encoding, as GgufValue::encoded() gives it: copies metadata of any type.
  void add_encoded(std::string_view key, GgufType type, std::span<const std::byte> encoded);
  // Tensors' data follow in this order. dims: 1 to 4 sizes of at least 1, fastest first.
  void add_tensor(std::string_view name, WeightType type, std::span<const int64_t> dims);

  const std::vector<Tensor>& tensors() const { return tensors_; }
  uint64_t alignment() const { return alignment_; }
  // Bytes of the data section, padding included.
  uint64_t data_bytes() const { return data_bytes_; }
  const Status& status() const { return status_; }
  // The header's bytes, padded to the alignment: what precedes the data section.
  Result<std::string> encode() const;

 private:
  void add(std::string_view key, GgufType type, std::string_view encoded);
  void fail(std::string text);

  uint64_t alignment_ = 32;
  uint64_t entries_ = 0;
  uint64_t data_bytes_ = 0;
  std::string metadata_;
  std::vector<Tensor> tensors_;
  std::unordered_set<std::string> keys_;
  std::unordered_set<std::string> names_;
  Status status_;
};

// Writes header and data to a temporary file in the target's folder; finish() renames it over the target.
// Without finish() (an error, a cancelled run) the destructor removes it, and where the file system can
// (O_TMPFILE) it has no name at all until finish(), so that nothing is left even after a kill. A file that
// was there stays untouched till then.
class GgufWriter {
 public:
  // kBadInput: the header's own mistake, or a folder that is not there. kResource: cannot create, disk full.
  static Result<std::unique_ptr<GgufWriter>> create(const std::string& path, GgufHeader header);
  ~GgufWriter();
  GgufWriter(const GgufWriter&) = delete;
  GgufWriter& operator=(const GgufWriter&) = delete;

  const GgufHeader& header() const { return header_; }
  // The tensor that the next byte belongs to, its index in header().tensors(); their number when all are
  // written.
  size_t tensor() const { return tensor_; }
  uint64_t tensor_bytes_left() const;
  // The next bytes of the data, tensor after tensor without padding; may cross from one tensor into the next.
  // kInternal: more bytes than the records announce. kResource: disk full.
  Status append(std::span<const std::byte> bytes);
  // kInternal when bytes are missing. After it the target is the new file.
  Status finish();

 private:
  GgufWriter(std::string path, GgufHeader header) : path_(std::move(path)), header_(std::move(header)) {}
  Status open_temporary();
  Status put(std::span<const std::byte> bytes);
  Status pad();
  Status flush();
  void enter_tensor();
  Status os_error(const char* what) const;

  std::string path_;
  std::string temporary_;  // empty while the file has no name
  GgufHeader header_;
  int fd_ = -1;
  size_t tensor_ = 0;
  uint64_t left_ = 0;     // bytes of that tensor
  uint64_t written_ = 0;  // bytes of the data section, buffer included
  std::vector<std::byte> buffer_;
};

}  // namespace argon
