#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "tilemesh/runtime/submit.hpp"

namespace tilemesh {

/// Ops of a program that were timed together: one, or all between a jump and where its ways meet.
struct ProfiledOps {
  std::size_t first = 0;  ///< of Program::ops
  std::size_t count = 1;
  double median_seconds = 0;  ///< of the slowest device, its launch (under a microsecond) included
};

struct Profile {
  std::vector<ProfiledOps> parts;  ///< in order of execution; together all ops of the program
  std::vector<Tensor> outputs;     ///< of the last run
};

/// Times the ops of a program one by one: prepares a program of each, and runs them in order, so
/// often in turns as said, after one time that doesn't count. The data is that of a real run, so
/// what an op finds in caches is as well. Arguments as for run(). Throws invalid_argument for
/// repeats below 1, for donated arguments, and if the program keeps state: one run takes them over.
Profile profile(const Executable& executable, std::span<const Argument> arguments, int repeats);

}  // namespace tilemesh
