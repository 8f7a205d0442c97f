#include "tiers/tiered_backend.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <future>
#include <string>

#include "formats/format.h"

namespace argon::tiers {
namespace {

using ops::ExpertBlock;
using ops::ExpertMatrix;

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point t) { return std::chrono::duration<double>(Clock::now() - t).count(); }

const void* expert_data(const ExpertMatrix& m, int64_t e) {
  return static_cast<const std::byte*>(m.first.data) + static_cast<size_t>(e) * m.expert_bytes;
}

size_t bytes_of(const ExpertMatrix& m) { return static_cast<size_t>(m.experts) * m.expert_bytes; }

// Carves arrays from a block; without one it counts.
class Carver {
 public:
  explicit Carver(void* block) : block_(static_cast<std::byte*>(block)) {}
  template <class T>
  void take(T*& array, int64_t n) {
    array = block_ == nullptr ? nullptr : reinterpret_cast<T*>(block_ + used_);
    used_ += (static_cast<size_t>(n) * sizeof(T) + 63) / 64 * 64;
  }
  void take(ops::QuantizedRows& q, int64_t rows, int64_t K) {
    q = {};
    if (K % 32 != 0) return;
    take(q.codes, rows * K);
    take(q.d, rows * (K / 32));
    take(q.sums, rows * (K / 16));
  }
  size_t used() const { return used_; }

 private:
  std::byte* block_;
  size_t used_ = 0;
};

ops::QuantizedRows rows_from(const ops::QuantizedRows& q, int64_t first, int64_t K) {
  if (q.codes == nullptr) return q;
  return {q.codes + first * K, q.d + first * (K / 32), q.sums + first * (K / 16)};
}

bool same_shape(const ExpertMatrix& a, const ExpertMatrix& b) {
  return a.first.type == b.first.type && a.first.rows == b.first.rows && a.first.cols == b.first.cols &&
         a.first.row_bytes == b.first.row_bytes;
}

// Copies by several threads, since one does not reach the memory's speed.
void copy_all(std::span<const ops::ReadPart> parts) {
  constexpr size_t kThreads = 8;
  std::vector<std::future<void>> copies;
  for (size_t i = 0; i < std::min(kThreads, parts.size()); ++i) {
    copies.push_back(std::async(std::launch::async, [parts, i] {
      for (size_t k = i; k < parts.size(); k += kThreads)
        std::memcpy(parts[k].to_host, parts[k].from, parts[k].bytes);
    }));
  }
}

}  // namespace

// Where a divided layer's experts are.
struct TieredBackend::Layer {
  ExpertMatrix file[3];            // gate, up, down in the file
  ExpertMatrix slab[3];            // the residents'; of no experts when there are none
  std::vector<int32_t> resident;   // [slot of the slab] expert
  std::vector<int32_t> slab_slot;  // [expert] or -1
  Heat heat;

  explicit Layer(int64_t experts) : slab_slot(static_cast<size_t>(experts), -1), heat(experts) {}
  int64_t residents() const { return static_cast<int64_t>(resident.size()); }
};

// The host's side of a pass, for up to `tokens` tokens of a model's widths. What the device copies from or to
// is in memory that it reaches fast; it is free again at the next layer's read_end.
class TieredBackend::HostArrays {
 public:
  HostArrays(ops::Backend& device, ops::Backend& host) : device_(device), host_(host) {}
  ~HostArrays() { release(); }
  HostArrays(const HostArrays&) = delete;
  HostArrays& operator=(const HostArrays&) = delete;

