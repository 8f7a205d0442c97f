#include "model/weight_check.h"

#include <algorithm>
#include <cmath>
#include <mutex>

#include "formats/format.h"

namespace argon {
namespace {

// Numbers that are not finite, and where the first of them is.
struct Found {
  uint64_t count = 0;
  int64_t first = INT64_MAX;  // index of a value in the tensor

  void add(int64_t value) {
    ++count;
    first = std::min(first, value);
  }
};

constexpr int64_t kPieceValues = int64_t{1} << 16;  // of one unit of work; a multiple of every block
constexpr uint64_t kPiecesPerTurn = 256;            // between two reports

void look_at_floats(const FormatTraits& f, const uint8_t* data, int64_t begin, int64_t end, Found* found) {
  float values[256];
  for (int64_t i = begin; i < end; i += 256) {
    const int64_t n = std::min<int64_t>(256, end - i);
    f.dequant_row(data + i * f.block_bytes, n, values);
    for (int64_t j = 0; j < n; ++j) {
      if (!std::isfinite(values[j])) found->add(i + j);
    }
  }
}

void look_at_steps(const FormatTraits& f, const uint8_t* data, int64_t begin, int64_t end, Found* found) {
  for (int64_t i = begin; i < end; i += 32) {
    int8_t codes[32];
    Steps s;
    f.unpack32(data + i / f.block_values * f.block_bytes, static_cast<int>(i % f.block_values / 32), codes,
               &s);
    for (int k = 0; k < s.n; ++k) {
      if (!std::isfinite(s.sw[k]) || (s.has_min && !std::isfinite(s.mw[k]))) found->add(i + 32 / s.n * k);
    }
  }
}

}  // namespace

Result<WeightCheck> check_weights(const GgufFile& file, ThreadPool& pool,
                                  const std::function<bool(uint64_t, uint64_t)>& progress) {
  WeightCheck out;
  const uint64_t total = file.total_bytes();
  uint64_t passed = 0;  // bytes of the tensors before this one
  for (const GgufTensor& t : file.tensors()) {
    const FormatTraits* f = find_format(t.type);
    if (f == nullptr) {
      ++out.skipped;
      passed += t.bytes;
      continue;
    }
    const auto* data = reinterpret_cast<const uint8_t*>(t.data);
    const int64_t values = t.values();
    const int64_t pieces = (values + kPieceValues - 1) / kPieceValues;
    Found found;
    std::mutex lock;
    for (int64_t turn = 0; turn < pieces; turn += kPiecesPerTurn) {
      const int64_t units = std::min<int64_t>(kPiecesPerTurn, pieces - turn);
      pool.run(units, 1, [&](int64_t begin, int64_t end) {
        Found here;
        const int64_t first = (turn + begin) * kPieceValues;
        const int64_t last = std::min(values, (turn + end) * kPieceValues);
        (f->steps == 0 ? look_at_floats : look_at_steps)(*f, data, first, last, &here);
        if (here.count == 0) return;
        const std::lock_guard<std::mutex> hold(lock);
        found.count += here.count;
        found.first = std::min(found.first, here.first);
      });
      const auto share = static_cast<double>(turn + units) / static_cast<double>(pieces);
      const auto done = passed + static_cast<uint64_t>(share * static_cast<double>(t.bytes));
      if (progress != nullptr && !progress(done, total)) {
        return Status(Code::kCancelled, "stopped before all weights were read");
      }
    }
    if (found.count != 0) {
      out.bad.push_back({std::string(t.name), found.count, found.first / t.dims[0], found.first % t.dims[0]});
    }
    out.bytes += t.bytes;
    passed += t.bytes;
  }
  return out;
}

}  // namespace argon
