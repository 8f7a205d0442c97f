#include "model/forward.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <numeric>
#include <string>

#include "base/fp_env.h"
#include "model/memory.h"

namespace argon {
namespace {

using ops::WeightMatrix;

// Rows of logits computed at a time: a vocabulary is wide.
constexpr int64_t kLogitRows = 16;

// Room for the quantised form of rows of K values; none when K is no multiple of 32, for then every weight
// that reads them is of a float type.
ops::QuantizedRows take_quantized(Scratch& s, int64_t rows, int64_t K) {
  ops::QuantizedRows q;
  if (K % 32 != 0) return q;
  q.codes = s.take<int8_t>(rows * K);
  q.d = s.take<float>(rows * (K / 32));
  q.sums = s.take<int16_t>(rows * (K / 16));
  return q;
}

// Arrays that live through a whole pass, and those of one part of a layer; the parts share memory.
struct PassArrays {
  PassArrays(Scratch& s, const ModelConfig& c, int64_t T)
      : x(s.take<float>(T * c.CH())),
        n(s.take<float>(T * c.CH())),
        h(s.take<float>(T * c.H)),
        b(s.take<float>(T * c.H)),
        inj(s.take<float>(T * c.C)),
        ids(s.take<int32_t>(T)),
        nq(take_quantized(s, T, c.CH())),
        hq(take_quantized(s, T, c.H)) {}
  float *x, *n, *h, *b, *inj;
  int32_t* ids;
  ops::QuantizedRows nq, hq;
};

struct MixArrays {
  MixArrays(Scratch& s, const ModelConfig& c, int64_t T)
      : lo(s.take<float>(T * c.R)), up(s.take<float>(T * c.CH())), loq(take_quantized(s, T, c.R)) {}
  float *lo, *up;
  ops::QuantizedRows loq;
};

struct GdnArrays {
  GdnArrays(Scratch& s, const ModelConfig& c, int64_t T)
      : qkv(s.take<float>(T * c.channels())),
        z(s.take<float>(T * c.hv * c.D)),
        alpha(s.take<float>(T * c.hv)),
        beta(s.take<float>(T * c.hv)),
        qn(s.take<float>(T * c.hk * c.D)),
        kn(s.take<float>(T * c.hk * c.D)),
        vc(s.take<float>(T * c.hv * c.D)),
        gb(s.take<float>(T * c.hv * 2)),
        kq(s.take<float>(T * c.hk)),
        o(s.take<float>(T * c.hv * c.D)),
        y(s.take<float>(T * c.hv * c.D)),
        yq(take_quantized(s, T, c.hv * c.D)) {}
  float *qkv, *z, *alpha, *beta, *qn, *kn, *vc, *gb, *kq, *o, *y;
  ops::QuantizedRows yq;
};

struct AttentionArrays {
  AttentionArrays(Scratch& s, const ModelConfig& c, int64_t T)
      : q(s.take<float>(T * c.nq * 2 * c.dh)),
        k(s.take<float>(T * c.nkv * c.dh)),
        v(s.take<float>(T * c.nkv * c.dh)),
        iq(s.take<float>(T * c.ni * c.di)),
        ik(s.take<float>(T * c.di)),
        out(s.take<float>(T * c.nq * c.dh)),
        outq(take_quantized(s, T, c.nq * c.dh)),
        kept(s.take<int32_t>(T * (c.B / c.r))),
        count(s.take<int32_t>(T)) {}
  float *q, *k, *v, *iq, *ik, *out;
  ops::QuantizedRows outq;
  int32_t *kept, *count;
};

struct MoeArrays {
  MoeArrays(Scratch& s, const ModelConfig& c, int64_t T)
      : logits(s.take<float>(T * c.E)),
        shared_logit(s.take<float>(T)),
        w(s.take<float>(T * c.K)),
        sg(s.take<float>(T)),
        ids(s.take<int32_t>(T * c.K)),
        slot(s.take<int32_t>(T * c.K)),
        slot_row(s.take<int32_t>(T * c.K)),
        expert_begin(s.take<int32_t>(c.E + 1)),
        g(s.take<float>(T * c.K * c.F)),
        u(s.take<float>(T * c.K * c.F)),
        y(s.take<float>(T * c.K * c.H)),
        shared_g(s.take<float>(T * c.Fs)),
        shared_u(s.take<float>(T * c.Fs)),
        shared(s.take<float>(T * c.H)),
        gq(take_quantized(s, T * c.K, c.F)),
        shared_gq(take_quantized(s, T, c.Fs)) {}
  float *logits, *shared_logit, *w, *sg;
  int32_t *ids, *slot, *slot_row, *expert_begin;
  float *g, *u, *y, *shared_g, *shared_u, *shared;
  ops::QuantizedRows gq, shared_gq;
};

struct PleArrays {
  PleArrays(Scratch& s, const ModelConfig& c, int64_t T)
      : tokens(s.take<int32_t>(T + c.ngram - 1)),
        rows(s.take<int32_t>(T * c.ple_heads())),
        e(s.take<float>(T * c.ple_width())),
        key(s.take<float>(T * c.CH())),
        value(s.take<float>(T * c.H)),
        v(s.take<float>(T * c.CH())),
        nv(s.take<float>(T * c.CH())),
        eq(take_quantized(s, T, c.ple_width())) {}
  int32_t *tokens, *rows;
  float *e, *key, *value, *v, *nv;
  ops::QuantizedRows eq;
};

struct HeadArrays {
  HeadArrays(Scratch& s, const ModelConfig& c, int64_t rows)
      : logits(s.take<float>(rows * c.V)), penalized(s.take<int32_t>(c.V)), token(s.take<int32_t>(1)) {}
  float* logits;
  int32_t *penalized, *token;
};

// The takes of each part of pass(), in counting mode. An MoE's arrays stay until the next mixer has read
// them.
size_t measure_scratch(const ModelConfig& c, int64_t T) {
  Scratch s;
  PassArrays{s, c, T};
  const size_t mark = s.mark();
  const auto part = [&](auto&& take) {
    take();
    s.release(mark);
  };
  part([&] { MixArrays(s, c, T); });
  part([&] { GdnArrays(s, c, T); });
  part([&] { AttentionArrays(s, c, T); });
  part([&] { MoeArrays(s, c, T); });
  if (c.has_ple()) part([&] { PleArrays(s, c, T); });
  part([&] { HeadArrays(s, c, std::min(kLogitRows, T)); });
  return s.peak();
}

ops::QuantizedRows rows_from(const ops::QuantizedRows& q, int64_t first, int64_t K) {
  if (q.codes == nullptr) return q;
  return {q.codes + first * K, q.d + first * (K / 32), q.sums + first * (K / 16)};
}

// An exponent of all ones carries into the top bit; chunks without a branch, for this runs over every logit.
bool all_finite(const float* x, int64_t n) {
  constexpr int64_t kChunk = 256;
  const auto carry = [](float v) { return (std::bit_cast<uint32_t>(v) & 0x7fffffffu) + 0x00800000u; };
  uint32_t top = 0;
  int64_t i = 0;
  for (; i + kChunk <= n; i += kChunk) {
    for (int64_t k = 0; k < kChunk; ++k) top |= carry(x[i + k]);
  }
  for (; i < n; ++i) top |= carry(x[i]);
  return top >> 31 == 0;
}

}  // namespace

uint64_t Forward::scratch_bytes(const ModelConfig& config, int64_t max_pass) {
  return measure_scratch(config, max_pass);
}

uint64_t Forward::other_bytes(const ModelConfig& c, const WeightMatrix& table, int64_t max_pass,
                              int64_t max_context) {
  uint64_t bytes = static_cast<uint64_t>(max_context * c.rot) * sizeof(float);
  if (c.has_ple()) {
    bytes += static_cast<uint64_t>(c.ngram + 2 * c.ple_heads()) * sizeof(uint64_t);
    bytes += static_cast<uint64_t>(max_pass * c.ple_heads()) * (table.row_bytes + sizeof(int32_t));
  }
  return bytes;
}

Result<std::unique_ptr<Forward>> Forward::create(const ModelConfig& config, const Weights& weights,
                                                 ops::Backend& backend, int64_t max_pass, int64_t max_context,
                                                 uint64_t state_bytes) {
  std::unique_ptr<Forward> f(new Forward(config, backend, max_pass));
  ARGON_RETURN_IF_ERROR(
      backend.prepare(model_memory(config, weights, max_pass, max_context, state_bytes).needs()));
  ARGON_ASSIGN_OR_RETURN(f->w_, PlacedWeights::place(weights, config, backend));
  ARGON_ASSIGN_OR_RETURN(f->block_, ops::Buffer::create(backend, measure_scratch(config, max_pass)));
  f->scratch_ = Scratch(f->block_.as());
  ARGON_ASSIGN_OR_RETURN(
      f->rope_, ops::Buffer::create(backend, static_cast<size_t>(max_context * config.rot) * sizeof(float)));
  f->rope_capacity_ = max_context;
  std::vector<uint64_t> constants = config.multipliers;
  constants.insert(constants.end(), config.head_sizes.begin(), config.head_sizes.end());
  constants.insert(constants.end(), config.head_offsets.begin(), config.head_offsets.end());
  ARGON_ASSIGN_OR_RETURN(f->constants_, ops::Buffer::create(backend, constants.size() * sizeof(uint64_t)));
  if (!constants.empty())
    backend.write(f->constants_.as(), constants.data(), constants.size() * sizeof(uint64_t));
  if (config.has_ple() && f->w_.table.data == nullptr)
    ARGON_RETURN_IF_ERROR(f->prepare_ngrams(weights.table));
  // What could not be written now would be missing from every pass.
  ARGON_RETURN_IF_ERROR(backend.finish());
  return f;
}

Status Forward::prepare_ngrams(const WeightMatrix& table) {
  std::vector<int32_t> ids(static_cast<size_t>(max_pass_ * c_.ple_heads()));
  std::iota(ids.begin(), ids.end(), 0);
  ARGON_ASSIGN_OR_RETURN(handed_rows_, ops::Buffer::create(backend_, ids.size() * table.row_bytes));
  ARGON_ASSIGN_OR_RETURN(handed_ids_, ops::Buffer::create(backend_, ids.size() * sizeof(int32_t)));
  backend_.write(handed_ids_.as(), ids.data(), ids.size() * sizeof(int32_t));
  ngram_rows_ = std::make_unique<NgramRows>(c_, table);
  return {};
}

Status Forward::ensure_rope(int64_t positions) {
  if (positions > rope_capacity_) {
    return bad_input("the sequence is longer (" + std::to_string(positions) + " tokens) than the context (" +
                     std::to_string(rope_capacity_) + "): raise it with -c");
  }
  if (positions <= rope_rows_) return {};
  const int64_t count = positions - rope_rows_;
  std::vector<float> rows(static_cast<size_t>(count * c_.rot));
  ops::rope_fill(rows.data(), rope_rows_, count, c_.rot, c_.rope_base);
  backend_.write(rope_.as<float>() + rope_rows_ * c_.rot, rows.data(), rows.size() * sizeof(float));
  rope_rows_ = positions;
  return {};
}

Status Forward::read(SequenceState& state, std::span<const int32_t> tokens, const ReadOptions& options) {
  const ScopedFlushSubnormals flush;
  const int64_t total = static_cast<int64_t>(tokens.size());
  if (state.position() + total > state.capacity()) {
    return bad_input("the prompt needs " + std::to_string(state.position() + total) +
                     " tokens, the context holds " + std::to_string(state.capacity()) + ": raise it with -c");
  }
  for (int32_t id : tokens) {
    if (id < 0 || id >= c_.V) {
      return bad_input("token id " + std::to_string(id) + " is not in the vocabulary: wanted 0 to " +
                       std::to_string(c_.V - 1));
    }
  }
  ARGON_RETURN_IF_ERROR(ensure_rope(state.position() + total));
  if (ngram_rows_) ngram_rows_->discard();
  for (int64_t done = 0; done < total;) {
    const int64_t T = std::min(max_pass_, total - done);
    const bool last = done + T == total;
    int64_t wanted = 0;
    float* logits = options.out;
    if (options.logits == LogitsFor::kAll) {
      wanted = T;
      logits += done * c_.V;
    } else if (options.logits == LogitsFor::kLast && last) {
      wanted = 1;
    }
    Pass p{};
    p.state = &state;
    p.tokens = tokens.subspan(static_cast<size_t>(done), static_cast<size_t>(T));
    p.next = tokens.subspan(static_cast<size_t>(done + T),
                            static_cast<size_t>(std::min(max_pass_, total - done - T)));
    p.T = T;
    p.position0 = state.position();
    pass(p, options, wanted, logits);
    if (Status s = backend_.finish(); !s.ok()) {
      state.reset();
      rope_rows_ = 0;  // this read's rows may not have been written
      return s;
    }
    state.advance(p.tokens);
    done += T;
    if (wanted > 0 && options.next != nullptr && options.next->token < 0)
      return not_finite(state, p.position0 + T - 1);
    for (int64_t i = 0; i < wanted && logits != nullptr; ++i) {
      if (!all_finite(logits + i * c_.V, c_.V)) return not_finite(state, p.position0 + T - wanted + i);
    }
    if (options.progress && !options.progress(done, total))
      return {Code::kCancelled, "stopped while reading the prompt"};
  }
  return {};
}

Status Forward::rewind(SequenceState& state, int64_t position) {
  const std::vector<int32_t> all(state.tokens().begin(), state.tokens().end());
  if (position < 0 || position > state.position()) {
    return bad_input("cannot go back to position " + std::to_string(position) + " of a sequence of " +
                     std::to_string(state.position()));
  }
  const int64_t from = state.rewind(position);
  ReadOptions options;
  options.logits = LogitsFor::kNone;
  return read(state, std::span(all).subspan(static_cast<size_t>(from), static_cast<size_t>(position - from)),
              options);
}

// Reads the sequence once more, looking at every layer, to say where the first non-finite value came from.
Status Forward::not_finite(const SequenceState& state, int64_t position) {
  std::string where = "an unknown place";
  const std::vector<int32_t> tokens(state.tokens().begin(), state.tokens().begin() + position + 1);
  auto again = SequenceState::create(c_, backend_, position + 1, state.kv_type());
  int64_t first = c_.L + 1;
  ReadOptions options;
  options.logits = LogitsFor::kNone;
  options.observe = [&](int64_t layer, const float* x, int64_t T) {
    if (layer < first && !all_finite(x, T * (layer < c_.L ? c_.CH() : c_.H))) first = layer;
  };
  if (again.ok() && read(**again, tokens, options).ok()) {
    where = first > c_.L ? "the head" : first == 0 ? "the embedding" : "layer " + std::to_string(first - 1);
  }
  return {Code::kNumeric, "the logits at position " + std::to_string(position) +
                              " are not finite; the first values that are not come from " + where +
                              ": the model file is damaged, or was quantised beyond use"};
}

void Forward::observe(const ReadOptions& options, int64_t layer, const float* x, int64_t T, int64_t width) {
  std::vector<float> host(static_cast<size_t>(T * width));
  backend_.read(host.data(), x, host.size() * sizeof(float));
  options.observe(layer, host.data(), T);
}

// The whole pass: the way of tokens through the model.
void Forward::pass(Pass& p, const ReadOptions& options, int64_t wanted, float* logits) {
  scratch_.release(0);
  const PassArrays a(scratch_, c_, p.T);
  p.x = a.x, p.n = a.n, p.h = a.h, p.b = a.b, p.inj = a.inj, p.nq = a.nq, p.hq = a.hq;
  part_ = scratch_.mark();
  backend_.write(a.ids, p.tokens.data(), p.tokens.size_bytes());
  backend_.run(ops::EmbedArgs{w_.embed, a.ids, p.x, p.T, c_.C});
  if (ngram_rows_ && !ngram_rows_->started()) ngram_rows_->start(ngram_window(p.state->tokens(), p.tokens));

  size_t gdn_index = 0, attention_index = 0;
  for (int64_t l = 0; l < c_.L; ++l) {
    const LayerWeights& layer = w_.layers[static_cast<size_t>(l)];
    if (l > 0 && (l == c_.ple_layer || options.observe)) add_pending(p);
    if (options.observe) observe(options, l, p.x, p.T, c_.CH());
    if (l == c_.ple_layer) ngrams(p, layer.ple);
    mix(p, layer.attn_mix);
    if (c_.is_attention(l)) {
      attention(p, layer.attention, p.state->attention()[attention_index++]);
    } else {
      gdn(p, layer.gdn, p.state->gdn()[gdn_index++]);
    }
    mix(p, layer.ffn_mix);
    experts(p, layer.moe);
  }
  if (wanted == 0 && !options.observe) return;
  mix(p, w_.head_mix);
  if (options.observe) observe(options, c_.L, p.h, p.T, c_.H);
  if (wanted == 0) return;
  scratch_.release(part_);
  const HeadArrays head(scratch_, c_, std::min(kLogitRows, wanted));
  for (int64_t done = 0; done < wanted;) {
    const int64_t rows = std::min(kLogitRows, wanted - done), first = p.T - wanted + done;
    backend_.run(product(w_.output, {p.h + first * c_.H, rows_from(p.hq, first, c_.H)}, head.logits, rows));
    if (logits != nullptr)
      backend_.read(logits + done * c_.V, head.logits, static_cast<size_t>(rows * c_.V) * sizeof(float));
    done += rows;
  }
  if (options.next == nullptr) return;
  NextToken& next = *options.next;
  std::vector<int32_t> penalized;
  if (ops::penalizes(next.options)) {
    std::vector<int32_t> history(p.state->tokens().begin(), p.state->tokens().end());
    history.insert(history.end(), p.tokens.begin(), p.tokens.end());
    penalized = ops::penalized_ids(history, next.options, c_.V);
    backend_.write(head.penalized, penalized.data(), penalized.size() * sizeof(int32_t));
  }
  backend_.run_sample(
      {head.logits, head.penalized, head.token, c_.V, static_cast<int64_t>(penalized.size()),
       ops::philox64(next.options.seed, static_cast<uint64_t>(p.position0 + p.T), next.choice),
       next.options});
  backend_.read(&next.token, head.token, sizeof next.token);
}

ops::MatmulArgs Forward::product(const WeightMatrix& w, const Input& in, float* y, int64_t T) {
  return {w, in.x, in.q, y, T, w.rows};
}

// Runs an operation whose output feeds products so that it quantises it as well; where its units do not hold
// whole blocks of 32, as an operation of its own.
template <class Args, class Run>
void Forward::quantizing(Args a, const ops::QuantizedRows& q, int64_t rows, Run run) {
  const ops::QuantizeArgs units = quantized(a);
  const bool fold = q.codes != nullptr && units.K % 32 == 0;
  if (fold) a.out_q = q;
  run(a);
  if (q.codes != nullptr && !fold) {
    backend_.run(ops::QuantizeArgs{units.x, q, rows, units.T * units.K / rows});
  }
}

// Adds the last block's output to the streams, apart from a norm.
void Forward::add_pending(Pass& p) {
  if (p.pending == Pending::kExperts) backend_.run(p.combine);
  if (p.pending != Pending::kNone) backend_.run(ops::GrApplyArgs{p.x, p.b, p.inj, p.T, c_.C, c_.H});
  p.pending = Pending::kNone;
}

// Adds the pending block output to the streams and mixes them into p.h; p.inj for the block to come.
void Forward::mix(Pass& p, const MixerWeights& m) {
  ops::GrNormArgs norm{p.x, m.norm, p.b, p.inj, p.n, p.T, c_.C, c_.H, c_.eps};
  if (p.pending == Pending::kNone) norm.b = nullptr;
  quantizing(norm, p.nq, p.T, [&](const ops::GrNormArgs& a) {
    p.pending == Pending::kExperts ? backend_.run_combined_norm(p.combine, a) : backend_.run(a);
  });
  p.pending = Pending::kNone;
  scratch_.release(part_);
  const MixArrays a(scratch_, c_, p.T);
  const Input n{p.n, p.nq};
  const bool has_inject = m.inject.data != nullptr;
  const ops::MatmulArgs down[] = {product(m.down, n, a.lo, p.T), product(m.inject, n, p.inj, p.T)};
  backend_.run_products(std::span(down).first(has_inject ? 2 : 1));
  ops::GrGateArgs gate{a.lo, has_inject ? p.inj : nullptr, p.T, c_.C, c_.R};
  gate.out_q = a.loq;
  ops::GrMixArgs mixed{a.up, p.n, p.h, p.T, c_.C, c_.H};
  mixed.out_q = p.hq;
  backend_.run_mixed(gate, product(m.up, {a.lo, a.loq}, a.up, p.T), mixed);
}

void Forward::gdn(Pass& p, const GdnWeights& w, SequenceState::GdnLayer& s) {
  scratch_.release(part_);
  const GdnArrays a(scratch_, c_, p.T);
  const Input h{p.h, p.hq};
  backend_.run_products(std::array{product(w.qkv, h, a.qkv, p.T), product(w.z, h, a.z, p.T),
                                   product(w.alpha, h, a.alpha, p.T), product(w.beta, h, a.beta, p.T)});
  const ops::GdnShape shape{p.T, c_.hk, c_.hv, c_.D};
  const ops::GdnPreArgs pre{shape, a.qkv, a.alpha, a.beta, w.conv, w.a,   w.dt, s.history.as<float>(),
                            a.qn,  a.kn,  a.vc,    a.gb,   a.kq,   c_.eps};
  ops::GdnPostArgs post{shape, a.o, a.z, w.norm, a.y, c_.eps};
  post.out_q = a.yq;
  backend_.run_delta(pre, {shape, a.qn, a.kn, a.vc, a.gb, a.kq, s.S.as<float>(), a.o}, post);
  backend_.run(product(w.out, {a.y, a.yq}, p.b, p.T));
  p.pending = Pending::kBlock;
}

void Forward::attention(Pass& p, const AttentionWeights& w, SequenceState::AttentionLayer& s) {
  scratch_.release(part_);
  const AttentionArrays a(scratch_, c_, p.T);
  const Input h{p.h, p.hq};
  const int64_t kv_row = c_.nkv * c_.dh, q_row = c_.nq * 2 * c_.dh, iq_row = c_.ni * c_.di;
  const float* rope = rope_.as<float>();
  const ops::KvType type = p.state->kv_type();
  backend_.run_products(std::array{product(w.q, h, a.q, p.T), product(w.k, h, a.k, p.T),
                                   product(w.v, h, a.v, p.T), product(w.index_q, h, a.iq, p.T),
                                   product(w.index_k, h, a.ik, p.T)});
  backend_.run(ops::RmsNormArgs{a.q, q_row, 2 * c_.dh, w.q_norm, a.q, q_row, 2 * c_.dh, p.T * c_.nq, c_.nq,
                                c_.dh, c_.eps});
  backend_.run(ops::RmsNormArgs{a.k, kv_row, c_.dh, w.k_norm, a.k, kv_row, c_.dh, p.T * c_.nkv, c_.nkv, c_.dh,
                                c_.eps});
  backend_.run(ops::RopeArgs{a.q, q_row, 2 * c_.dh, p.T, c_.nq, rope, c_.rot, p.position0, 1});
  backend_.run(ops::RopeArgs{a.k, kv_row, c_.dh, p.T, c_.nkv, rope, c_.rot, p.position0, 1});
  backend_.run(ops::KvStoreArgs{a.k, kv_row, s.k.as(), type, p.T, kv_row, p.position0});
  backend_.run(ops::KvStoreArgs{a.v, kv_row, s.v.as(), type, p.T, kv_row, p.position0});

  backend_.run(ops::RmsNormArgs{a.iq, iq_row, c_.di, w.index_q_norm, a.iq, iq_row, c_.di, p.T * c_.ni, c_.ni,
                                c_.di, c_.eps});
  backend_.run(ops::RopeArgs{a.iq, iq_row, c_.di, p.T, c_.ni, rope, c_.rot, p.position0, 1});
  backend_.run(ops::KvStoreArgs{a.ik, c_.di, s.raw_keys.as(), type, p.T, c_.di, p.position0});
  const int64_t first_block = p.position0 / c_.r, blocks = (p.position0 + p.T) / c_.r - first_block;
  backend_.run(ops::QsaBlockKeysArgs{s.raw_keys.as(), type, w.index_k_norm, rope, s.block_keys.as<float>(),
                                     first_block, blocks, c_.r, c_.di, c_.rot, c_.eps});
  const int64_t budget = c_.B / c_.r;
  backend_.run(ops::QsaSelectArgs{a.iq, s.block_keys.as<float>(), a.kept, a.count, p.T, p.position0, c_.ni,
                                  c_.di, c_.r, budget});
  quantizing(ops::QsaAttentionArgs{a.q, s.k.as(), s.v.as(), type, a.kept, a.count, a.out, p.T, p.position0,
                                   c_.nq, c_.nkv, c_.dh, c_.r, budget},
             a.outq, p.T, [&](const auto& args) { backend_.run(args); });
  backend_.run(product(w.out, {a.out, a.outq}, p.b, p.T));
  p.pending = Pending::kBlock;
}

void Forward::experts(Pass& p, const MoeWeights& w) {
  scratch_.release(part_);
  const MoeArrays a(scratch_, c_, p.T);
  const Input h{p.h, p.hq};
  const int64_t slots = p.T * c_.K;
  ops::ExpertBlock e{};
  e.router = product(w.router, h, a.logits, p.T);
  e.shared_router = product(w.shared_router, h, a.shared_logit, p.T);
  e.route = {a.logits, a.shared_logit, a.ids, a.w, a.sg, p.T, c_.E, c_.K};
  e.group = {a.ids, a.expert_begin, a.slot_row, a.slot, p.T, c_.E, c_.K};
  e.gate = {w.gate, h.x, h.q, a.expert_begin, a.slot_row, a.g, slots};
  e.up = {w.up, h.x, h.q, a.expert_begin, a.slot_row, a.u, slots};
  e.act = {a.g, a.u, a.g, slots, c_.F, a.gq};
  e.down = {w.down, a.g, a.gq, a.expert_begin, nullptr, a.y, slots};
  e.shared_gate = product(w.shared_gate, h, a.shared_g, p.T);
  e.shared_up = product(w.shared_up, h, a.shared_u, p.T);
  e.shared_act = {a.shared_g, a.shared_u, a.shared_g, p.T, c_.Fs, a.shared_gq};
  e.shared_down = product(w.shared_down, {a.shared_g, a.shared_gq}, a.shared, p.T);
  backend_.run_experts(e);
  p.combine = {a.y, a.slot, a.w, a.shared, a.sg, p.b, p.T, c_.K, c_.H};
  p.pending = Pending::kExperts;
}

// The n-1 tokens before the pass, then its own; before the start of the sequence, the end-of-text id.
std::vector<int32_t> Forward::ngram_window(std::span<const int32_t> before,
                                           std::span<const int32_t> tokens) const {
  std::vector<int32_t> window(static_cast<size_t>(c_.ngram - 1), c_.ple_eos);
  const size_t known = std::min(before.size(), window.size());
  std::copy(before.end() - static_cast<std::ptrdiff_t>(known), before.end(),
            window.end() - static_cast<std::ptrdiff_t>(known));
  window.insert(window.end(), tokens.begin(), tokens.end());
  return window;
}

// The table's rows of the pass's tokens, side by side in e.
void Forward::look_up_ngrams(Pass& p, int32_t* tokens, int32_t* rows, float* e) {
  const int64_t n = p.T * c_.ple_heads();
  const std::vector<int32_t> window = ngram_window(p.state->tokens(), p.tokens);
  if (ngram_rows_) {
    const auto bytes = ngram_rows_->take();
    backend_.write(handed_rows_.as(), bytes.data(), bytes.size());
    WeightMatrix handed = w_.table;
    handed.data = handed_rows_.as();
    handed.rows = n;
    backend_.run(ops::EmbedArgs{handed, handed_ids_.as<int32_t>(), e, n, 1});
    if (!p.next.empty()) ngram_rows_->start(ngram_window(window, p.next));
    return;
  }
  backend_.write(tokens, window.data(), window.size() * sizeof(int32_t));
  const uint64_t* multipliers = constants_.as<uint64_t>();
  const uint64_t* sizes = multipliers + c_.ngram;
  backend_.run(ops::NgramHashArgs{tokens, multipliers, sizes, sizes + c_.ple_heads(), rows, p.T, c_.ngram,
                                  c_.G, c_.ple_eos});
  backend_.run(ops::EmbedArgs{w_.table, rows, e, n, 1});
}

void Forward::ngrams(Pass& p, const PleWeights& w) {
  scratch_.release(part_);
  const PleArrays a(scratch_, c_, p.T);
  look_up_ngrams(p, a.tokens, a.rows, a.e);
  if (a.eq.codes != nullptr) backend_.run(ops::QuantizeArgs{a.e, a.eq, p.T, c_.ple_width()});
  const Input e{a.e, a.eq};
  backend_.run_products(std::array{product(w.key, e, a.key, p.T), product(w.value, e, a.value, p.T)});
  backend_.run(ops::NgramGateArgs{a.key, a.value, p.x, w.norm_key, w.norm_query, w.norm_conv, a.v, a.nv, p.T,
                                  c_.C, c_.H, c_.eps});
  backend_.run(ops::NgramConvArgs{a.v, a.nv, w.conv, p.state->ngram_window(), p.x, p.T, c_.CH(), c_.ple_taps,
                                  c_.ngram});
}

}  // namespace argon