  Status ensure(int64_t T, int64_t K, int64_t E, int64_t H, int64_t F) {
    const Sizes wanted{std::max(T, sizes_.T), std::max(K, sizes_.K), std::max(E, sizes_.E),
                       std::max(H, sizes_.H), std::max(F, sizes_.F)};
    if (wanted == sizes_) return {};
    // The device may still be copying from the old block.
    device_.read_begin({});
    device_.read_end();
    release();
    Carver shared_size(nullptr), own_size(nullptr);
    carve(wanted, shared_size, own_size);
    ARGON_ASSIGN_OR_RETURN(shared_, device_.allocate_host(shared_size.used()));
    shared_bytes_ = shared_size.used();
    ARGON_ASSIGN_OR_RETURN(own_, host_.allocate(own_size.used()));
    own_bytes_ = own_size.used();
    Carver shared(shared_), own(own_);
    carve(wanted, shared, own);
    sizes_ = wanted;
    return {};
  }

  // Shared with the device.
  int32_t *ids, *slot, *slot_row, *device_begin;
  float *x, *y;
  ops::QuantizedRows xq;
  // The host's own.
  int32_t *uses, *next, *host_begin;
  float *g, *u;
  ops::QuantizedRows gq;

 private:
  struct Sizes {
    int64_t T = 0, K = 0, E = 0, H = 0, F = 0;
    bool operator==(const Sizes&) const = default;
  };
  void carve(const Sizes& s, Carver& shared, Carver& own) {
    const int64_t slots = s.T * s.K;
    for (int32_t** p : {&ids, &slot, &slot_row}) shared.take(*p, slots);
    shared.take(device_begin, s.E + 1);
    shared.take(x, s.T * s.H);
    shared.take(xq, s.T, (s.H + 31) / 32 * 32);
    shared.take(y, slots * s.H);
    for (int32_t** p : {&uses, &next}) own.take(*p, s.E);
    own.take(host_begin, s.E + 1);
    own.take(g, slots * s.F);
    own.take(u, slots * s.F);
    own.take(gq, slots, (s.F + 31) / 32 * 32);
  }
  void release() {
    if (shared_ != nullptr) device_.free_host(shared_, shared_bytes_);
    if (own_ != nullptr) host_.free(own_, own_bytes_);
    shared_ = own_ = nullptr;
    sizes_ = {};
  }

  ops::Backend &device_, &host_;
  Sizes sizes_;
  void *shared_ = nullptr, *own_ = nullptr;
  size_t shared_bytes_ = 0, own_bytes_ = 0;
};

// Room for experts that pass through the device, and two blocks of host memory from which they are uploaded.
struct TieredBackend::Passing {
  ExpertMatrix slab[3];
  void* block[2] = {};
  size_t block_bytes = 0;
};

TieredBackend::TieredBackend(std::unique_ptr<ops::Backend> device, std::unique_ptr<ops::Backend> host,
                             const Options& options)
    : device_(std::move(device)),
      host_(std::move(host)),
      options_(options),
      arrays_(std::make_unique<HostArrays>(*device_, *host_)) {}

TieredBackend::~TieredBackend() {
  static_cast<void>(device_->finish());
  arrays_.reset();
  const auto release = [&](const ExpertMatrix& m) {
    if (m.first.data != nullptr) device_->free(const_cast<void*>(m.first.data), bytes_of(m));
  };
  for (const auto& [key, layer] : layers_) std::for_each(layer->slab, layer->slab + 3, release);
  if (passing_) {
    std::for_each(passing_->slab, passing_->slab + 3, release);
    for (void* p : passing_->block) {
      if (p != nullptr) device_->free_host(p, passing_->block_bytes);
    }
  }
}

std::string TieredBackend::name() const {
  return layers_.empty() ? device_->name() : device_->name() + " + " + host_->name();
}

Status TieredBackend::prepare(const ops::MemoryNeeds& needs) {
  const auto known = std::find_if(planned_.begin(), planned_.end(),
                                  [&](const Planned& p) { return p.model == needs.model; });
  placing_ = static_cast<size_t>(known - planned_.begin());
  if (planned_.empty()) {
    ops::MemoryNeeds all = needs;
    all.own += options_.own;
    ARGON_ASSIGN_OR_RETURN(Plan plan, divide(all, options_.budget));
    planned_.push_back({needs.model, std::move(plan)});
  } else if (known == planned_.end()) {
    uint64_t taken = 0;
    for (const Planned& p : planned_) taken += p.plan.device_bytes;
    ARGON_ASSIGN_OR_RETURN(Plan plan, fit_beside(needs, options_.budget, taken));
    planned_.push_back({needs.model, std::move(plan)});
  }
  placed_ = 0;
  return device_->prepare(needs);
}

