#include "gguf/parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "gguf/text.h"

namespace argon {
namespace {

constexpr int kMaxArrayDepth = 8;
constexpr uint64_t kMaxAlignment = uint64_t{1} << 20;
// The shortest encodings of a metadata entry (key length, key, type, one byte) and of a tensor record (name
// length, name, dimension count, one dimension, type, offset): counts in the header are checked against them
// before use.
constexpr uint64_t kMinEntryBytes = 8 + 1 + 4 + 1;
constexpr uint64_t kMinRecordBytes = 8 + 1 + 4 + 8 + 4 + 8;
constexpr std::string_view kDamaged = "the file is truncated or damaged: download or convert it again";

struct Alien {
  std::string_view start;
  std::string_view what;
};
constexpr Alien kAliens[] = {
    {"PK\x03\x04", "a zip archive (a PyTorch checkpoint?); convert the model to GGUF"},
    {"version https://git-lfs", "a git-lfs pointer, not the model itself; fetch it with `git lfs pull`"},
    {"<!DOCTYPE", "a web page, not a model; download the file itself"},
    {"<!doctype", "a web page, not a model; download the file itself"},
    {"<html", "a web page, not a model; download the file itself"},
    {"\x1f\x8b", "gzip-compressed; unpack it first"},
    {std::string_view("\xfd"
                      "7zXZ\0",
                      6),
     "xz-compressed; unpack it first"},
    {"\x28\xb5\x2f\xfd", "zstd-compressed; unpack it first"},
    {"lmgg", "a GGML file from before GGUF; download a GGUF version of the model"},
    {"fmgg", "a GGML file from before GGUF; download a GGUF version of the model"},
    {"tjgg", "a GGML file from before GGUF; download a GGUF version of the model"},
    {"FUGG", "a big-endian GGUF file; download or convert a little-endian one"},
    {"{", "a JSON file; name the .gguf file"},
};

// A safetensors file starts with the u64 length of a JSON header that starts with '{'.
bool looks_like_safetensors(std::span<const std::byte> bytes) {
  if (bytes.size() < 9) return false;
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof(length));
  return length < (uint64_t{1} << 32) && bytes[8] == std::byte{'{'};
}

bool align_up(uint64_t value, uint64_t alignment, uint64_t* out) {
  uint64_t sum = 0;
  if (__builtin_add_overflow(value, alignment - 1, &sum)) return false;
  *out = sum & ~(alignment - 1);
  return true;
}

}  // namespace

Status GgufParser::truncated(uint64_t wanted) const {
  return bad(fmt::format("{} needs {} bytes at offset {}, found {} before the end of the file; {}", where_,
                         wanted, position_, left(), kDamaged));
}

Status GgufParser::take(uint64_t count, const std::byte** data) {
  if (count > left()) return truncated(count);
  *data = bytes_.data() + position_;
  position_ += count;
  return {};
}

template <class T>
Status GgufParser::read(T* value) {
  const std::byte* p = nullptr;
  ARGON_RETURN_IF_ERROR(take(sizeof(T), &p));
  std::memcpy(value, p, sizeof(T));
  return {};
}

Status GgufParser::read_string(std::string_view* text) {
  uint64_t length = 0;
  ARGON_RETURN_IF_ERROR(read(&length));
  const std::byte* p = nullptr;
  ARGON_RETURN_IF_ERROR(take(length, &p));
  *text = {reinterpret_cast<const char*>(p), static_cast<size_t>(length)};
  return {};
}

