#include "tilemesh/device/command_flow.hpp"

#include <fmt/format.h>

#include "tilemesh/device/device.hpp"

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

namespace {

Error failure_of(const CommandWork& work, std::string_view label,
                 const std::exception_ptr& exception, std::string_view place) {
  Error error = Status::from_exception(exception, ErrorCode::kernel_failed).error();
  // A program says itself which step failed where, a list which entry.
  if (!std::holds_alternative<LaunchCommand>(work) && !std::holds_alternative<ListCommand>(work)) {
    error = error.in(fmt::format("device {}", place));
  }
  return label.empty() ? error : error.in(label);
}

}  // namespace

Status failure_of(const Command& command, const std::exception_ptr& exception,
                  std::string_view place) {
  return failure_of(command.work, command.label, exception, place);
}

void carry_out_list(const ListCommand& command, std::string_view place,
                    const std::function<void(const CommandWork&)>& one) {
  for (const CommandList::Entry& entry : command.list->entries) {
    try {
      one(entry.work);
    } catch (...) {
      throw failure_of(entry.work, entry.label, std::current_exception(), place);
    }
  }
}

Status give_up(const Command& command, const Status& status) {
  const auto* launch = std::get_if<LaunchCommand>(&command.work);
  if (launch == nullptr || launch->gathering == nullptr) {
    return status;
  }
  return launch->gathering->fail(launch->program->membership()->member, status);
}

EventSource release(Command&& command) {
  EventSource done = std::move(command.done);
  const Command ended = std::move(command);
  return done;
}

}  // namespace tilemesh::detail
