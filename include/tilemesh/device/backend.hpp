#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "tilemesh/device/device.hpp"
#include "tilemesh/ops/target.hpp"

namespace tilemesh {

/// One row of the table of backends.
struct Backend {
  std::string_view name;
  /// Throws mismatch for what the machine can't give.
  std::vector<std::unique_ptr<Device>> (*open)(const DeviceOptions& options) = nullptr;
  /// This machine; threads_per_device as in DeviceOptions, for a mesh of `device_count`.
  TargetInfo (*query)(int device_count, int threads_per_device) = nullptr;
  /// What the compiler asks, for a machine that needn't be this one.
  std::unique_ptr<Target> (*target)(const TargetInfo& info) = nullptr;
};

/// All backends of this build. Defined in builtin, which alone names them.
std::span<const Backend> backends();
/// Throws not_found with the names there are.
const Backend& find_backend(std::string_view name);

}  // namespace tilemesh
