#include <array>
#include <map>
#include <mutex>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tilemesh/base/close_names.hpp"
#include "tilemesh/base/error.hpp"
#include "tilemesh/compiler/compile.hpp"
#include "tilemesh/device/backend.hpp"

#include "backends/cpu/backend.hpp"
#include "backends/null/backend.hpp"

namespace tilemesh {

std::span<const Backend> backends() {
  static const std::array<Backend, 2> kBackends = {cpu::backend(), null::backend()};
  return kBackends;
}

const Backend& find_backend(std::string_view name) {
  std::vector<std::string> names;
  for (const Backend& backend : backends()) {
    if (backend.name == name) {
      return backend;
    }
    names.emplace_back(backend.name);
  }
  throw Error(ErrorCode::not_found, fmt::format("no backend \"{}\"; there are: {}{}", name,
                                                fmt::join(names, ", "), did_you_mean(name, names)));
}

const Target& default_target(int device_count, int threads_per_device) {
  static std::mutex mutex;
  static std::map<std::pair<int, int>, std::unique_ptr<Target>> targets;
  const std::lock_guard lock(mutex);
  std::unique_ptr<Target>& target = targets[{device_count, threads_per_device}];
  if (target == nullptr) {
    const Backend& cpu = cpu::backend();
    target = cpu.target(cpu.query(device_count, threads_per_device));
  }
  return *target;
}

}  // namespace tilemesh
