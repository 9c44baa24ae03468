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

void carry_out(const CommandWork& work, const HostMemory& memory, std::string_view place,
               const std::function<void(const CommandWork&)>& entry) {
  if (const auto* write = std::get_if<WriteCommand>(&work)) {
    memory.write(*write);
  } else if (const auto* read = std::get_if<ReadCommand>(&work)) {
    memory.read(*read);
  } else if (const auto* fill = std::get_if<FillCommand>(&work)) {
    memory.fill(*fill);
  } else if (const auto* copy = std::get_if<CopyCommand>(&work)) {
    memory.copy(*copy);
  } else if (const auto* host = std::get_if<HostCommand>(&work)) {
    host->function();
  } else if (const auto* kernel = std::get_if<KernelCommand>(&work)) {
    memory.run(*kernel);
  } else if (const auto* list = std::get_if<ListCommand>(&work)) {
    for (const CommandList::Entry& each : list->list->entries) {
      try {
        entry(each.work);
      } catch (...) {
        throw failure_of(each.work, each.label, std::current_exception(), place);
      }
    }
  } else {
    TILEMESH_CHECK(std::holds_alternative<MarkCommand>(work),
                   "a launch is for the backend to carry out");
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
