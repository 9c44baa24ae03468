#pragma once

#include <string>

#include "arrays.hpp"

namespace tilemesh::cli {

/// Two floats are equal if their error is small against the element,
///   |got - expected| <= absolute + relative * |expected|,
/// or against the largest finite element of the expected tensor,
///   |got - expected| <= scale * max |expected|,
/// since sums whose terms cancel keep the rounding of their terms. NaN equals NaN, an infinity only
/// itself. `relative` and `absolute` are those of the ONNX backend tests by default; `scale` is
/// some hundred roundings of f32. For f16 and bf16 the two relative ones are at least one unit in
/// the last place, since two right roundings may differ by it. Integers and bools must be the same,
/// but for the steps that 8- and 16-bit integers, which quantised results are, may be apart.
/// Elements of storage formats are compared as the floats that they are.
struct Tolerance {
  double relative = 1e-3;
  double absolute = 1e-7;
  double scale = 1e-5;  ///< 0: elements alone
  int steps = 0;
};

struct Comparison {
  bool equal = true;
  double max_error = 0;  ///< largest absolute error; infinite where one of two isn't finite
  double max_relative_error = 0;
  double max_scaled_error = 0;  ///< in proportion to the largest finite expected element
  std::string reason;           ///< if not equal: what differs, and where it is worst
};

/// Shapes and dtypes have to be the same too.
Comparison compare(const HostArray& got, const HostArray& expected, const Tolerance& tolerance);

}  // namespace tilemesh::cli
