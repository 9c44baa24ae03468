#include "tilemesh/device/command_flow.hpp"

#include <fmt/format.h>

namespace tilemesh::detail {

const Event* first_unready(const Command& command) {
  for (const Event& event : command.after) {
    if (!event.ready()) {
      return &event;
    }
  }
  return nullptr;
}

Status failed_dependency(const Command& command) {
  for (const Event& event : command.after) {
    if (Status status = event.status(); !status.ok()) {
      return status;
    }
  }
  return {};
}

Status failure_of(const Command& command, const std::exception_ptr& exception,
                  std::string_view place) {
  Error error = Status::from_exception(exception, ErrorCode::kernel_failed).error();
  // A program says itself which step failed where.
  if (!std::holds_alternative<LaunchCommand>(command.work)) {
    error = error.in(fmt::format("device {}", place));
  }
  return command.label.empty() ? error : error.in(command.label);
}

EventSource release(Command&& command) {
  EventSource done = std::move(command.done);
  const Command ended = std::move(command);
  return done;
}

}  // namespace tilemesh::detail
