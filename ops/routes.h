// Every operation's route table (ops/<op>/<op>_routes.inc), and routes_of(args) that finds the one of an
// operation.
#pragma once

#include "ops/backend.h"
#include "ops/route.h"

namespace argon::ops {

#define ARGON_ROUTES_BEGIN(op, Args)
#define ARGON_ROUTE(Args, fn, isa, min_rows, max_rows) \
  ARGON_IF_##isa(void fn(const Args&, int64_t begin, int64_t end);)
#define ARGON_ROUTES_END(op, Args)
#include "ops/all_routes.inc"
#undef ARGON_ROUTES_BEGIN
#undef ARGON_ROUTE
#undef ARGON_ROUTES_END

#define ARGON_ROUTES_BEGIN(op, Args) inline constexpr Route<Args> op##_routes[] = {
#define ARGON_ROUTE(Args, fn, isa, min_rows, max_rows) \
  ARGON_IF_##isa({#fn, Isa::isa, min_rows, max_rows, fn}, )
#define ARGON_ROUTES_END(op, Args)             \
  }                                            \
  ;                                            \
  static_assert(routes_complete(op##_routes)); \
  constexpr const auto& routes_of(const Args*) { return op##_routes; }
#include "ops/all_routes.inc"
#undef ARGON_ROUTES_BEGIN
#undef ARGON_ROUTE
#undef ARGON_ROUTES_END

}  // namespace argon::ops
