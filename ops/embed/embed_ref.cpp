#include <cstring>

#include "formats/format.h"
#include "ops/embed/embed.h"

namespace argon::ops {

void embed_ref(const EmbedArgs& a, int64_t begin, int64_t end) {
  const size_t K = static_cast<size_t>(a.w.cols);
  for (int64_t i = begin; i < end; ++i) {
    float* y = a.y + static_cast<size_t>(i * a.copies) * K;
    const uint8_t* row =
        static_cast<const uint8_t*>(a.w.data) + static_cast<size_t>(a.ids[i]) * a.w.row_bytes;
    find_format(a.w.type)->dequant_row(row, a.w.cols, y);
    for (int64_t c = 1; c < a.copies; ++c) std::memcpy(y + static_cast<size_t>(c) * K, y, K * sizeof(float));
  }
}

}  // namespace argon::ops
