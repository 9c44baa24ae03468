#pragma once

#include <span>
#include <string_view>

#include "tilemesh/device/event.hpp"

namespace tilemesh::detail {

/// Records what a thread enqueues instead of having it carried out. Waits for what is recorded
/// can't end, so they throw.
class Capture {
 public:
  Capture() = default;
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;
  virtual ~Capture() = default;

  /// `all` completes when all of `events` have.
  virtual void joined(const Event& all, std::span<const Event> events) = 0;
};

/// The capture that the calling thread records into; null if it doesn't.
Capture* current_capture();

/// Makes the calling thread record into a capture, or none if null, as long as it lives. Scopes
/// nest: the inner one holds.
class CaptureScope {
 public:
  explicit CaptureScope(Capture* capture);
  ~CaptureScope();
  CaptureScope(const CaptureScope&) = delete;
  CaptureScope& operator=(const CaptureScope&) = delete;

 private:
  Capture* outer_;
};

/// Throws invalid_argument on a thread that records; `what` says what can't be captured.
void refuse_in_capture(std::string_view what);

}  // namespace tilemesh::detail