Result<GgufHeaderView> GgufParser::parse(std::span<const std::byte> bytes, const std::string& path) {
  GgufParser parser(bytes, printable_path(path));
  GgufHeaderView out;
  ARGON_RETURN_IF_ERROR(parser.check_magic());
  ARGON_RETURN_IF_ERROR(parser.read(&out.version));
  if (out.version == 1) {
    return unsupported(parser.path_ + ": GGUF version 1, wanted 2 or 3; download or convert a current file");
  }
  if (out.version != 2 && out.version != 3) {
    const uint32_t swapped = __builtin_bswap32(out.version);
    if (swapped >= 1 && swapped <= 3) {
      return unsupported(parser.path_ +
                         ": a big-endian GGUF file, wanted little-endian; download or convert such a one");
    }
    return unsupported(
        fmt::format("{}: GGUF version {}, wanted 2 or 3; update argon or convert the model again",
                    parser.path_, out.version));
  }
  uint64_t tensor_count = 0;
  uint64_t entry_count = 0;
  ARGON_RETURN_IF_ERROR(parser.read(&tensor_count));
  ARGON_RETURN_IF_ERROR(parser.read(&entry_count));
  if (entry_count > parser.left() / kMinEntryBytes) {
    return parser.bad(fmt::format("the header announces {} metadata keys, but only {} bytes follow; {}",
                                  entry_count, parser.left(), kDamaged));
  }
  if (tensor_count > parser.left() / kMinRecordBytes) {
    return parser.bad(fmt::format("the header announces {} tensors, but only {} bytes follow; {}",
                                  tensor_count, parser.left(), kDamaged));
  }
  ARGON_RETURN_IF_ERROR(parser.read_metadata(entry_count, &out));
  ARGON_RETURN_IF_ERROR(parser.read_alignment(&out));
  ARGON_RETURN_IF_ERROR(parser.read_tensors(tensor_count, &out));
  ARGON_RETURN_IF_ERROR(parser.place_tensors(&out));
  return out;
}

Status GgufParser::check_magic() {
  const std::string_view text(reinterpret_cast<const char*>(bytes_.data()), bytes_.size());
  if (text.starts_with("GGUF")) {
    position_ = 4;
    return {};
  }
  for (const Alien& a : kAliens) {
    if (text.starts_with(a.start)) return bad(fmt::format("not a GGUF file but {}", a.what));
  }
  if (looks_like_safetensors(bytes_))
    return bad("not a GGUF file but a safetensors file; convert the model to GGUF");
  if (text.size() < 4) return truncated(4);
  return bad(
      fmt::format("not a GGUF file: it starts with {}, wanted 'GGUF'; check that this is the model file",
                  quote(text.substr(0, 4))));
}

Status GgufParser::read_metadata(uint64_t count, GgufHeaderView* out) {
  std::unordered_set<std::string_view> seen;
  for (uint64_t i = 0; i < count; ++i) {
    where_ = fmt::format("metadata key {} of {}", i + 1, count);
    GgufEntry entry;
    ARGON_RETURN_IF_ERROR(read_string(&entry.key));
    if (entry.key.empty()) return bad(fmt::format("{} has an empty name; {}", where_, kDamaged));
    where_ = "key " + quote(entry.key);
    if (!seen.insert(entry.key).second) {
      return bad(fmt::format("{} appears twice, wanted once; convert the model again", where_));
    }
    GgufType type = GgufType::kU8;
    ARGON_RETURN_IF_ERROR(read_type(&type));
    ARGON_RETURN_IF_ERROR(read_value(type, 0, &entry.value));
    out->metadata.push_back(std::move(entry));
  }
  return {};
}

Status GgufParser::read_type(GgufType* type) {
  uint32_t id = 0;
  ARGON_RETURN_IF_ERROR(read(&id));
  if (id >= kGgufTypeCount) {
    return bad(
        fmt::format("{} has value type {}, wanted 0 to {}; {}", where_, id, kGgufTypeCount - 1, kDamaged));
  }
  *type = static_cast<GgufType>(id);
  return {};
}

