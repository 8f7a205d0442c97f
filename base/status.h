// Errors at the edges (files, command line, requests) as values: a Status carries a class and one line of
// text that names the thing, what was found, what was wanted and what to do. Nothing in the engine throws on
// purpose.
#pragma once

#include <optional>
#include <string>
#include <utility>

namespace argon {

enum class Code {
  kOk,
  kBadInput,     // a file, option or request that the user can mend; exit code 2
  kUnsupported,  // valid, but this engine cannot do it (yet); exit code 2
  kResource,     // memory, file descriptors, disk; exit code 1
  kCancelled,    // the user asked to stop; exit code 130
  kNumeric,      // a non-finite value where the contract promises a finite one; exit code 1
  kInternal,     // a fault of the engine's own; exit code 1
};

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message) : code_(code), message_(std::move(message)) {}

  bool ok() const { return code_ == Code::kOk; }
  Code code() const { return code_; }
  const std::string& message() const { return message_; }

 private:
  Code code_ = Code::kOk;
  std::string message_;
};

inline Status bad_input(std::string m) { return {Code::kBadInput, std::move(m)}; }
inline Status unsupported(std::string m) { return {Code::kUnsupported, std::move(m)}; }
inline Status resource_error(std::string m) { return {Code::kResource, std::move(m)}; }
inline Status internal_error(std::string m) { return {Code::kInternal, std::move(m)}; }

// Either a value or the Status that says why there is none.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}  // NOLINT: implicit on purpose
  Result(Status status)                          // NOLINT: implicit on purpose
      : status_(status.ok() ? internal_error("a Result was made from an ok Status without a value")
                            : std::move(status)) {}

  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }
  T& value() & { return *value_; }
  const T& value() const& { return *value_; }
  T&& value() && { return std::move(*value_); }
  T& operator*() & { return *value_; }
  const T& operator*() const& { return *value_; }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }

 private:
  std::optional<T> value_;
  Status status_;
};

}  // namespace argon

#define ARGON_CONCAT_(a, b) a##b
#define ARGON_CONCAT(a, b) ARGON_CONCAT_(a, b)

// Return from the enclosing function if `expr` (a Status) is not ok.
#define ARGON_RETURN_IF_ERROR(expr)                       \
  do {                                                    \
    if (::argon::Status s_ = (expr); !s_.ok()) return s_; \
  } while (0)

// Declare `lhs` from a Result, or return its Status.
#define ARGON_ASSIGN_OR_RETURN(lhs, expr) ARGON_ASSIGN_OR_RETURN_(ARGON_CONCAT(r_, __LINE__), lhs, expr)
#define ARGON_ASSIGN_OR_RETURN_(tmp, lhs, expr) \
  auto tmp = (expr);                            \
  if (!tmp.ok()) return tmp.status();           \
  lhs = std::move(tmp).value()
