#pragma once

#include <exception>
#include <memory>

#include "tilemesh/base/error.hpp"

namespace tilemesh {

/// Success, or the Error that came first. Copying shares the error: a failed command's outputs and
/// all that depend on them carry the same first cause. An ok status owns nothing.
class Status {
 public:
  Status() = default;
  Status(Error error) : error_(std::make_shared<const Error>(std::move(error))) {}  // NOLINT

  /// The status that a caught exception stands for; what isn't an Error becomes `fallback`.
  static Status from_exception(const std::exception_ptr& exception, ErrorCode fallback);

  bool ok() const { return error_ == nullptr; }

  /// Requires !ok().
  const Error& error() const {
    TILEMESH_CHECK(error_ != nullptr, "an ok status has no error");
    return *error_;
  }

  /// Throws the error if there is one.
  void throw_if_failed() const {
    if (error_) [[unlikely]] {
      throw Error(*error_);
    }
  }

 private:
  std::shared_ptr<const Error> error_;
};

}  // namespace tilemesh
