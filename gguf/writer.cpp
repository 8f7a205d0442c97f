#include "gguf/writer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "gguf/gguf.h"
#include "gguf/text.h"

namespace argon {
namespace {

constexpr size_t kBufferBytes = size_t{1} << 20;

template <class T>
void put_number(std::string* out, T v) {
  char raw[sizeof(T)];
  std::memcpy(raw, &v, sizeof(T));
  out->append(raw, sizeof(T));
}

void put_text(std::string* out, std::string_view text) {
  put_number(out, static_cast<uint64_t>(text.size()));
  out->append(text);
}

template <class T>
std::string number(T v) {
  std::string out;
  put_number(&out, v);
  return out;
}

template <class T>
std::string array(GgufType element, std::span<const T> values) {
  std::string out;
  put_number(&out, static_cast<uint32_t>(element));
  put_number(&out, static_cast<uint64_t>(values.size()));
  for (const T& v : values) put_number(&out, v);
  return out;
}

std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

}  // namespace

void GgufHeader::fail(std::string text) {
  if (status_.ok()) status_ = bad_input(std::move(text));
}

void GgufHeader::set_alignment(uint64_t alignment) {
  if (alignment == 0 || (alignment & (alignment - 1)) != 0 || alignment > (uint64_t{1} << 20)) {
    return fail(fmt::format("GGUF alignment {}: wanted a power of two up to 2^20", alignment));
  }
  alignment_ = alignment;
  if (alignment != 32) add_u32("general.alignment", static_cast<uint32_t>(alignment));
}

void GgufHeader::add(std::string_view key, GgufType type, std::string_view encoded) {
  if (key.empty()) return fail("a GGUF metadata key is empty; name it");
  if (!keys_.emplace(key).second)
    return fail(fmt::format("GGUF key {} is added twice, wanted once", quote(key)));
  put_text(&metadata_, key);
  put_number(&metadata_, static_cast<uint32_t>(type));
  metadata_.append(encoded);
  ++entries_;
}

void GgufHeader::add_u8(std::string_view key, uint8_t v) { add(key, GgufType::kU8, number(v)); }
void GgufHeader::add_u16(std::string_view key, uint16_t v) { add(key, GgufType::kU16, number(v)); }
void GgufHeader::add_u32(std::string_view key, uint32_t v) { add(key, GgufType::kU32, number(v)); }
void GgufHeader::add_i32(std::string_view key, int32_t v) { add(key, GgufType::kI32, number(v)); }
void GgufHeader::add_u64(std::string_view key, uint64_t v) { add(key, GgufType::kU64, number(v)); }
void GgufHeader::add_i64(std::string_view key, int64_t v) { add(key, GgufType::kI64, number(v)); }
void GgufHeader::add_f32(std::string_view key, float v) { add(key, GgufType::kF32, number(v)); }
void GgufHeader::add_f64(std::string_view key, double v) { add(key, GgufType::kF64, number(v)); }
void GgufHeader::add_bool(std::string_view key, bool v) {
  add(key, GgufType::kBool, number(static_cast<uint8_t>(v)));
}
void GgufHeader::add_i32s(std::string_view key, std::span<const int32_t> v) {
  add(key, GgufType::kArray, array(GgufType::kI32, v));
}
void GgufHeader::add_u64s(std::string_view key, std::span<const uint64_t> v) {
  add(key, GgufType::kArray, array(GgufType::kU64, v));
}
void GgufHeader::add_f32s(std::string_view key, std::span<const float> v) {
  add(key, GgufType::kArray, array(GgufType::kF32, v));
}

void GgufHeader::add_string(std::string_view key, std::string_view v) {
  std::string out;
  put_text(&out, v);
  add(key, GgufType::kString, out);
}

void GgufHeader::add_strings(std::string_view key, std::span<const std::string> v) {
  std::string out;
  put_number(&out, static_cast<uint32_t>(GgufType::kString));
  put_number(&out, static_cast<uint64_t>(v.size()));
  for (const std::string& s : v) put_text(&out, s);
  add(key, GgufType::kArray, out);
}

void GgufHeader::add_encoded(std::string_view key, GgufType type, std::span<const std::byte> encoded) {
  add(key, type, {reinterpret_cast<const char*>(encoded.data()), encoded.size()});
}

void GgufHeader::add_tensor(std::string_view name, WeightType type, std::span<const int64_t> dims) {
  const WeightTypeInfo info = weight_type_info(type);
  if (name.empty()) return fail("a GGUF tensor name is empty; name it");
  if (dims.empty() || dims.size() > kGgufMaxDims) {
    return fail(fmt::format("GGUF tensor {} has {} dimensions, wanted 1 to {}", quote(name), dims.size(),
                            kGgufMaxDims));
  }
  int64_t values = 1;
  for (int64_t d : dims) {
    if (d < 1 || __builtin_mul_overflow(values, d, &values)) {
      return fail(
          fmt::format("GGUF tensor {} has a dimension of {}, wanted at least 1 and a product below 2^63",
                      quote(name), d));
    }
  }
  if (dims[0] % info.block_length != 0) {
    return fail(fmt::format(
        "GGUF tensor {} has rows of {} values, wanted a multiple of {} for {}; choose another type",
        quote(name), dims[0], info.block_length, info.name));
  }
  uint64_t bytes = 0;
  uint64_t end = 0;
  if (__builtin_mul_overflow(static_cast<uint64_t>(values / info.block_length),
                             static_cast<uint64_t>(info.block_bytes), &bytes) ||
      __builtin_add_overflow(data_bytes_, bytes, &end) || end > (uint64_t{1} << 62)) {
    return fail(fmt::format("GGUF tensor {} makes the file larger than 2^62 bytes", quote(name)));
  }
  if (!names_.emplace(name).second)
    return fail(fmt::format("GGUF tensor {} is added twice, wanted once", quote(name)));
  tensors_.push_back({std::string(name), type, {dims.begin(), dims.end()}, bytes, data_bytes_});
  data_bytes_ = (end + alignment_ - 1) & ~(alignment_ - 1);
}

Result<std::string> GgufHeader::encode() const {
  if (!status_.ok()) return status_;
  std::string out = "GGUF";
  put_number(&out, uint32_t{3});
  put_number(&out, static_cast<uint64_t>(tensors_.size()));
  put_number(&out, entries_);
  out += metadata_;
  for (const Tensor& t : tensors_) {
    put_text(&out, t.name);
    put_number(&out, static_cast<uint32_t>(t.dims.size()));
    for (int64_t d : t.dims) put_number(&out, d);
    put_number(&out, static_cast<uint32_t>(t.type));
    put_number(&out, t.offset);
  }
  out.resize((out.size() + alignment_ - 1) & ~(alignment_ - 1), '\0');
  return out;
}

Status GgufWriter::os_error(const char* what) const {
  const int error = errno;
  const std::string text = fmt::format("{}: {}: {}", printable_path(path_), what, std::strerror(error));
  if (error == ENOENT || error == ENOTDIR) return bad_input(text + "; create the folder first");
  if (error == ENOSPC || error == EDQUOT)
    return resource_error(text + "; free some space or write elsewhere");
  return resource_error(text + "; check the folder's permissions and the disk");
}

Result<std::unique_ptr<GgufWriter>> GgufWriter::create(const std::string& path, GgufHeader header) {
  ARGON_ASSIGN_OR_RETURN(const std::string head, header.encode());
  struct stat st = {};
  if (::stat(path.c_str(), &st) == 0 && !S_ISREG(st.st_mode)) {
    return bad_input(fmt::format("{}: is not a regular file, wanted a file name to write; choose another",
                                 printable_path(path)));
  }
  std::unique_ptr<GgufWriter> writer(new GgufWriter(path, std::move(header)));
  ARGON_RETURN_IF_ERROR(writer->open_temporary());
  writer->buffer_.reserve(kBufferBytes);
  ARGON_RETURN_IF_ERROR(writer->put(std::as_bytes(std::span(head))));
  writer->enter_tensor();
  return writer;
}

Status GgufWriter::open_temporary() {
  const std::string folder = folder_of(path_);
#if defined(O_TMPFILE)
  fd_ = ::open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
  if (fd_ >= 0) return {};
#endif
  // Not every file system has unnamed files.
  for (int i = 0; i < 100 && fd_ < 0; ++i) {
    temporary_ = fmt::format("{}.part-{}-{}", path_, ::getpid(), i);
    fd_ = ::open(temporary_.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0666);
    if (fd_ < 0 && errno != EEXIST) break;
  }
  if (fd_ >= 0) return {};
  temporary_.clear();
  return os_error("cannot create the file");
}

GgufWriter::~GgufWriter() {
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
  if (fd_ >= 0) ::close(fd_);
}

uint64_t GgufWriter::tensor_bytes_left() const { return left_; }

void GgufWriter::enter_tensor() {
  left_ = tensor_ < header_.tensors().size() ? header_.tensors()[tensor_].bytes : 0;
}

Status GgufWriter::flush() {
  const std::byte* p = buffer_.data();
  size_t count = buffer_.size();
  while (count > 0) {
    const ssize_t n = ::write(fd_, p, count);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return os_error("cannot write");
    p += n;
    count -= static_cast<size_t>(n);
  }
  buffer_.clear();
  return {};
}

Status GgufWriter::put(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const size_t n = std::min(bytes.size(), kBufferBytes - buffer_.size());
    buffer_.insert(buffer_.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(n));
    bytes = bytes.subspan(n);
    if (buffer_.size() == kBufferBytes) ARGON_RETURN_IF_ERROR(flush());
  }
  return {};
}

