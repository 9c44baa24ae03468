#include "tilemesh/device/capture_scope.hpp"

#include <utility>

#include <fmt/format.h>

#include "tilemesh/base/error.hpp"

namespace tilemesh::detail {

namespace {
thread_local Capture* current = nullptr;
}  // namespace

Capture* current_capture() {
  return current;
}

CaptureScope::CaptureScope(Capture* capture) : outer_(std::exchange(current, capture)) {}

CaptureScope::~CaptureScope() {
  current = outer_;
}

void refuse_in_capture(std::string_view what) {
  if (current != nullptr) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{} can't be captured, since nothing runs before the replay: do it "
                            "outside of the capture's scope",
                            what));
  }
}

}  // namespace tilemesh::detail
