// The header of one GGUF file, parsed from its bytes. Internal to gguf/: users take GgufFile.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "gguf/gguf.h"

namespace argon {

struct GgufHeaderView {
  uint32_t version = 0;
  uint64_t alignment = 32;
  std::vector<GgufEntry> metadata;  // file order, keys unique
  std::vector<GgufTensor>
      tensors;  // by offset; names unique within the file, data inside it, none overlapping
};

class GgufParser {
 public:
  // `path` starts every message.
  static Result<GgufHeaderView> parse(std::span<const std::byte> bytes, const std::string& path);

 private:
  GgufParser(std::span<const std::byte> bytes, std::string path) : bytes_(bytes), path_(std::move(path)) {}

  uint64_t left() const { return bytes_.size() - position_; }
  Status bad(const std::string& text) const { return bad_input(path_ + ": " + text); }
  // Where the parser is, for messages: "key 3 of 53", "key 'general.name'", "tensor 7 of 214".
  Status truncated(uint64_t wanted) const;
  Status take(uint64_t count, const std::byte** data);
  template <class T>
  Status read(T* value);
  Status read_string(std::string_view* text);

  Status check_magic();
  Status read_metadata(uint64_t count, GgufHeaderView* out);
  Status read_value(GgufType type, int depth, GgufValue* value);
  Status read_type(GgufType* type);
  Status read_array(int depth, GgufValue* value);
  Status check_bools(const std::byte* data, uint64_t count) const;
  Status read_alignment(GgufHeaderView* out) const;
  Status read_tensors(uint64_t count, GgufHeaderView* out);
  Status read_tensor(const GgufHeaderView& header, GgufTensor* tensor);
  Status place_tensors(GgufHeaderView* out) const;

  std::span<const std::byte> bytes_;
  std::string path_;
  uint64_t position_ = 0;
  std::string where_ = "the file header";
};

}  // namespace argon
