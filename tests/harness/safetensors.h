// Reads the small reference files of the tests (Hugging Face safetensors). Not for the product.
#pragma once

#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

namespace argon::testing {

class SafeTensors {
 public:
  explicit SafeTensors(const std::string& path) {
    std::ifstream f(path, std::ios::binary);
    bytes_.assign(std::istreambuf_iterator<char>(f), {});
    uint64_t n = 0;
    if (bytes_.size() < 8) throw std::runtime_error("cannot read " + path);
    std::memcpy(&n, bytes_.data(), 8);
    header_ = nlohmann::json::parse(bytes_.begin() + 8, bytes_.begin() + 8 + static_cast<std::ptrdiff_t>(n));
    base_ = 8 + n;
  }
  template <class T>
  std::vector<T> get(const std::string& name) const {
    const auto& o = header_.at(name).at("data_offsets");
    const size_t begin = o[0], end = o[1];
    std::vector<T> v((end - begin) / sizeof(T));
    std::memcpy(v.data(), bytes_.data() + base_ + begin, end - begin);
    return v;
  }

 private:
  std::vector<char> bytes_;
  nlohmann::json header_;
  size_t base_ = 0;
};

}  // namespace argon::testing