Status GgufParser::read_value(GgufType type, int depth, GgufValue* value) {
  value->type_ = type;
  const uint64_t start = position_;
  if (type == GgufType::kArray) {
    ARGON_RETURN_IF_ERROR(read_array(depth + 1, value));
  } else if (type == GgufType::kString) {
    std::string_view text;
    ARGON_RETURN_IF_ERROR(read_string(&text));
    value->data_ = reinterpret_cast<const std::byte*>(text.data());
    value->text_bytes_ = text.size();
  } else {
    ARGON_RETURN_IF_ERROR(take(gguf_type_bytes(type), &value->data_));
    if (type == GgufType::kBool) ARGON_RETURN_IF_ERROR(check_bools(value->data_, 1));
  }
  value->encoded_ = bytes_.subspan(start, position_ - start);
  return {};
}

Status GgufParser::read_array(int depth, GgufValue* value) {
  if (depth > kMaxArrayDepth) {
    return bad(
        fmt::format("{} nests arrays more than {} deep; convert the model again", where_, kMaxArrayDepth));
  }
  GgufType element = GgufType::kU8;
  uint64_t count = 0;
  ARGON_RETURN_IF_ERROR(read_type(&element));
  ARGON_RETURN_IF_ERROR(read(&count));
  value->element_type_ = element;
  value->count_ = count;
  const size_t fixed = gguf_type_bytes(element);
  // The shortest string is its 8-byte length, the shortest array its type and count.
  const uint64_t least = fixed != 0 ? fixed : (element == GgufType::kString ? 8 : 12);
  if (count > left() / least) {
    return bad(fmt::format("{} announces {} elements of type {}, but only {} bytes follow; {}", where_, count,
                           gguf_type_name(element), left(), kDamaged));
  }
  if (fixed != 0) {
    ARGON_RETURN_IF_ERROR(take(count * fixed, &value->data_));
    return element == GgufType::kBool ? check_bools(value->data_, count) : Status();
  }
  value->data_ = bytes_.data() + position_;
  for (uint64_t i = 0; i < count; ++i) {
    if (element == GgufType::kString) {
      std::string_view text;
      ARGON_RETURN_IF_ERROR(read_string(&text));
      value->strings_.push_back(text);
    } else {
      GgufValue inner;
      ARGON_RETURN_IF_ERROR(read_value(GgufType::kArray, depth, &inner));
      value->arrays_.push_back(std::move(inner));
    }
  }
  return {};
}

Status GgufParser::check_bools(const std::byte* data, uint64_t count) const {
  for (uint64_t i = 0; i < count; ++i) {
    if (data[i] > std::byte{1}) {
      return bad(fmt::format("{} is a bool with value {}, wanted 0 or 1; {}", where_,
                             std::to_integer<unsigned>(data[i]), kDamaged));
    }
  }
  return {};
}

Status GgufParser::read_alignment(GgufHeaderView* out) const {
  for (const GgufEntry& e : out->metadata) {
    if (e.key != "general.alignment") continue;
    const std::optional<uint64_t> v = e.value.as_u64();
    if (!v) {
      return bad(fmt::format("key 'general.alignment' is of type {}, wanted u32; convert the model again",
                             e.value.type_name()));
    }
    if (*v == 0 || (*v & (*v - 1)) != 0 || *v > kMaxAlignment) {
      return bad(fmt::format(
          "key 'general.alignment' is {}, wanted a power of two up to {}; convert the model again", *v,
          kMaxAlignment));
    }
    out->alignment = *v;
  }
  return {};
}

Status GgufParser::read_tensors(uint64_t count, GgufHeaderView* out) {
  std::unordered_set<std::string_view> seen;
  for (uint64_t i = 0; i < count; ++i) {
    where_ = fmt::format("the record of tensor {} of {}", i + 1, count);
    GgufTensor tensor;
    ARGON_RETURN_IF_ERROR(read_string(&tensor.name));
    if (tensor.name.empty()) return bad(fmt::format("{} has an empty name; {}", where_, kDamaged));
    where_ = "tensor " + quote(tensor.name);
    if (!seen.insert(tensor.name).second) {
      return bad(fmt::format("{} appears twice, wanted once; convert the model again", where_));
    }
    ARGON_RETURN_IF_ERROR(read_tensor(*out, &tensor));
    out->tensors.push_back(tensor);
  }
  return {};
}

