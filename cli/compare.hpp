#pragma once

#include <string>

#include "arrays.hpp"

namespace tilemesh::cli {

/// Two floats are equal if |got - expected| <= absolute + relative * |expected|; NaN equals NaN, an
/// infinity only itself. The defaults are those of the ONNX backend tests. For f16 and bf16 the
/// relative tolerance is at least one unit in the last place, since two right roundings may differ
/// by it. Integers and bools must be the same; elements of
/// storage formats are compared as the floats that they are.
struct Tolerance {
  double relative = 1e-3;
  double absolute = 1e-7;
};

struct Comparison {
  bool equal = true;
  double max_error = 0;  ///< largest absolute error; infinite where one of two isn't finite
  double max_relative_error = 0;
  std::string reason;  ///< if not equal: what differs, and where it is worst
};

/// Shapes and dtypes have to be the same too.
Comparison compare(const HostArray& got, const HostArray& expected, const Tolerance& tolerance);

}  // namespace tilemesh::cli
