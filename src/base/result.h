// Result<T>: a T or an Error, over std::expected. It is [[nodiscard]], so that no failure can be
// dropped without saying so. Result<void> (Status) carries only success or an Error.
#pragma once

#include <expected>
#include <type_traits>
#include <utility>

#include "base/check.h"
#include "base/error.h"

namespace rouse {

template <typename T>
class [[nodiscard]] Result {
 public:
  using Value = T;

  template <typename U = T>
    requires(std::is_convertible_v<U &&, T> && !std::is_same_v<std::remove_cvref_t<U>, Error> &&
             !std::is_same_v<std::remove_cvref_t<U>, Result>)
  Result(U&& value) : inner_(std::forward<U>(value)) {}               // NOLINT: implicit by design
  Result(Error error) : inner_(std::unexpected(std::move(error))) {}  // NOLINT: implicit by design

  bool ok() const { return inner_.has_value(); }
  explicit operator bool() const { return ok(); }

  // The value; asking for it in the error case is a programmer's mistake and aborts.
  T& value() & {
    CHECK(ok());
    return *inner_;
  }
  const T& value() const& {
    CHECK(ok());
    return *inner_;
  }
  T&& value() && {
    CHECK(ok());
    return *std::move(inner_);
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  const Error& error() const {
    CHECK(!ok());
    return inner_.error();
  }

 private:
  std::expected<T, Error> inner_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  using Value = void;

  Result() = default;
  Result(Error error) : inner_(std::unexpected(std::move(error))) {}  // NOLINT: implicit by design

  bool ok() const { return inner_.has_value(); }
  explicit operator bool() const { return ok(); }
  const Error& error() const {
    CHECK(!ok());
    return inner_.error();
  }

 private:
  std::expected<void, Error> inner_;
};

using Status = Result<void>;

}  // namespace rouse

#define ROUSE_CONCAT_INNER(a, b) a##b
#define ROUSE_CONCAT(a, b) ROUSE_CONCAT_INNER(a, b)

// Returns the error of `expression` from the enclosing function, if it has one.
#define RETURN_IF_ERROR(expression)                                      \
  do {                                                                   \
    auto rouse_status = (expression);                                    \
    if (!rouse_status.ok()) return ::rouse::Error(rouse_status.error()); \
  } while (false)

// Declares or assigns `target` from a Result's value, or returns its error.
#define ASSIGN_OR_RETURN(target, expression) \
  ASSIGN_OR_RETURN_INNER(ROUSE_CONCAT(rouse_result_, __LINE__), target, expression)
#define ASSIGN_OR_RETURN_INNER(result, target, expression) \
  auto result = (expression);                              \
  if (!result.ok()) return ::rouse::Error(result.error()); \
  target = std::move(result).value()