Status TieredBackend::place_experts(std::span<ExpertMatrix* const> of_a_layer) {
  const size_t index = placed_++;
  const int64_t experts = of_a_layer.empty() ? 0 : of_a_layer[0]->experts;
  if (planned_.empty() || of_a_layer.size() != 3 || index >= planned_[placing_].plan.resident.size() ||
      planned_[placing_].plan.resident[index] == experts)
    return device_->place_experts(of_a_layer);
  // Divided: the pointers stay those of the file, by which run_experts knows the layer.
  const void* key = of_a_layer[0]->first.data;
  if (layers_.contains(key)) return {};
  auto layer = std::make_unique<Layer>(experts);
  const int64_t residents = planned_[placing_].plan.resident[index];
  for (size_t i = 0; i < 3; ++i) layer->file[i] = *of_a_layer[i];
  ARGON_RETURN_IF_ERROR(prepare_passing(*layer));
  for (size_t i = 0; i < 3 && residents > 0; ++i) {
    auto slab = device_->allocate_experts(*of_a_layer[i], residents, true);
    if (!slab.ok()) {
      for (const ExpertMatrix& m : layer->slab) {
        if (m.first.data != nullptr) device_->free(const_cast<void*>(m.first.data), bytes_of(m));
      }
      return slab.status();
    }
    layer->slab[i] = *slab;
    for (int64_t e = 0; e < residents; ++e)
      device_->put_expert(layer->slab[i], e, expert_data(layer->file[i], e));
  }
  for (int64_t e = 0; e < residents; ++e) {
    layer->resident.push_back(static_cast<int32_t>(e));
    layer->slab_slot[static_cast<size_t>(e)] = static_cast<int32_t>(e);
  }
  if (Status s = device_->finish(); !s.ok()) {
    for (const ExpertMatrix& m : layer->slab) {
      if (m.first.data != nullptr) device_->free(const_cast<void*>(m.first.data), bytes_of(m));
    }
    return s;
  }
  order_.push_back(layer.get());
  layers_.emplace(key, std::move(layer));
  return {};
}

void TieredBackend::run_experts(const ExpertBlock& e) {
  const auto found = layers_.find(e.gate.w.first.data);
  if (found == layers_.end()) return device_->run_experts(e);
  run_divided(e, *found->second);
}

