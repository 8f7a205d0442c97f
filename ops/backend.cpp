#include "ops/backend.h"

#include <vector>

namespace argon::ops {

void Backend::run_sample(const SampleArgs& args) {
  std::vector<float> logits(static_cast<size_t>(args.V));
  std::vector<int32_t> penalized(static_cast<size_t>(args.count));
  read(logits.data(), args.logits, logits.size() * sizeof(float));
  read(penalized.data(), args.penalized, penalized.size() * sizeof(int32_t));
  int32_t token = -1;
  SampleArgs own = args;
  own.logits = logits.data();
  own.penalized = penalized.data();
  own.token = &token;
  sample_ref(own);
  write(args.token, &token, sizeof token);
}

}  // namespace argon::ops
