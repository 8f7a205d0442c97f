#include "gguf/gguf.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <optional>

#include "gguf/parser.h"
#include "gguf/text.h"

namespace argon {
namespace {

struct SplitName {
  std::string prefix;  // everything before "-0000i-of-0000N.gguf"
  int index = 0;       // 0-based
  int count = 0;
};

std::string split_path(const std::string& prefix, int index, int count) {
  return fmt::format("{}-{:05}-of-{:05}.gguf", prefix, index + 1, count);
}

// The parts of a split file's name; nullopt for other names.
std::optional<SplitName> parse_split_name(const std::string& path) {
  constexpr std::string_view kShape = "-00000-of-00000.gguf";
  if (path.size() < kShape.size()) return std::nullopt;
  const std::string_view tail = std::string_view(path).substr(path.size() - kShape.size());
  int numbers[2] = {0, 0};
  int which = 0;
  for (size_t i = 0; i < kShape.size(); ++i) {
    if (kShape[i] == '0') {
      if (tail[i] < '0' || tail[i] > '9') return std::nullopt;
      if (i > 6) which = 1;
      numbers[which] = numbers[which] * 10 + (tail[i] - '0');
    } else if (tail[i] != kShape[i]) {
      return std::nullopt;
    }
  }
  if (numbers[0] < 1 || numbers[0] > numbers[1]) return std::nullopt;
  return SplitName{path.substr(0, path.size() - kShape.size()), numbers[0] - 1, numbers[1]};
}

const GgufValue* find_in(const std::vector<GgufEntry>& metadata, std::string_view key) {
  for (const GgufEntry& e : metadata) {
    if (e.key == key) return &e.value;
  }
  return nullptr;
}

std::string describe(const GgufValue& v) {
  if (v.is_array()) return fmt::format("an array of {} {}", v.size(), gguf_type_name(v.element_type()));
  if (const auto s = v.as_string()) return "the string " + quote(*s);
  if (const auto b = v.as_bool()) return *b ? "the bool true" : "the bool false";
  if (const auto i = v.as_i64()) return fmt::format("{} ({})", *i, v.type_name());
  if (const auto u = v.as_u64()) return fmt::format("{} ({})", *u, v.type_name());
  return fmt::format("{} ({})", *v.as_f64(), v.type_name());
}

}  // namespace

Result<std::unique_ptr<GgufFile>> GgufFile::open(const std::string& path, const GgufProgress& progress) {
  std::unique_ptr<GgufFile> out(new GgufFile());
  out->name_ = printable_path(path);
  const std::optional<SplitName> split = parse_split_name(path);
  const int count = split ? split->count : 1;
  // The part that was named is opened first: when it is missing, that is the error to report.
  ARGON_ASSIGN_OR_RETURN(std::unique_ptr<MappedFile> named, MappedFile::open(path));
  for (int i = 0; i < count; ++i) {
    Part part;
    part.path = split ? split_path(split->prefix, i, count) : path;
    if (!split || i == split->index) {
      part.file = std::move(named);
    } else {
      Result<std::unique_ptr<MappedFile>> file = MappedFile::open(part.path);
      if (!file.ok()) {
        return Status(file.status().code(),
                      fmt::format("{} (part {} of {} of this model; all parts must lie in one folder)",
                                  file.status().message(), i + 1, count));
      }
      part.file = std::move(file).value();
    }
    part.bytes = part.file->bytes();
    ARGON_RETURN_IF_ERROR(out->add_part(std::move(part), i, count));
    if (progress) progress(i + 1, count);
  }
  ARGON_RETURN_IF_ERROR(out->finish());
  return out;
}

Result<std::unique_ptr<GgufFile>> GgufFile::parse(std::span<const std::byte> bytes, const std::string& name) {
  std::unique_ptr<GgufFile> out(new GgufFile());
  out->name_ = printable_path(name);
  Part part;
  part.path = name;
  part.bytes = bytes;
  ARGON_RETURN_IF_ERROR(out->add_part(std::move(part), 0, 1));
  ARGON_RETURN_IF_ERROR(out->finish());
  return out;
}

Status GgufFile::add_part(Part part, int index, int count) {
  ARGON_ASSIGN_OR_RETURN(GgufHeaderView header, GgufParser::parse(part.bytes, part.path));
  ARGON_RETURN_IF_ERROR(check_split(header.metadata, printable_path(part.path), index, count));
  if (index == 0) {
    version_ = header.version;
    alignment_ = header.alignment;
    metadata_ = std::move(header.metadata);
    for (size_t i = 0; i < metadata_.size(); ++i) keys_.emplace(metadata_[i].key, i);
  }
  for (GgufTensor& t : header.tensors) {
    t.part = index;
    if (!names_.emplace(t.name, tensors_.size()).second) {
      return bad_input(
          fmt::format("{}: tensor {} is in part {} too, wanted once; the parts are of different files: "
                      "download them again",
                      printable_path(part.path), quote(t.name), tensors_[names_.at(t.name)].part + 1));
    }
    tensor_bytes_ += t.bytes;
    tensors_.push_back(t);
  }
  parts_.push_back(std::move(part));
  return {};
}

// What the part says of itself (split.no, split.count, split.tensors.count) against its name and the first
// part.
Status GgufFile::check_split(const std::vector<GgufEntry>& metadata, const std::string& path, int index,
                             int count) {
  struct Rule {
    std::string_view key;
    uint64_t wanted;
    std::string_view why;
  };
  const GgufValue* split_count = find_in(metadata, "split.count");
  if (count == 1 && split_count != nullptr && split_count->as_u64().value_or(0) > 1) {
    return bad_input(
        fmt::format("{}: is one of {} parts (key 'split.count'), but its name does not end in "
                    "-0000i-of-{:05}.gguf; give the parts their names back and put them in one folder",
                    path, *split_count->as_u64(), *split_count->as_u64()));
  }
  const Rule rules[] = {
      {"split.count", static_cast<uint64_t>(count), "as the file name says"},
      {"split.no", static_cast<uint64_t>(index), "as the file name says (counted from 0)"},
      {"split.tensors.count", declared_tensors_, "as in the first part"},
  };
  for (const Rule& rule : rules) {
    const GgufValue* v = find_in(metadata, rule.key);
    if (v == nullptr) {
      if (count == 1) continue;
      return bad_input(
          fmt::format("{}: has no key '{}', which every part of a split file has; if this is a whole "
                      "model, rename it so that it does not end in -0000i-of-0000N.gguf",
                      path, rule.key));
    }
    const std::optional<uint64_t> found = v->as_u64();
    const bool defines = rule.key == "split.tensors.count" && index == 0;
    if (found && defines) {
      declared_tensors_ = *found;
    } else if (!found || *found != rule.wanted) {
      // One-part files may carry split.count = 0: tools write it for "not split".
      if (count == 1 && rule.key == "split.count" && found == uint64_t{0}) continue;
      return bad_input(
          fmt::format("{}: key '{}' is {}, wanted {} {}; the parts are mixed up or renamed: download them "
                      "again",
                      path, rule.key, describe(*v), rule.wanted, rule.why));
    }
  }
  return {};
}

Status GgufFile::finish() {
  if (has("split.tensors.count") && declared_tensors_ != tensors_.size()) {
    return bad_input(
        fmt::format("{}: {} tensors in {} parts, wanted {} (key 'split.tensors.count'); a part is not of "
                    "this model: download the parts again",
                    name_, tensors_.size(), parts_.size(), declared_tensors_));
  }
  return {};
}

uint64_t GgufFile::file_bytes() const {
  uint64_t sum = 0;
  for (const Part& p : parts_) sum += p.bytes.size();
  return sum;
}

const GgufValue* GgufFile::find(std::string_view key) const {
  const auto it = keys_.find(key);
  return it == keys_.end() ? nullptr : &metadata_[it->second].value;
}

const GgufTensor* GgufFile::find_tensor(std::string_view name) const {
  const auto it = names_.find(name);
  return it == names_.end() ? nullptr : &tensors_[it->second];
}

Status GgufFile::error(std::string_view key, const GgufValue* found, std::string_view wanted) const {
  if (found == nullptr) {
    return bad_input(
        fmt::format("{}: key {} is missing, wanted {}; convert the model again", name_, quote(key), wanted));
  }
  return bad_input(fmt::format("{}: key {} is {}, wanted {}; convert the model again", name_, quote(key),
                               describe(*found), wanted));
}

Result<uint64_t> GgufFile::get_u64(std::string_view key) const {
  const GgufValue* v = find(key);
  const std::optional<uint64_t> n = v != nullptr ? v->as_u64() : std::nullopt;
  if (!n) return error(key, v, "an integer of at least 0");
  return *n;
}

Result<uint32_t> GgufFile::get_u32(std::string_view key) const {
  const GgufValue* v = find(key);
  const std::optional<uint64_t> n = v != nullptr ? v->as_u64() : std::nullopt;
  if (!n || *n > std::numeric_limits<uint32_t>::max()) return error(key, v, "an integer from 0 to 2^32 - 1");
  return static_cast<uint32_t>(*n);
}

Result<int64_t> GgufFile::get_i64(std::string_view key) const {
  const GgufValue* v = find(key);
  const std::optional<int64_t> n = v != nullptr ? v->as_i64() : std::nullopt;
  if (!n) return error(key, v, "an integer below 2^63");
  return *n;
}

Result<double> GgufFile::get_f64(std::string_view key) const {
  const GgufValue* v = find(key);
  const std::optional<double> n = v != nullptr ? v->as_f64() : std::nullopt;
  if (!n || !std::isfinite(*n)) return error(key, v, "a finite number");
  return *n;
}

Result<float> GgufFile::get_f32(std::string_view key) const {
  const GgufValue* v = find(key);
  const std::optional<double> n = v != nullptr ? v->as_f64() : std::nullopt;
  if (!n || !(std::fabs(*n) <= static_cast<double>(std::numeric_limits<float>::max()))) {
    return error(key, v, "a finite f32");
  }
  return static_cast<float>(*n);
}

Result<bool> GgufFile::get_bool(std::string_view key) const {
  const GgufValue* v = find(key);
  const std::optional<bool> b = v != nullptr ? v->as_bool() : std::nullopt;
  if (!b) return error(key, v, "a bool");
  return *b;
}

Result<std::string_view> GgufFile::get_string(std::string_view key) const {
  const GgufValue* v = find(key);
  const std::optional<std::string_view> s = v != nullptr ? v->as_string() : std::nullopt;
  if (!s) return error(key, v, "a string");
  return *s;
}

Result<std::vector<int64_t>> GgufFile::get_i64s(std::string_view key) const {
  const GgufValue* v = find(key);
  if (v == nullptr || !v->is_array() || !gguf_type_is_integer(v->element_type())) {
    return error(key, v, "an array of integers");
  }
  std::vector<int64_t> out(v->size());
  for (uint64_t i = 0; i < out.size(); ++i) {
    const std::optional<int64_t> n = v->at(i).as_i64();
    if (!n) return error(key, v, fmt::format("integers below 2^63 (element {} is larger)", i));
    out[i] = *n;
  }
  return out;
}

Result<std::vector<uint64_t>> GgufFile::get_u64s(std::string_view key) const {
  const GgufValue* v = find(key);
  if (v == nullptr || !v->is_array() || !gguf_type_is_integer(v->element_type())) {
    return error(key, v, "an array of integers");
  }
  std::vector<uint64_t> out(v->size());
  for (uint64_t i = 0; i < out.size(); ++i) {
    const std::optional<uint64_t> n = v->at(i).as_u64();
    if (!n) return error(key, v, fmt::format("integers of at least 0 (element {} is negative)", i));
    out[i] = *n;
  }
  return out;
}

Result<std::span<const std::string_view>> GgufFile::get_strings(std::string_view key) const {
  const GgufValue* v = find(key);
  if (v == nullptr || !v->is_array() || v->element_type() != GgufType::kString) {
    return error(key, v, "an array of strings");
  }
  return v->strings();
}

Status GgufFile::still_whole() const {
  for (const Part& p : parts_) {
    if (p.file != nullptr) ARGON_RETURN_IF_ERROR(p.file->still_whole());
  }
  return {};
}

}  // namespace argon