void TieredBackend::run_divided(const ExpertBlock& e, Layer& layer) {
  if (pass_tokens_ == 0) {
    host_->stay_ready(true);
    if (slabs_in_doubt_) put_residents();
  }
  pass_tokens_ = e.route.T;
  const int64_t T = e.route.T, K = e.route.K, E = e.route.E, slots = T * K;
  const int64_t H = e.gate.w.first.cols, F = e.gate.w.first.rows;
  HostArrays& a = *arrays_;
  if (Status s = a.ensure(T, K, E, H, F); !s.ok()) {
    if (error_.ok()) error_ = s;
    return;
  }

  // The device routes; the choice and the input go to the host while the shared expert is computed.
  if (T == 1) {
    const ops::MatmulArgs all[] = {e.router, e.shared_router, e.shared_gate, e.shared_up};
    device_->run_products(all);
  } else {
    const ops::MatmulArgs routers[] = {e.router, e.shared_router};
    device_->run_products(routers);
  }
  // Grouping comes with the routing of a step; the host's sorting is written over it.
  if (T == 1) {
    device_->run_routing(e.route, e.group);
  } else {
    device_->run(e.route);
  }
  const auto n = [](int64_t count, size_t each) { return static_cast<size_t>(count) * each; };
  std::vector<ops::ReadPart> parts = {{a.ids, e.route.ids, n(slots, sizeof(int32_t))}};
  bool floats = false, codes = false;
  for (const ExpertMatrix* w : {&e.gate.w, &e.up.w}) (is_plain_float(w->first.type) ? floats : codes) = true;
  if (floats) parts.push_back({a.x, e.gate.x, n(T * H, sizeof(float))});
  if (codes) {
    parts.push_back({a.xq.codes, e.gate.q.codes, n(T * H, 1)});
    parts.push_back({a.xq.d, e.gate.q.d, n(T * (H / 32), sizeof(float))});
    parts.push_back({a.xq.sums, e.gate.q.sums, n(T * (H / 16), sizeof(int16_t))});
  }
  device_->read_begin(parts);
  if (T == 1) {
    device_->run(e.shared_act);
  } else {
    device_->run_gated(e.shared_gate, e.shared_up, e.shared_act);
  }
  device_->run(e.shared_down);
  device_->submit();
  const auto asked = Clock::now();
  device_->read_end();
  rows_.waited += seconds_since(asked);

  // Slots: the device's by slot of the slab, then the host's by expert, each in order of token and rank.
  std::fill_n(a.uses, E, 0);
  for (int64_t i = 0; i < slots; ++i) {
    // After an error of the device, which finish() will tell, these may be anything.
    if (a.ids[i] < 0 || a.ids[i] >= E) a.ids[i] = 0;
    ++a.uses[a.ids[i]];
  }
  int32_t at = 0;
  for (int64_t s = 0; s < layer.residents(); ++s) {
    const int32_t expert = layer.resident[static_cast<size_t>(s)];
    a.device_begin[s] = a.next[expert] = at;
    at += a.uses[expert];
  }
  a.device_begin[layer.residents()] = at;
  const int32_t on_device = at;
  for (int64_t x = 0; x < E; ++x) {
    a.host_begin[x] = at - on_device;
    if (layer.slab_slot[static_cast<size_t>(x)] >= 0) continue;
    a.next[x] = at;
    at += a.uses[x];
  }
  a.host_begin[E] = at - on_device;
  for (int64_t i = 0; i < slots; ++i) {
    const int32_t s = a.next[a.ids[i]]++;
    a.slot[i] = s;
    a.slot_row[s] = static_cast<int32_t>(i / K);
  }
  layer.heat.add({a.uses, static_cast<size_t>(E)}, T);

  // The device's slots are under way before the host begins with its own.
  device_->write(e.group.slot, a.slot, n(slots, sizeof(int32_t)));
  device_->write(e.group.slot_row, a.slot_row, n(slots, sizeof(int32_t)));
  if (on_device > 0) {
    device_->write(e.group.expert_begin, a.device_begin, n(layer.residents() + 1, sizeof(int32_t)));
    ExpertBlock d = e;
    d.gate.w = layer.slab[0], d.up.w = layer.slab[1], d.down.w = layer.slab[2];
    d.gate.S = d.up.S = d.down.S = d.act.rows = on_device;
    device_->run_gated(d.gate, d.up, d.act);
    device_->run(d.down);
  }
  device_->submit();
  const int64_t on_host = slots - on_device;
  int64_t used = 0;
  for (int64_t x = 0; x < E; ++x) used += a.host_begin[x + 1] > a.host_begin[x];
  if (on_host > 0 && T > 1 && on_host >= options_.upload_rows * used && passing_ != nullptr &&
      std::equal(layer.file, layer.file + 3, passing_->slab, same_shape)) {
    upload_and_compute(e, layer, on_device);
    rows_.uploaded += on_host;
  } else if (on_host > 0) {
    rows_.host += on_host;
    const auto begun = Clock::now();
    compute_on_host(e, layer, on_device, on_host);
    const int64_t width = e.down.w.first.rows;
    device_->write(e.down.y + on_device * width, a.y, n(on_host * width, sizeof(float)));
    rows_.computed += seconds_since(begun);
  }
  rows_.device += on_device;
}

