#pragma once

#include <cstdint>
#include <random>

#include "arrays.hpp"

namespace tilemesh::cli {

/// Arrays that are the same for the same seed on every machine: floats evenly from [-1, 1],
/// integers from 0 to 7 so that they can be indices, bools.
class RandomArrays {
 public:
  explicit RandomArrays(std::uint64_t seed) : engine_(seed) {}
  HostArray make(DType dtype, const Shape& shape);

 private:
  std::mt19937_64 engine_;
};

}  // namespace tilemesh::cli
