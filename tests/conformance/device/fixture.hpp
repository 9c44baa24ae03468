#pragma once

#include <cstring>
#include <functional>
#include <memory>
#include <ostream>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "tilemesh/device/backend.hpp"

namespace tilemesh {

/// One set of devices that the suite runs on.
struct Variant {
  std::string name;
  std::string backend;
  int count = 1;
  int threads = 1;
};

inline void PrintTo(const Variant& variant, std::ostream* out) {
  *out << variant.name;
}

inline const std::vector<Variant>& variants() {
  static const std::vector<Variant> kVariants = {{"null", "null", 2, 0},
                                                 {"cpu_one", "cpu", 1, 1},
                                                 {"cpu_all_cores", "cpu", 1, 0},
                                                 {"cpu_eight", "cpu", 8, 0}};
  return kVariants;
}

inline std::string variant_name(const testing::TestParamInfo<Variant>& info) {
  return info.param.name;
}

class DeviceConformance : public testing::TestWithParam<Variant> {
 protected:
  static constexpr std::int64_t kDramBytes = 1 << 20;
  static constexpr std::int64_t kL1Bytes = 64 << 10;

  DeviceConformance()
      : devices_(find_backend(GetParam().backend)
                     .open({.count = GetParam().count,
                            .threads_per_device = GetParam().threads,
                            .dram_bytes = kDramBytes,
                            .l1_bytes = kL1Bytes})) {}

  Device& device(int index = 0) { return *devices_.at(static_cast<std::size_t>(index)); }
  Device& last_device() { return *devices_.back(); }

  static Event enqueue(DeviceQueue& queue, CommandWork work, std::vector<Event> after = {},
                       std::string label = {}) {
    Command command{.work = std::move(work), .after = std::move(after), .label = std::move(label)};
    const Event done = command.done.event();
    queue.enqueue(std::move(command));
    return done;
  }
  static Event enqueue_host(DeviceQueue& queue, std::function<void()> function,
                            std::vector<Event> after = {}, std::string label = {}) {
    return enqueue(queue, HostCommand{std::move(function)}, std::move(after), std::move(label));
  }

  template <class T>
  static Event write(DeviceQueue& queue, std::vector<T> values, DeviceAddress address) {
    const auto owned = std::make_shared<const std::vector<T>>(std::move(values));
    const auto* host = reinterpret_cast<const std::byte*>(owned->data());  // NOLINT
    return enqueue(queue, WriteCommand{host, address, whole(*owned), owned});
  }
  template <class T>
  static std::vector<T> read(DeviceQueue& queue, DeviceAddress address, std::size_t count) {
    std::vector<T> values(count);
    enqueue(queue, ReadCommand{address, reinterpret_cast<std::byte*>(values.data()),  // NOLINT
                               whole(values), nullptr})
        .wait();
    return values;
  }

  std::vector<std::unique_ptr<Device>> devices_;

 private:
  template <class T>
  static TransferRegion whole(const std::vector<T>& values) {
    const auto bytes = static_cast<std::int64_t>(values.size() * sizeof(T));
    return {.row_bytes = bytes, .rows = 1, .host_pitch_bytes = bytes, .device_pitch_bytes = bytes};
  }
};

/// A queue is idle soon after its last event is complete, not at once.
inline void wait_until_idle(const DeviceQueue& queue) {
  while (!queue.idle()) {
    std::this_thread::yield();
  }
}

/// The error of an event that must have failed.
inline Error error_of(const Event& event) {
  try {
    event.wait();
  } catch (const Error& error) {
    return error;
  }
  return {ErrorCode::internal, "the event didn't fail"};
}

}  // namespace tilemesh