// Before the first divided layer of the largest is done: room as planned. Without host memory for it, the
// host computes.
Status TieredBackend::prepare_passing(const Layer& layer) {
  uint64_t each = 0;
  for (const ExpertMatrix& m : layer.file) each += ops::expert_room(m);
  const Plan& plan = planned_.front().plan;
  if (passing_ != nullptr || plan.passing == 0 ||
      each * static_cast<uint64_t>(plan.passing) != plan.passing_bytes)
    return {};
  auto p = std::make_unique<Passing>();
  p->block_bytes = plan.passing_bytes;
  for (void*& block : p->block) {
    auto got = device_->allocate_host(p->block_bytes);
    if (!got.ok()) {
      if (p->block[0] != nullptr) device_->free_host(p->block[0], p->block_bytes);
      return {};
    }
    block = *got;
  }
  passing_ = std::move(p);
  for (size_t i = 0; i < 3; ++i) {
    ARGON_ASSIGN_OR_RETURN(passing_->slab[i], device_->allocate_experts(layer.file[i], plan.passing, false));
  }
  return {};
}

// The slots behind `on_device`: their experts are uploaded some at a time, while those before are multiplied.
void TieredBackend::upload_and_compute(const ExpertBlock& e, const Layer& layer, int64_t on_device) {
  HostArrays& a = *arrays_;
  const int64_t F = e.gate.w.first.rows, H = e.down.w.first.rows, E = e.route.E;
  std::vector<int64_t> experts;
  for (int64_t x = 0; x < E; ++x) {
    if (a.host_begin[x + 1] > a.host_begin[x]) experts.push_back(x);
  }
  const size_t most = static_cast<size_t>(planned_.front().plan.passing);
  std::vector<ops::ReadPart> parts;
  std::vector<int32_t> begin;
  for (size_t done = 0, turn = 0; done < experts.size(); ++turn) {
    const std::span<const int64_t> some(experts.data() + done, std::min(most, experts.size() - done));
    parts.clear();
    auto* to = static_cast<std::byte*>(passing_->block[turn % 2]);
    for (const int64_t x : some) {
      for (const ExpertMatrix& m : layer.file) {
        parts.push_back({to, expert_data(m, x), static_cast<size_t>(m.first.rows) * m.first.row_bytes});
        to += ops::expert_room(m);
      }
    }
    copy_all(parts);
    // The uploads of the turn before are done: its block may be filled in the next turn.
    if (turn > 0) device_->read_end();
    for (size_t i = 0; i < parts.size(); ++i)
      device_->put_expert(passing_->slab[i % 3], static_cast<int64_t>(i / 3), parts[i].to_host);
    device_->read_begin({});

    const int32_t base = a.host_begin[some.front()];
    const int64_t first = on_device + base, rows = a.host_begin[some.back() + 1] - base;
    begin.assign(1, 0);
    for (const int64_t x : some) begin.push_back(a.host_begin[x + 1] - base);
    device_->write(e.group.expert_begin, begin.data(), begin.size() * sizeof(int32_t));
    ExpertBlock d = e;
    for (ops::MatmulGroupedArgs* m : {&d.gate, &d.up}) {
      m->slot_row += first;
      m->y += first * F;
    }
    for (ops::MatmulGroupedArgs* m : {&d.gate, &d.up, &d.down}) m->S = rows;
    d.gate.w = passing_->slab[0], d.up.w = passing_->slab[1], d.down.w = passing_->slab[2];
    for (ExpertMatrix* w : {&d.gate.w, &d.up.w, &d.down.w}) w->experts = static_cast<int64_t>(some.size());
    d.act.rows = rows;
    d.act.g += first * F, d.act.u += first * F, d.act.h += first * F;
    d.act.out_q = rows_from(e.act.out_q, first, F);
    d.down.x += first * F;
    d.down.q = rows_from(e.down.q, first, F);
    d.down.y += first * H;
    device_->run_gated(d.gate, d.up, d.act);
    device_->run(d.down);
    device_->submit();
    done += some.size();
  }
}