Status GgufParser::read_tensor(const GgufHeaderView& header, GgufTensor* tensor) {
  uint32_t n_dims = 0;
  ARGON_RETURN_IF_ERROR(read(&n_dims));
  if (n_dims < 1 || n_dims > kGgufMaxDims) {
    return bad(
        fmt::format("{} has {} dimensions, wanted 1 to {}; {}", where_, n_dims, kGgufMaxDims, kDamaged));
  }
  tensor->n_dims = static_cast<int>(n_dims);
  int64_t values = 1;
  for (uint32_t d = 0; d < n_dims; ++d) {
    uint64_t size = 0;
    ARGON_RETURN_IF_ERROR(read(&size));
    if (size == 0)
      return bad(fmt::format("{} has size 0 in dimension {}, wanted at least 1; {}", where_, d, kDamaged));
    if (size > uint64_t{INT64_MAX} || __builtin_mul_overflow(values, static_cast<int64_t>(size), &values)) {
      return bad(fmt::format("{} has more than 2^63 values (size {} in dimension {}); {}", where_, size, d,
                             kDamaged));
    }
    tensor->dims[d] = static_cast<int64_t>(size);
  }
  uint32_t type_id = 0;
  ARGON_RETURN_IF_ERROR(read(&type_id));
  ARGON_RETURN_IF_ERROR(read(&tensor->file_offset));  // relative until place_tensors
  const std::optional<WeightTypeInfo> info = weight_type_by_id(type_id);
  if (!info) {
    return unsupported(
        fmt::format("{}: {} has {}; this engine does not know it: choose a file in another format or "
                    "update argon",
                    path_, where_, unknown_weight_type_text(type_id)));
  }
  tensor->type = info->type;
  if (tensor->dims[0] % info->block_length != 0) {
    return bad(
        fmt::format("{} has rows of {} values, wanted a multiple of {} for {}; convert the model again",
                    where_, tensor->dims[0], info->block_length, info->name));
  }
  if (__builtin_mul_overflow(static_cast<uint64_t>(values / info->block_length),
                             static_cast<uint64_t>(info->block_bytes), &tensor->bytes)) {
    return bad(fmt::format("{} has more than 2^64 bytes; {}", where_, kDamaged));
  }
  if (tensor->file_offset % header.alignment != 0) {
    return bad(fmt::format("{} is at data offset {}, wanted a multiple of the alignment {}; {}", where_,
                           tensor->file_offset, header.alignment, kDamaged));
  }
  return {};
}

Status GgufParser::place_tensors(GgufHeaderView* out) const {
  if (out->tensors.empty()) return {};
  uint64_t data_start = 0;
  if (!align_up(position_, out->alignment, &data_start)) return bad(std::string(kDamaged));
  std::stable_sort(out->tensors.begin(), out->tensors.end(),
                   [](const GgufTensor& a, const GgufTensor& b) { return a.file_offset < b.file_offset; });
  const GgufTensor* before = nullptr;
  for (GgufTensor& t : out->tensors) {
    uint64_t end = 0;
    if (__builtin_add_overflow(data_start, t.file_offset, &t.file_offset) ||
        __builtin_add_overflow(t.file_offset, t.bytes, &end) || end > bytes_.size()) {
      return bad(fmt::format("tensor {} needs {} bytes at offset {}, but the file ends at {}; {}",
                             quote(t.name), t.bytes, t.file_offset, bytes_.size(), kDamaged));
    }
    if (before != nullptr && before->file_offset + before->bytes > t.file_offset) {
      return bad(fmt::format("tensors {} and {} overlap at offset {}, wanted data of their own; {}",
                             quote(before->name), quote(t.name), t.file_offset, kDamaged));
    }
    t.data = bytes_.data() + t.file_offset;
    before = &t;
  }
  return {};
}

}  // namespace argon
