#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "tilemesh/device/device_kernel.hpp"
#include "tilemesh/device/event.hpp"
#include "tilemesh/device/step.hpp"

namespace tilemesh {

class Device;
class DeviceProgram;

/// Bytes between host and device as `rows` pieces of `row_bytes`, each side with its own pitch.
struct TransferRegion {
  std::int64_t row_bytes = 0;
  std::int64_t rows = 1;
  std::int64_t host_pitch_bytes = 0;
  std::int64_t device_pitch_bytes = 0;
};

/// Host memory to the device's; `keep_alive` owns the memory until the command has ended.
struct WriteCommand {
  const std::byte* host = nullptr;
  DeviceAddress device;
  TransferRegion region;
  std::shared_ptr<const void> keep_alive;
};
/// The device's memory to the host's.
struct ReadCommand {
  DeviceAddress device;
  std::byte* host = nullptr;
  TransferRegion region;
  std::shared_ptr<void> keep_alive;
};
/// Repeats a pattern of 1 to 16 bytes.
struct FillCommand {
  DeviceAddress device;
  std::int64_t bytes = 0;
  std::vector<std::byte> pattern;
};
/// From an address of a device of the same backend (this one if null) to this device.
struct CopyCommand {
  Device* source_device = nullptr;
  DeviceAddress source;
  DeviceAddress target;
  std::int64_t bytes = 0;
};
/// Runs a prepared program with its bases bound. A program with a membership needs the gathering of
/// this launch.
struct LaunchCommand {
  std::shared_ptr<DeviceProgram> program;
  std::vector<DeviceAddress> bases;
  std::shared_ptr<Gathering> gathering = {};
};
/// Runs a callable on the device's thread, in the queue's order; what it throws fails `done`.
struct HostCommand {
  std::function<void()> function;
};
/// Runs a kernel on this device's own bytes.
struct KernelCommand {
  std::shared_ptr<const DeviceKernel> kernel;
  std::shared_ptr<const KernelBinding> binding;
};
/// Does nothing but complete `done` in order.
struct MarkCommand {};
struct CommandList;
/// Carries out a recorded list from first to last, again and again. The first entry that fails ends
/// it, and its error is that of the command.
struct ListCommand {
  std::shared_ptr<const CommandList> list;
};

/// What a command does: one alternative each.
using CommandWork = std::variant<MarkCommand, WriteCommand, ReadCommand, FillCommand, CopyCommand,
                                 LaunchCommand, HostCommand, KernelCommand, ListCommand>;

/// The commands of one device that a trace replays. Entries depend on nothing but those before.
struct CommandList {
  struct Entry {
    CommandWork work;
    std::string label;  ///< for errors
  };
  std::vector<Entry> entries;
};

/// One entry of a device queue: plain data, so that every backend can carry it out in its way.
struct Command {
  CommandWork work;
  std::vector<Event> after = {};
  EventSource done = EventSource();
  std::string label = {};  ///< for errors: "program \"mlp\""
  /// Both are released when it has ended, before `done` completes; the second keeps the devices
  /// open.
  std::shared_ptr<const void> keep_alive = {};
  std::shared_ptr<const void> devices_alive = {};
};

}  // namespace tilemesh