void TieredBackend::compute_on_host(const ExpertBlock& e, const Layer& layer, int64_t on_device,
                                    int64_t on_host) {
  HostArrays& a = *arrays_;
  const auto grouped = [&](const ExpertMatrix& w, const float* x, const ops::QuantizedRows& q,
                           const int32_t* slot_row, float* y) {
    return ops::MatmulGroupedArgs{w, x, q, a.host_begin, slot_row, y, on_host};
  };
  ops::SwigluArgs act = e.act;
  act.g = act.h = a.g;
  act.u = a.u;
  act.rows = on_host;
  if (act.out_q.codes != nullptr) act.out_q = a.gq;
  host_->run_gated(grouped(layer.file[0], a.x, a.xq, a.slot_row + on_device, a.g),
                   grouped(layer.file[1], a.x, a.xq, a.slot_row + on_device, a.u), act);
  host_->run(grouped(layer.file[2], a.g, a.gq, nullptr, a.y));
}

Status TieredBackend::finish() {
  if (pass_tokens_ > 0) host_->stay_ready(false);
  Status s = device_->finish();
  if (Status h = host_->finish(); s.ok()) s = h;
  if (s.ok()) s = error_;
  error_ = {};
  if (s.ok() && pass_tokens_ > 0) slabs_in_doubt_ = false;
  // Done before the next pass begins, whose kernels may read weights before earlier ones have ended.
  if (s.ok() && pass_tokens_ > 0 && exchange()) {
    s = device_->finish();
    slabs_in_doubt_ = !s.ok();
  }
  pass_tokens_ = 0;
  return s;
}

// After an exchange that failed half-way: what each slot should hold, again.
void TieredBackend::put_residents() {
  for (const Layer* layer : order_) {
    for (size_t slot = 0; slot < layer->resident.size(); ++slot) {
      for (size_t m = 0; m < 3; ++m)
        device_->put_expert(layer->slab[m], static_cast<int64_t>(slot),
                            expert_data(layer->file[m], layer->resident[slot]));
    }
  }
}

// Between passes: hot experts take the places of cold ones, a bounded number of bytes. Layers take turns.
// Says whether any has moved.
bool TieredBackend::exchange() {
  credit_ =
      std::min(credit_ + static_cast<uint64_t>(pass_tokens_) * options_.swap_per_token, options_.swap_most);
  if (credit_ < options_.swap_least) return false;
  const int64_t before = rows_.swaps;
  const size_t first = turn_;
  for (size_t i = 0; i < order_.size(); ++i) {
    Layer& layer = *order_[(first + i) % order_.size()];
    if (layer.resident.empty()) continue;
    uint64_t one = 0;
    for (const ExpertMatrix& m : layer.slab) one += m.expert_bytes;
    if (one > credit_) break;
    turn_ = (first + i + 1) % order_.size();
    for (const Heat::Swap& s : layer.heat.swaps(layer.resident, static_cast<int64_t>(credit_ / one))) {
      int32_t& resident = layer.resident[static_cast<size_t>(s.slot)];
      layer.slab_slot[static_cast<size_t>(resident)] = -1;
      resident = static_cast<int32_t>(s.expert);
      layer.slab_slot[static_cast<size_t>(s.expert)] = static_cast<int32_t>(s.slot);
      for (size_t m = 0; m < 3; ++m)
        device_->put_expert(layer.slab[m], s.slot, expert_data(layer.file[m], s.expert));
      credit_ -= one;
      ++rows_.swaps;
    }
  }
  return rows_.swaps > before;
}

}  // namespace argon::tiers
