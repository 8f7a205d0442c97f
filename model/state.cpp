#include "model/state.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "ops/gdn/gdn.h"

namespace argon {
namespace {

// The head of a saved state. Sizes are stored so that a damaged or foreign file is refused before anything is
// copied.
struct SavedHeader {
  char magic[8] = {'A', 'R', 'G', 'N', 'S', 'T', 'A', '1'};
  uint64_t fingerprint = 0;
  uint64_t kv_type = 0;
  uint64_t tokens = 0;
  uint64_t cache_bytes = 0;
  uint64_t recurrent_bytes = 0;
  uint64_t checksum = 0;  // FNV-1a over all that follows
};

uint64_t fnv1a(std::span<const uint8_t> bytes) {
  uint64_t h = 0xcbf29ce484222325u;
  for (uint8_t b : bytes) h = (h ^ b) * 0x100000001b3u;
  return h;
}

}  // namespace

uint64_t SequenceState::bytes(const ModelConfig& c, int64_t capacity, ops::KvType kv_type) {
  // state_bytes counts what a sequence must keep: of the n-gram module's, its tokens lie here, not there.
  const StateBytes s = state_bytes(c, static_cast<uint64_t>(capacity), kv_type);
  const int64_t block_keys = c.attention_layers() * (capacity / c.r) * c.di * 4;
  const uint64_t tokens = c.has_ple() ? static_cast<uint64_t>(c.ngram - 1) * sizeof(int32_t) : 0;
  return s.total() - tokens + static_cast<uint64_t>(block_keys);
}

Result<std::unique_ptr<SequenceState>> SequenceState::create(const ModelConfig& c, ops::Backend& backend,
                                                             int64_t capacity, ops::KvType kv_type) {
  std::unique_ptr<SequenceState> s(new SequenceState);
  s->config_ = c;
  s->backend_ = &backend;
  s->capacity_ = capacity;
  s->kv_type_ = kv_type;
  const auto buffer = [&](int64_t values, int64_t bytes_each) {
    return ops::Buffer::create(backend, static_cast<size_t>(values * bytes_each));
  };
  const int64_t kv = ops::kv_bytes(kv_type);
  for (int64_t l = 0; l < c.L; ++l) {
    if (c.is_attention(l)) {
      AttentionLayer a;
      ARGON_ASSIGN_OR_RETURN(a.k, buffer(capacity * c.nkv * c.dh, kv));
      ARGON_ASSIGN_OR_RETURN(a.v, buffer(capacity * c.nkv * c.dh, kv));
      ARGON_ASSIGN_OR_RETURN(a.raw_keys, buffer(capacity * c.di, kv));
      ARGON_ASSIGN_OR_RETURN(a.block_keys, buffer(capacity / c.r * c.di, 4));
      s->attention_.push_back(std::move(a));
    } else {
      GdnLayer g;
      ARGON_ASSIGN_OR_RETURN(g.S, buffer(c.hv * c.D * c.D, 4));
      ARGON_ASSIGN_OR_RETURN(g.history, buffer((ops::kGdnConvTaps - 1) * c.channels(), 4));
      s->gdn_.push_back(std::move(g));
    }
  }
  if (c.has_ple()) {
    ARGON_ASSIGN_OR_RETURN(s->ngram_window_, buffer((c.ple_taps - 1) * c.ngram * c.CH(), 4));
  }
  return s;
}

std::vector<SequenceState::Piece> SequenceState::recurrent_pieces() const {
  std::vector<Piece> pieces;
  for (const GdnLayer& g : gdn_) {
    pieces.push_back({g.S.as(), g.S.bytes()});
    pieces.push_back({g.history.as(), g.history.bytes()});
  }
  if (config_.has_ple()) pieces.push_back({ngram_window_.as(), ngram_window_.bytes()});
  return pieces;
}

std::vector<SequenceState::Piece> SequenceState::cache_pieces(int64_t position) const {
  const size_t kv = static_cast<size_t>(ops::kv_bytes(kv_type_));
  const auto rows = [](int64_t n, int64_t width) { return static_cast<size_t>(n * width); };
  std::vector<Piece> pieces;
  for (const AttentionLayer& a : attention_) {
    pieces.push_back({a.k.as(), rows(position, config_.nkv * config_.dh) * kv});
    pieces.push_back({a.v.as(), rows(position, config_.nkv * config_.dh) * kv});
    pieces.push_back({a.raw_keys.as(), rows(position, config_.di) * kv});
    pieces.push_back({a.block_keys.as(), rows(position / config_.r, config_.di) * 4});
  }
  return pieces;
}

std::vector<uint8_t> SequenceState::gather(const std::vector<Piece>& pieces) const {
  size_t bytes = 0;
  for (const Piece& p : pieces) bytes += p.bytes;
  std::vector<uint8_t> out(bytes);
  uint8_t* to = out.data();
  for (const Piece& p : pieces) {
    backend_->read(to, p.data, p.bytes);
    to += p.bytes;
  }
  return out;
}

Result<std::unique_ptr<SequenceState>> SequenceState::copy() const {
  ARGON_ASSIGN_OR_RETURN(auto other, create(config_, *backend_, capacity_, kv_type_));
  const auto copy_pieces = [&](const std::vector<Piece>& from, const std::vector<Piece>& to) {
    for (size_t i = 0; i < from.size(); ++i) backend_->copy(to[i].data, from[i].data, from[i].bytes);
  };
  copy_pieces(recurrent_pieces(), other->recurrent_pieces());
  copy_pieces(cache_pieces(position()), other->cache_pieces(position()));
  other->tokens_ = tokens_;
  other->checkpoints_ = checkpoints_;
  return other;
}

// Even at position 0: a pass that failed has been at work on the recurrent part.
void SequenceState::reset() {
  checkpoints_.clear();
  restore();
}

void SequenceState::checkpoint() {
  if (position() == 0 || (!checkpoints_.empty() && checkpoints_.back().position == position())) return;
  if (checkpoints_.size() == kCheckpoints) checkpoints_.erase(checkpoints_.begin() + 1);
  checkpoints_.push_back({position(), gather(recurrent_pieces())});
}

int64_t SequenceState::rewind(int64_t to) {
  if (to >= position()) return position();
  while (!checkpoints_.empty() && checkpoints_.back().position > to) checkpoints_.pop_back();
  restore();
  return position();
}

// The last checkpoint's recurrent part and position, or those of the beginning.
void SequenceState::restore() {
  const std::vector<Piece> pieces = recurrent_pieces();
  const uint8_t* from = checkpoints_.empty() ? nullptr : checkpoints_.back().recurrent.data();
  for (const Piece& p : pieces) {
    if (from == nullptr) {
      backend_->zero(p.data, p.bytes);
    } else {
      backend_->write(p.data, from, p.bytes);
      from += p.bytes;
    }
  }
  tokens_.resize(checkpoints_.empty() ? 0 : static_cast<size_t>(checkpoints_.back().position));
}

std::vector<uint8_t> SequenceState::save(uint64_t fingerprint) const {
  const std::vector<uint8_t> cache = gather(cache_pieces(position())), recurrent = gather(recurrent_pieces());
  const size_t token_bytes = tokens_.size() * sizeof(int32_t);
  std::vector<uint8_t> out(sizeof(SavedHeader) + token_bytes);
  std::memcpy(out.data() + sizeof(SavedHeader), tokens_.data(), token_bytes);
  out.insert(out.end(), cache.begin(), cache.end());
  out.insert(out.end(), recurrent.begin(), recurrent.end());
  SavedHeader h;
  h.fingerprint = fingerprint;
  h.kv_type = static_cast<uint64_t>(kv_type_);
  h.tokens = tokens_.size();
  h.cache_bytes = cache.size();
  h.recurrent_bytes = recurrent.size();
  h.checksum = fnv1a(std::span(out).subspan(sizeof h));
  std::memcpy(out.data(), &h, sizeof h);
  return out;
}

Status SequenceState::restore(std::span<const uint8_t> bytes, uint64_t fingerprint) {
  SavedHeader h;
  const SavedHeader wanted;
  if (bytes.size() < sizeof h || std::memcmp(bytes.data(), wanted.magic, sizeof wanted.magic) != 0) {
    return bad_input("not a saved state: wanted a file that begins with ARGNSTA1");
  }
  std::memcpy(&h, bytes.data(), sizeof h);
  if (h.fingerprint != fingerprint)
    return bad_input("the saved state belongs to another model file: load it with that one");
  if (h.kv_type != static_cast<uint64_t>(kv_type_)) {
    return bad_input("the saved state has another cache type: restore it with --kv " +
                     std::string(h.kv_type == 0 ? "f32" : "f16"));
  }
  if (h.tokens > static_cast<uint64_t>(capacity_)) {
    return bad_input("the saved state holds " + std::to_string(h.tokens) + " tokens, the context " +
                     std::to_string(capacity_) + ": raise it with -c");
  }
  const int64_t tokens = static_cast<int64_t>(h.tokens);
  const std::vector<Piece> cache = cache_pieces(tokens), recurrent = recurrent_pieces();
  size_t cache_bytes = 0, recurrent_bytes = 0;
  for (const Piece& p : cache) cache_bytes += p.bytes;
  for (const Piece& p : recurrent) recurrent_bytes += p.bytes;
  const size_t token_bytes = h.tokens * sizeof(int32_t);
  if (h.cache_bytes != cache_bytes || h.recurrent_bytes != recurrent_bytes ||
      bytes.size() != sizeof h + token_bytes + cache_bytes + recurrent_bytes) {
    return bad_input("the saved state is truncated or damaged: found " + std::to_string(bytes.size()) +
                     " bytes, wanted " +
                     std::to_string(sizeof h + token_bytes + cache_bytes + recurrent_bytes));
  }
  if (fnv1a(bytes.subspan(sizeof h)) != h.checksum)
    return bad_input("the saved state is damaged: its checksum differs");
  std::vector<int32_t> restored(h.tokens);
  const uint8_t* from = bytes.data() + sizeof h;
  std::memcpy(restored.data(), from, token_bytes);
  for (int32_t t : restored) {
    if (t < 0 || t >= config_.V)
      return bad_input("the saved state is damaged: it holds token " + std::to_string(t));
  }
  from += token_bytes;
  for (const auto* pieces : {&cache, &recurrent}) {
    for (const Piece& p : *pieces) {
      backend_->write(p.data, from, p.bytes);
      from += p.bytes;
    }
  }
  tokens_ = std::move(restored);
  checkpoints_.clear();
  return {};
}

}  // namespace argon
