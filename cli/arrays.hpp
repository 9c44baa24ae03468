#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "tilemesh/compiler/graph.hpp"
#include "tilemesh/tensor/tensor.hpp"
#include "tilemesh/types/dtype.hpp"
#include "tilemesh/types/shape.hpp"

namespace tilemesh::cli {

/// Row-major elements on the host.
struct HostArray {
  DType dtype = DType::f32;
  Shape shape;
  std::vector<std::byte> bytes;
};
using NamedArrays = std::map<std::string, HostArray>;

/// "f32[2,3]"
std::string to_string(const HostArray& array);
HostArray to_array(const ConstantData& data);
ConstantData to_constant(const HostArray& array);
/// The array itself; one of u8 for an input of a storage format, which NumPy has no name for, holds
/// its bytes.
HostArray as_stored(HostArray array, DType wanted);
/// Reads a tensor back; waits.
HostArray to_array(const Tensor& tensor);
/// A host tensor with a copy of the elements.
Tensor to_tensor(const HostArray& array);

/// Throws invalid_argument, with both values, if the array isn't what a program's input wants.
void check_input(const std::string& program, const std::string& name, const HostArray& array,
                 const TensorSpec& wanted);

}  // namespace tilemesh::cli
