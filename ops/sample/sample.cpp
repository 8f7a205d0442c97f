#include "ops/sample/sample.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

namespace argon::ops {
namespace {

struct Candidate {
  uint64_t p;
  int32_t id;
};

bool before(const Candidate& a, const Candidate& b) { return a.p != b.p ? a.p > b.p : a.id < b.id; }

// Candidates in sorted order, sorted only as far as someone looks: a vocabulary is large and an answer short.
class Ranked {
 public:
  explicit Ranked(std::vector<Candidate> c) : c_(std::move(c)) {}
  size_t size() const { return c_.size(); }
  uint64_t total() const {
    uint64_t sum = 0;
    for (const Candidate& c : c_) sum += c.p;
    return sum;
  }
  void truncate(size_t n) {
    if (n >= c_.size()) return;
    sort_to(n);
    c_.resize(n);
  }
  const Candidate& operator[](size_t i) {
    if (i >= sorted_) sort_to(std::min(c_.size(), std::max<size_t>(64, 4 * (i + 1))));
    return c_[i];
  }

 private:
  void sort_to(size_t n) {
    if (n <= sorted_) return;
    const auto from = c_.begin() + static_cast<std::ptrdiff_t>(sorted_);
    std::partial_sort(from, c_.begin() + static_cast<std::ptrdiff_t>(n), c_.end(), before);
    sorted_ = n;
  }
  std::vector<Candidate> c_;
  size_t sorted_ = 0;
};

// The token, or -1 when a logit is not finite.
int32_t choose(const SampleArgs& a, const std::function<void(const SampleWeightsArgs&)>& weights) {
  const SampleOptions& o = a.options;
  const std::span<float> logits(a.logits, static_cast<size_t>(a.V));
  for (float l : logits) {
    if (!std::isfinite(l)) return -1;
  }
  for (int64_t i = 0; i < a.count; ++i) {
    float& l = logits[static_cast<size_t>(a.penalized[i])];
    l = l > 0.0f ? l / o.repeat_penalty : l * o.repeat_penalty;
    l = l - o.presence_penalty;
  }
  const int32_t best = argmax(logits);
  if (o.temperature == 0.0f) return best;

  std::vector<float> p(logits.size());
  weights({a.logits, p.data(), a.V, o.temperature, logits[static_cast<size_t>(best)] / o.temperature});
  std::vector<Candidate> all;
  for (size_t i = 0; i < p.size(); ++i) {
    if (p[i] > 0.0f) all.push_back({static_cast<uint64_t>(p[i]), static_cast<int32_t>(i)});
  }
  if (all.empty()) return best;
  Ranked ranked(std::move(all));
  if (o.top_k > 0) ranked.truncate(static_cast<size_t>(o.top_k));

  __extension__ using Wide = unsigned __int128;
  if (o.top_p < 1.0f) {
    const uint64_t want = static_cast<uint64_t>(
        (Wide{ranked.total()} * static_cast<uint64_t>(std::nearbyint(o.top_p * 0x1p32f))) >> 32);
    size_t n = 0;
    for (uint64_t sum = 0; n < ranked.size() && (n == 0 || sum < want); ++n) sum += ranked[n].p;
    ranked.truncate(n);
  }
  if (o.min_p > 0.0f) {
    const uint64_t least = static_cast<uint64_t>(std::nearbyint(o.min_p * 0x1p40f));
    size_t n = 1;
    while (n < ranked.size() && ranked[n].p >= least) ++n;
    ranked.truncate(n);
  }
  const uint64_t draw = static_cast<uint64_t>((Wide{a.random} * ranked.total()) >> 64);
  uint64_t sum = 0;
  for (size_t i = 0; i + 1 < ranked.size(); ++i) {
    sum += ranked[i].p;
    if (sum > draw) return ranked[i].id;
  }
  return ranked[ranked.size() - 1].id;
}

}  // namespace

Status check(const SampleOptions& o) {
  const auto bad = [](const char* name, double found, const char* wanted) {
    std::string v = std::to_string(found);
    return bad_input(std::string(name) + " is " + v + ": wanted " + wanted);
  };
  if (!(o.temperature >= 0.0f && o.temperature <= 100.0f))
    return bad("temperature", o.temperature, "0 (greedy) to 100");
  if (o.top_k < 0) return bad("top-k", o.top_k, "0 (off) or more");
  if (!(o.top_p > 0.0f && o.top_p <= 1.0f)) return bad("top-p", o.top_p, "more than 0, at most 1 (off)");
  if (!(o.min_p >= 0.0f && o.min_p < 1.0f)) return bad("min-p", o.min_p, "0 (off) or more, below 1");
  if (!(o.repeat_penalty > 0.0f && o.repeat_penalty <= 100.0f)) {
    return bad("repeat-penalty", o.repeat_penalty, "more than 0, at most 100; 1 is off");
  }
  if (!(std::fabs(o.presence_penalty) <= 100.0f))
    return bad("presence-penalty", o.presence_penalty, "-100 to 100; 0 is off");
  if (o.penalty_window < 0) return bad("repeat-last-n", o.penalty_window, "0 (all) or more");
  return {};
}

int32_t argmax(std::span<const float> logits) {
  size_t best = 0;
  for (size_t i = 1; i < logits.size(); ++i) {
    if (logits[i] > logits[best]) best = i;
  }
  return static_cast<int32_t>(best);
}

uint64_t philox64(uint64_t key, uint64_t position, uint32_t choice) {
  uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  uint32_t c[4] = {static_cast<uint32_t>(position), static_cast<uint32_t>(position >> 32), choice, 0};
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53u} * c[0], p1 = uint64_t{0xCD9E8D57u} * c[2];
    const uint32_t next[4] = {static_cast<uint32_t>(p1 >> 32) ^ c[1] ^ k0, static_cast<uint32_t>(p1),
                              static_cast<uint32_t>(p0 >> 32) ^ c[3] ^ k1, static_cast<uint32_t>(p0)};
    std::copy_n(next, 4, c);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return c[0] | (uint64_t{c[1]} << 32);
}

bool penalizes(const SampleOptions& o) { return o.repeat_penalty != 1.0f || o.presence_penalty != 0.0f; }

std::vector<int32_t> penalized_ids(std::span<const int32_t> history, const SampleOptions& o, int64_t V) {
  if (!penalizes(o)) return {};
  const size_t window = o.penalty_window == 0 ? history.size() : static_cast<size_t>(o.penalty_window);
  if (history.size() > window) history = history.last(window);
  std::vector<int32_t> ids;
  for (int32_t id : history) {
    if (id >= 0 && id < V) ids.push_back(id);
  }
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

std::optional<int32_t> sample(std::span<float> logits, std::span<const int32_t> history, uint64_t position,
                              uint32_t choice, const SampleOptions& options) {
  const auto V = static_cast<int64_t>(logits.size());
  const std::vector<int32_t> ids = penalized_ids(history, options, V);
  int32_t token = -1;
  sample_ref({logits.data(), ids.data(), &token, V, static_cast<int64_t>(ids.size()),
              philox64(options.seed, position, choice), options});
  return token < 0 ? std::nullopt : std::optional(token);
}

void sample_ref(const SampleArgs& args) {
  sample_with(args, [](const SampleWeightsArgs& w) { sample_weights_ref(w, 0, w.V); });
}

void sample_with(const SampleArgs& args, const std::function<void(const SampleWeightsArgs&)>& weights) {
  *args.token = choose(args, weights);
}

}  // namespace argon::ops
