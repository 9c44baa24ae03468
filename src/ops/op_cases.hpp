#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "testing.hpp"

namespace tilemesh::ops::testing {

/// A call of an op that should work, for properties that hold for all ops.
struct Case {
  std::string name;
  std::vector<Value> inputs;
  Attributes attributes = {};
  std::size_t outputs = 0;
  Expression epilogue = {};
  std::string op = {};  // if it isn't the name

  std::string_view op_name() const { return op.empty() ? name : op; }
};

/// At least one case for every op; small, with sizes that differ.
const std::vector<Case>& all_cases();

/// Adds those of images, regions, spectra and sizes that depend on the data.
void add_vision(std::vector<Case>& cases);

/// Numbers in (0, 1) or, for integers, 1 to 9: in the domain of every function.
Value random(const Shape& shape, DType dtype = DType::f32);

}  // namespace tilemesh::ops::testing
