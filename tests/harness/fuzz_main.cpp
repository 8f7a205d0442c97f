// The standalone driver of every fuzzer, for compilers without libFuzzer: runs LLVMFuzzerTestOneInput on each
// seed as it is, then on mutations of the seeds. The same seed number and run count give the same inputs on
// every machine.
//
//   PROG [-seconds N] [-runs N] [-seed S] [-max_len BYTES] [files or folders...]
//
// Stops at whichever of -seconds and -runs comes first (default: 10 seconds). The input being run when the
// process dies is written to ./crash-PROG.bin; `PROG -runs 0 crash-PROG.bin` repeats it.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
// Present under a sanitizer, whose reports end the process without a signal.
extern "C" __attribute__((weak)) void __sanitizer_set_death_callback(void (*callback)());

namespace {

using Bytes = std::vector<uint8_t>;

const uint8_t* g_data = nullptr;
size_t g_size = 0;
std::string g_crash_path;

void save_input() {
  const int fd = open(g_crash_path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  if (fd < 0) return;
  size_t done = 0;
  while (done < g_size) {
    const ssize_t n = write(fd, g_data + done, g_size - done);
    if (n <= 0) break;
    done += static_cast<size_t>(n);
  }
  close(fd);
  static constexpr char kText[] = "fuzz: the input was saved as ";
  if (write(2, kText, sizeof(kText) - 1) < 0 || write(2, g_crash_path.data(), g_crash_path.size()) < 0 ||
      write(2, "\n", 1) < 0) {
    return;
  }
}

void on_signal(int signal_number) {
  save_input();
  std::signal(signal_number, SIG_DFL);
  std::raise(signal_number);
}

// The fuzz target gets a block of exactly the input's size, so that a sanitizer sees a read one byte past it.
void run_one(const Bytes& input) {
  std::unique_ptr<uint8_t[]> exact(new uint8_t[input.size()]);
  std::copy(input.begin(), input.end(), exact.get());
  g_data = exact.get();
  g_size = input.size();
  LLVMFuzzerTestOneInput(exact.get(), input.size());
  g_size = 0;
}

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t next() {  // SplitMix64
    uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  size_t below(size_t n) { return n == 0 ? 0 : static_cast<size_t>(next() % n); }

 private:
  uint64_t state_;
};

// Half of the positions fall into the first 4 KB: headers are where the parsers' decisions are.
size_t position(Random& rng, size_t size) {
  return rng.below(2) == 0 ? rng.below(std::min<size_t>(size, 4096)) : rng.below(size);
}

void put_integer(Bytes& b, Random& rng) {
  static constexpr uint64_t kInteresting[] = {0,           1,           2,
                                              3,           7,           8,
                                              16,          31,          32,
                                              64,          100,         127,
                                              128,         255,         256,
                                              1024,        4095,        4096,
                                              32767,       32768,       65535,
                                              65536,       0x7fffffff,  0x80000000u,
                                              0xfffffffeu, 0xffffffffu, 0x100000000u,
                                              1ull << 40,  1ull << 61,  1ull << 62,
                                              ~0ull >> 1,  1ull << 63,  ~0ull - 7,
                                              ~0ull};
  const size_t width = size_t{1} << rng.below(4);
  if (b.size() < width) return;
  const size_t at = position(rng, b.size() - width + 1);
  const uint64_t value = kInteresting[rng.below(std::size(kInteresting))];
  for (size_t i = 0; i < width; ++i) b[at + i] = static_cast<uint8_t>(value >> (8 * i));
}

void mutate_once(Bytes& b, const std::vector<Bytes>& seeds, size_t max_len, Random& rng) {
  switch (rng.below(8)) {
    case 0:
    case 1:  // flip a bit
      if (!b.empty()) b[position(rng, b.size())] ^= static_cast<uint8_t>(1u << rng.below(8));
      break;
    case 2:  // set a byte
      if (!b.empty()) b[position(rng, b.size())] = static_cast<uint8_t>(rng.next());
      break;
    case 3:
      put_integer(b, rng);
      break;
    case 4:  // truncate
      b.resize(rng.below(4) == 0 ? rng.below(b.size() + 1)
                                 : b.size() - rng.below(std::min<size_t>(b.size(), 16) + 1));
      break;
    case 5: {  // splice: replace the tail by a part of another seed
      const Bytes& other = seeds[rng.below(seeds.size())];
      b.resize(rng.below(b.size() + 1));
      const size_t from = rng.below(other.size() + 1);
      b.insert(b.end(), other.begin() + static_cast<std::ptrdiff_t>(from), other.end());
      break;
    }
    case 6: {  // repeat or insert a run
      const size_t at = b.empty() ? 0 : position(rng, b.size());
      const size_t n = 1 + rng.below(16);
      Bytes run(n, static_cast<uint8_t>(rng.next()));
      if (b.size() - at >= n && rng.below(2) == 0) {
        std::copy_n(b.begin() + static_cast<std::ptrdiff_t>(at), n, run.begin());
      }
      b.insert(b.begin() + static_cast<std::ptrdiff_t>(at), run.begin(), run.end());
      break;
    }
    default: {  // delete a run
      if (b.empty()) break;
      const size_t at = position(rng, b.size());
      const size_t n = std::min(b.size() - at, 1 + rng.below(16));
      b.erase(b.begin() + static_cast<std::ptrdiff_t>(at), b.begin() + static_cast<std::ptrdiff_t>(at + n));
      break;
    }
  }
  if (b.size() > max_len) b.resize(max_len);
}

bool add_seed(const std::filesystem::path& path, std::vector<Bytes>& seeds) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    std::fprintf(stderr, "fuzz: cannot read the seed %s\n", path.c_str());
    return false;
  }
  seeds.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string program = std::filesystem::path(argv[0]).filename().string();
  g_crash_path = "crash-" + program + ".bin";
  uint64_t seconds = 0, seed = 1, runs = 0, max_len = 0;
  bool has_seconds = false, has_runs = false;
  std::vector<Bytes> seeds;
  for (int i = 1; i < argc; ++i) {
    const std::string_view arg = argv[i];
    uint64_t* number = nullptr;
    if (arg == "-seconds") number = &seconds, has_seconds = true;
    if (arg == "-runs") number = &runs, has_runs = true;
    if (arg == "-seed") number = &seed;
    if (arg == "-max_len") number = &max_len;
    if (number != nullptr) {
      char* end = nullptr;
      if (i + 1 < argc) *number = std::strtoull(argv[i + 1], &end, 10);
      if (end == nullptr || end == argv[i + 1] || *end != '\0') {
        std::fprintf(stderr, "fuzz: %s wants a number\n", argv[i]);
        return 2;
      }
      ++i;
    } else if (std::filesystem::is_directory(arg)) {
      std::vector<std::filesystem::path> files;
      for (const auto& entry : std::filesystem::directory_iterator(arg)) {
        if (entry.is_regular_file()) files.push_back(entry.path());
      }
      std::sort(files.begin(), files.end());
      for (const auto& f : files) {
        if (!add_seed(f, seeds)) return 2;
      }
    } else if (!add_seed(arg, seeds)) {
      return 2;
    }
  }
  if (!has_seconds && !has_runs) seconds = 10, has_seconds = true;
  if (seeds.empty()) seeds.emplace_back();
  if (max_len == 0) {
    for (const Bytes& s : seeds) max_len = std::max<uint64_t>(max_len, s.size() + 4096);
  }

  if (__sanitizer_set_death_callback != nullptr) __sanitizer_set_death_callback(save_input);
  for (const int s : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL}) std::signal(s, on_signal);

  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  uint64_t executions = 0;
  for (const Bytes& s : seeds) {
    run_one(s);
    ++executions;
  }
  Random rng(seed);
  for (uint64_t i = 0; !has_runs || i < runs; ++i) {
    if (has_seconds && Clock::now() - start >= std::chrono::seconds(seconds)) break;
    Bytes input = seeds[rng.below(seeds.size())];
    const size_t count = 1 + rng.below(8);
    for (size_t k = 0; k < count; ++k) mutate_once(input, seeds, max_len, rng);
    run_one(input);
    ++executions;
  }
  const double took = std::chrono::duration<double>(Clock::now() - start).count();
  std::printf("%s: %llu executions in %.1f s from %zu seeds (seed number %llu), no failure\n",
              program.c_str(), static_cast<unsigned long long>(executions), took, seeds.size(),
              static_cast<unsigned long long>(seed));
  return 0;
}