Status GgufWriter::pad() {
  static constexpr std::byte kZeros[64] = {};
  uint64_t count = (header_.alignment() - written_ % header_.alignment()) % header_.alignment();
  written_ += count;
  while (count > 0) {
    const uint64_t n = std::min<uint64_t>(count, sizeof(kZeros));
    ARGON_RETURN_IF_ERROR(put(std::span(kZeros).first(n)));
    count -= n;
  }
  return {};
}

Status GgufWriter::append(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    if (tensor_ == header_.tensors().size()) {
      return internal_error(fmt::format("{}: {} bytes too many were given for the last tensor",
                                        printable_path(path_), bytes.size()));
    }
    const auto n = static_cast<size_t>(std::min<uint64_t>(bytes.size(), left_));
    ARGON_RETURN_IF_ERROR(put(bytes.first(n)));
    written_ += n;
    left_ -= n;
    bytes = bytes.subspan(n);
    if (left_ == 0) {
      ARGON_RETURN_IF_ERROR(pad());
      ++tensor_;
      enter_tensor();
    }
  }
  return {};
}

Status GgufWriter::finish() {
  if (fd_ < 0) return internal_error(printable_path(path_) + ": is finished already");
  if (tensor_ != header_.tensors().size()) {
    return internal_error(fmt::format("{}: tensor {} lacks {} bytes", printable_path(path_),
                                      quote(header_.tensors()[tensor_].name), left_));
  }
  ARGON_RETURN_IF_ERROR(flush());
  if (::fsync(fd_) != 0) return os_error("cannot write");
  if (temporary_.empty()) {
    // Give the unnamed file a name; linkat cannot replace the target, rename can.
    const std::string self = fmt::format("/proc/self/fd/{}", fd_);
    const std::string name = fmt::format("{}.part-{}", path_, ::getpid());
    ::unlink(name.c_str());
    if (::linkat(AT_FDCWD, self.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) != 0) {
      return os_error("cannot name the file");
    }
    temporary_ = name;
  }
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) return os_error("cannot rename the finished file");
  temporary_.clear();
  ::close(fd_);
  fd_ = -1;
  return {};
}

}  // namespace argon
