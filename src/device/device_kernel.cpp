#include "tilemesh/device/device_kernel.hpp"

#include <array>

#include <fmt/format.h>

#include "tilemesh/base/error.hpp"

namespace tilemesh {

std::span<std::byte> KernelCall::buffer(std::size_t index) const {
  if (index >= buffers.size()) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("the kernel reads buffer {}, its launch gives {}: add the missing ones "
                            "to the workload",
                            index, buffers.size()));
  }
  return buffers[index];
}

void KernelCall::refuse_argument(std::size_t index) const {
  constexpr std::array kTypes = {"int32", "int64", "float", "double"};
  if (index >= arguments.size()) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("the kernel reads argument {}, its launch gives {}: add the missing "
                            "ones to the workload",
                            index, arguments.size()));
  }
  throw Error(ErrorCode::invalid_argument,
              fmt::format("argument {} of the kernel is a {}, and the kernel reads it as another "
                          "type: give it in that type",
                          index, kTypes.at(arguments[index].index())));
}

}  // namespace tilemesh
