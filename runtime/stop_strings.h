// Ends a stream of text before the first of some stop strings, holding back what may yet become one.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace argon {

class StopStrings {
 public:
  explicit StopStrings(std::vector<std::string> stops) : stops_(std::move(stops)) {
    stops_.erase(std::remove(stops_.begin(), stops_.end(), std::string()), stops_.end());
  }

  // What can be shown after `text` came; sets stopped() when a stop string is complete.
  std::string push(std::string_view text) {
    held_ += text;
    size_t first = std::string::npos;
    for (const std::string& s : stops_) first = std::min(first, held_.find(s));
    if (first != std::string::npos) {
      stopped_ = true;
      std::string out = held_.substr(0, first);
      held_.clear();
      return out;
    }
    size_t keep = 0;
    for (const std::string& s : stops_) keep = std::max(keep, longest_prefix_at_end(s));
    std::string out = held_.substr(0, held_.size() - keep);
    held_.erase(0, held_.size() - keep);
    return out;
  }
  // What was held back, at the end of the stream.
  std::string finish() { return std::exchange(held_, {}); }
  bool stopped() const { return stopped_; }

 private:
  size_t longest_prefix_at_end(const std::string& s) const {
    for (size_t n = std::min(s.size() - 1, held_.size()); n > 0; --n) {
      if (held_.compare(held_.size() - n, n, s, 0, n) == 0) return n;
    }
    return 0;
  }
  std::vector<std::string> stops_;
  std::string held_;
  bool stopped_ = false;
};

}  // namespace argon
