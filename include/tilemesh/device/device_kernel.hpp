#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "tilemesh/device/step.hpp"

namespace tilemesh {

/// A value that a launch hands to a kernel.
using KernelArgument = std::variant<std::int32_t, std::int64_t, float, double>;

/// What a kernel sees when it runs on one device whose memory the host can address.
struct KernelCall {
  std::span<const std::span<std::byte>> buffers;  ///< the device's own part of each
  std::span<const KernelArgument> arguments;
  int device = 0;  ///< its number in the mesh that enqueued the kernel

  /// The elements of buffer `index`; a rest that isn't a whole element is left out. Throws
  /// invalid_argument if there is no such buffer.
  template <class T>
  std::span<T> elements(std::size_t index) const {
    const std::span<std::byte> bytes = buffer(index);
    return {reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)};  // NOLINT: arenas align
  }
  /// Argument `index` as a T; throws invalid_argument if it has another type or isn't there.
  template <class T>
  T argument(std::size_t index) const {
    const T* value = index < arguments.size() ? std::get_if<T>(&arguments[index]) : nullptr;
    return value != nullptr ? *value : (refuse_argument(index), T());
  }

 private:
  std::span<std::byte> buffer(std::size_t index) const;
  [[noreturn]] void refuse_argument(std::size_t index) const;
};

/// A kernel as data: each backend turns into its own form what it can use, and refuses with
/// `unsupported` a kernel that offers nothing for it. Immutable once shared; a backend that
/// compiles may keep the result by the kernel's address for as long as it holds the kernel.
struct DeviceKernel {
  std::string name;  ///< for errors
  /// For devices whose memory the host addresses. Must not wait for events; what it throws fails
  /// the command.
  std::function<void(const KernelCall&)> function = {};
  /// For backends that compile: text in a language such as "opencl-c", and the entry's name in it.
  /// The entry takes the buffers, then the arguments.
  struct Source {
    std::string language;
    std::string text;
    std::string entry;
  };
  std::vector<Source> sources = {};
};

/// Bytes of one device that a kernel may touch.
struct KernelBuffer {
  DeviceAddress address;
  std::int64_t bytes = 0;
};

/// What a launch hands to a kernel on one device; shared by its launches, so never changed.
struct KernelBinding {
  std::vector<KernelBuffer> buffers = {};
  std::vector<KernelArgument> arguments = {};
  int device = 0;
};

}  // namespace tilemesh
