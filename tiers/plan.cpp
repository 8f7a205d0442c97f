#include "tiers/plan.h"

#include <algorithm>
#include <numeric>
#include <string>

namespace argon::tiers {
namespace {

std::string mebibytes(uint64_t bytes) {
  return std::to_string((bytes + (uint64_t{1} << 20) - 1) >> 20) + " MiB";
}

// Of a newcomer and the one it replaces: at least this many uses more, and half as many again.
constexpr uint32_t kLead = 4;
bool clearly_hotter(uint32_t in, uint32_t out) { return in >= out + kLead && in >= out + out / 2; }

}  // namespace

Result<Plan> divide(const ops::MemoryNeeds& needs, uint64_t budget) {
  if (needs.fixed() > budget) {
    return resource_error(
        "the GPU memory to be used is " + mebibytes(budget) + ", and " + mebibytes(needs.fixed()) +
        " are needed at least: weights besides the experts " + mebibytes(needs.weights) + ", sequences " +
        mebibytes(needs.states) + ", working memory " + mebibytes(needs.working) + ", driver and kernels " +
        mebibytes(needs.own) + "; raise --gpu-memory, lower --context or --pass, or take --backend cpu");
  }
  Plan plan;
  uint64_t left = budget - needs.fixed();
  plan.whole = needs.experts() <= left;
  if (!plan.whole) {
    const auto largest =
        std::max_element(needs.layers.begin(), needs.layers.end(),
                         [](const auto& a, const auto& b) { return a.bytes_each < b.bytes_each; });
    const int64_t passing = std::clamp<int64_t>(largest->experts / 16, 1, 32);
    if (static_cast<uint64_t>(passing) * largest->bytes_each <= left / 8) {
      plan.passing = passing;
      plan.passing_bytes = static_cast<uint64_t>(passing) * largest->bytes_each;
      left -= plan.passing_bytes;
    }
  }
  const double share = plan.whole ? 1.0 : static_cast<double>(left) / static_cast<double>(needs.experts());
  for (const auto& l : needs.layers) {
    const auto wanted = std::min(l.experts, static_cast<int64_t>(static_cast<double>(l.experts) * share));
    const uint64_t most = l.bytes_each > 0 ? left / l.bytes_each : static_cast<uint64_t>(l.experts);
    const int64_t n = std::min(wanted, static_cast<int64_t>(std::min<uint64_t>(most, uint64_t{1} << 40)));
    plan.resident.push_back(n);
    plan.experts += l.experts;
    left -= static_cast<uint64_t>(n) * l.bytes_each;
  }
  for (size_t i = 0; i < needs.layers.size(); ++i) {
    const auto& l = needs.layers[i];
    if (plan.resident[i] == l.experts || l.bytes_each > left) continue;
    ++plan.resident[i];
    left -= l.bytes_each;
  }
  plan.resident_bytes = budget - needs.fixed() - plan.passing_bytes - left;
  plan.table = plan.whole && needs.table > 0 && needs.table <= left;
  plan.device_bytes =
      needs.fixed() + plan.resident_bytes + plan.passing_bytes + (plan.table ? needs.table : 0);
  return plan;
}

Result<Plan> fit_beside(const ops::MemoryNeeds& needs, uint64_t budget, uint64_t taken) {
  const uint64_t wanted = needs.fixed() + needs.experts(), left = budget - std::min(budget, taken);
  if (wanted > left) {
    return resource_error(
        "the GPU memory to be used is " + mebibytes(budget) + ", of which " + mebibytes(taken) +
        " are another model's; this one needs " + mebibytes(wanted) +
        ", since only one model's experts can be divided between GPU and CPU: raise --gpu-memory, give this "
        "model a process of its own, or take --backend cpu");
  }
  return divide(needs, left);
}

void Heat::add(std::span<const int32_t> uses, int64_t tokens) {
  for (since_ += tokens; since_ >= kHalfLife; since_ -= kHalfLife) {
    for (uint32_t& c : counts_) c /= 2;
  }
  for (size_t e = 0; e < counts_.size(); ++e) {
    counts_[e] = static_cast<uint32_t>(
        std::min<uint64_t>(uint64_t{counts_[e]} + static_cast<uint32_t>(uses[e]), 1u << 30));
  }
}

std::vector<Heat::Swap> Heat::swaps(std::span<const int32_t> resident, int64_t limit) const {
  std::vector<bool> is_resident(counts_.size());
  for (int32_t e : resident) is_resident[static_cast<size_t>(e)] = true;
  std::vector<int64_t> in, out(resident.size());
  for (size_t e = 0; e < counts_.size(); ++e) {
    if (!is_resident[e] && counts_[e] >= kLead) in.push_back(static_cast<int64_t>(e));
  }
  std::iota(out.begin(), out.end(), int64_t{0});
  const auto count_in = [&](int64_t e) { return counts_[static_cast<size_t>(e)]; };
  const auto count_out = [&](int64_t slot) { return count_in(resident[static_cast<size_t>(slot)]); };
  const auto n = static_cast<std::ptrdiff_t>(
      std::min({static_cast<size_t>(std::max<int64_t>(limit, 0)), in.size(), out.size()}));
  std::partial_sort(in.begin(), in.begin() + n, in.end(), [&](int64_t a, int64_t b) {
    return count_in(a) != count_in(b) ? count_in(a) > count_in(b) : a < b;
  });
  std::partial_sort(out.begin(), out.begin() + n, out.end(), [&](int64_t a, int64_t b) {
    return count_out(a) != count_out(b) ? count_out(a) < count_out(b) : a < b;
  });
  std::vector<Swap> swaps;
  for (std::ptrdiff_t i = 0;
       i < n && clearly_hotter(count_in(in[static_cast<size_t>(i)]), count_out(out[static_cast<size_t>(i)]));
       ++i)
    swaps.push_back({out[static_cast<size_t>(i)], in[static_cast<size_t>(i)]});
  return swaps;
}

}  // namespace argon::tiers
