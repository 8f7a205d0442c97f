#include "metal/tests/parity.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>

namespace argon::metal {
namespace {

constexpr uint32_t kPoison = 0x7fd5a5a5u;
constexpr uint32_t kGuardWord = 0x600dcafeu;

std::string first_line(const std::string& path, const std::string& key) {
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    if (line.rfind(key, 0) == 0) return line.substr(std::min(line.size(), line.find(':') + 2));
  }
  return "";
}

std::string command_output(const char* command) {
  std::string out;
  if (FILE* p = popen(command, "r")) {
    char buffer[256];
    while (std::fgets(buffer, sizeof buffer, p) != nullptr) out += buffer;
    pclose(p);
  }
  while (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

std::string machine() {
  std::string cpu = first_line("/proc/cpuinfo", "model name");
  if (cpu.empty()) cpu = command_output("sysctl -n machdep.cpu.brand_string 2>/dev/null");
  return (cpu.empty() ? "unknown processor" : cpu) + ", " + std::to_string(sysconf(_SC_NPROCESSORS_ONLN)) +
         " processors, " + command_output("uname -sm");
}

}  // namespace

template <class T>
Buffer<T>::Buffer(Device& device, size_t count) : device_(device), count_(count) {
  Result<void*> p = device.allocate(count * sizeof(T) + 2 * kGuard + 16);
  if (!p.ok()) {
    std::fprintf(stderr, "%s\n", p.status().message().c_str());
    std::exit(1);
  }
  base_ = static_cast<std::byte*>(*p);
  data_ = reinterpret_cast<T*>(base_ + kGuard);
  for (size_t i = 0; i < kGuard / 4; ++i) std::memcpy(base_ + 4 * i, &kGuardWord, 4);
  for (size_t i = 0; i < kGuard / 4; ++i) std::memcpy(base_ + kGuard + bytes() + 4 * i, &kGuardWord, 4);
  poison();
}

template <class T>
void Buffer<T>::fill(const std::vector<T>& v) {
  if (!v.empty()) std::memcpy(data_, v.data(), std::min(v.size(), count_) * sizeof(T));
}

template <class T>
void Buffer<T>::poison() {
  auto* p = reinterpret_cast<std::byte*>(data_);
  for (size_t i = 0; i < bytes(); ++i) p[i] = static_cast<std::byte>(kPoison >> (8 * (i % 4)));
}

template <class T>
bool Buffer<T>::guards_intact() const {
  for (size_t i = 0; i < kGuard / 4; ++i) {
    if (std::memcmp(base_ + 4 * i, &kGuardWord, 4) != 0) return false;
    if (std::memcmp(base_ + kGuard + bytes() + 4 * i, &kGuardWord, 4) != 0) return false;
  }
  return true;
}

template class Buffer<float>;
template class Buffer<uint16_t>;
template class Buffer<int32_t>;

uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

std::vector<float> random_floats(uint64_t seed, size_t n, float low, float high) {
  std::vector<float> v(n);
  for (size_t i = 0; i < n; ++i) {
    const uint64_t r = mix(seed * 0x100000001b3ull + i);
    v[i] = low + (high - low) * (static_cast<float>(r >> 40) * 0x1p-24f);
    if ((r & 63) == 0) v[i] = (r & 64) != 0 ? 1.5e-38f : (r & 128) != 0 ? -0.0f : 0.0f;
  }
  return v;
}

void Verdict::words(const char* what, const void* got, const void* wanted, size_t width, size_t n) {
  if (std::memcmp(got, wanted, width * n) == 0) return;
  const auto* g = static_cast<const unsigned char*>(got);
  const auto* w = static_cast<const unsigned char*>(wanted);
  size_t first = n, differing = 0;
  for (size_t i = 0; i < n; ++i) {
    if (std::memcmp(g + i * width, w + i * width, width) == 0) continue;
    first = std::min(first, i);
    ++differing;
  }
  uint32_t a = 0, b = 0;
  std::memcpy(&a, g + first * width, width);
  std::memcpy(&b, w + first * width, width);
  char text[256];
  std::snprintf(text, sizeof text, "%s[%zu]: got 0x%0*x, wanted 0x%0*x (%zu of %zu differ)%s", what, first,
                static_cast<int>(2 * width), a, static_cast<int>(2 * width), b, differing, n,
                a == (kPoison & (width == 2 ? 0xffffu : 0xffffffffu)) ? ": never written" : "");
  fail(text);
}

void Report::line(const std::string& name, const Verdict& v) {
  v.ok() ? ++passed_ : ++failed_;
  const std::string text = (v.ok() ? "PASS  " : "FAIL  ") + name + (v.ok() ? "" : "  " + v.why());
  std::printf("%s\n", text.c_str());
  std::fflush(stdout);
  cases_ += text + "\n";
}

void Report::table(const std::string& caption, const std::vector<std::string>& head,
                   const std::vector<std::vector<std::string>>& rows) {
  std::string t = caption + "\n\n|";
  for (const std::string& h : head) t += " " + h + " |";
  t += "\n|";
  for (size_t i = 0; i < head.size(); ++i) t += "---|";
  for (const auto& r : rows) {
    t += "\n|";
    for (const std::string& c : r) t += " " + c + " |";
  }
  std::printf("\n%s\n\n", t.c_str());
  tables_ += t + "\n\n";
}

Status Report::write(const std::string& path, const std::string& device) const {
  std::ofstream out(path);
  out << "# " << title_ << "\n\n- machine: " << machine() << "\n- device: " << device
      << "\n- commit: " << command_output("git rev-parse --short HEAD 2>/dev/null")
      << "\n- verdict: " << passed_ << " cases equal, " << failed_ << " different: **"
      << (all_passed() ? "PASS" : "FAIL") << "**\n\n"
      << tables_ << "Cases, each by memcmp:\n\n```\n"
      << cases_ << "```\n";
  if (!out.flush()) return resource_error("cannot write the report '" + path + "'");
  return {};
}

int Report::finish(const std::string& path, const std::string& device) const {
  std::printf("%d passed, %d failed\n", passed_, failed_);
  if (!path.empty()) {
    const Status s = write(path, device);
    if (!s.ok()) std::fprintf(stderr, "%s\n", s.message().c_str());
    if (!s.ok()) return 1;
  }
  return all_passed() ? 0 : 1;
}

bool comparison_catches_a_flipped_bit(Device& device) {
  const std::vector<float> wanted = random_floats(1, 1000, -1.0f, 1.0f);
  Buffer<float> got(device, wanted.size());
  got.fill(wanted);
  Verdict same, flipped, outside;
  same.equal("self", got, wanted);
  uint32_t word = 0;
  std::memcpy(&word, got.data() + 777, 4);
  word ^= 1u;
  std::memcpy(got.data() + 777, &word, 4);
  flipped.equal("self", got, wanted);
  got.fill(wanted);
  got.data()[wanted.size()] = 0.0f;
  outside.equal("self", got, wanted);
  return same.ok() && !flipped.ok() && !outside.ok();
}

Samples summarise(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  double sum = 0;
  for (double x : v) sum += x;
  const size_t n = v.size();
  return {n % 2 == 1 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2, v.front(), v.back(),
          sum / static_cast<double>(n)};
}

double median_ratio(const std::vector<double>& candidate, const std::vector<double>& baseline) {
  std::vector<double> r;
  for (size_t i = 0; i < candidate.size(); ++i) r.push_back(candidate[i] / baseline[i]);
  return summarise(r).median;
}

int refuse_checks_on_cuda() {
  std::fprintf(stderr,
               "--checks is for Metal kernels, which the executor runs; for CUDA's there is "
               "compute-sanitizer: cuda/tools/sanitize.sh\n");
  return 2;
}

std::string number(double v, int digits) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", digits, v);
  return text;
}

std::string grouped_digits(uint64_t v) {
  std::string s = std::to_string(v);
  for (size_t i = s.size(); i > 3; i -= 3) s.insert(i - 3, ",");
  return s;
}

}  // namespace argon::metal
