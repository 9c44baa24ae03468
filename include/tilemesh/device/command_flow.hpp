#pragma once

#include <exception>
#include <functional>
#include <string_view>

#include "tilemesh/device/command.hpp"
#include "tilemesh/device/host_memory.hpp"

/// What every backend does around a command, whatever the command is.
namespace tilemesh::detail {

/// The first of the command's `after` that isn't ready; null if it may begin.
const Event* first_unready(const Command& command);
/// The status with which the command is to be skipped: that of the first `after` that failed.
/// Requires that all are ready.
Status failed_dependency(const Command& command);
/// What a caught exception makes of the command: kernel_failed for foreign ones, with label and
/// place before the text.
Status failure_of(const Command& command, const std::exception_ptr& exception,
                  std::string_view place);
/// Carries out any work but a launch where the host can address the device's memory: the entries of
/// a list by `entry`, and what the first that fails throws is thrown as failure_of makes it.
void carry_out(const CommandWork& work, const HostMemory& memory, std::string_view place,
               const std::function<void(const CommandWork&)>& entry);
/// To be called for a command that fails, is skipped or dropped: tells the other members of its
/// launch. Returns with what it fails: the first cause among the members.
Status give_up(const Command& command, const Status& status);
/// Releases all that the command holds and gives back its `done`, so that whoever sees the event
/// complete finds nothing held by the command any more.
EventSource release(Command&& command);

}  // namespace tilemesh::detail
