#pragma once

#include "compiler/onnx/node.hpp"

/// What handlers of quantized operators share.
namespace tilemesh::onnx_importer {

/// A tensor in integers and what they stand for.
struct Quantized {
  Value values = kNoValue;
  Value scale = kNoValue;
  Value zero_point = kNoValue;  ///< or none
};

/// A scale or zero point, as the ops of our table broadcast it: one element as a scalar, a list
/// along dim `axis` of a tensor of `rank`. Other shapes stay.
Value along(Node& node, Value parameter, std::int64_t axis, int rank);

/// Scalars, or lists along dim `axis` of the tensor.
Value dequantized(Node& node, const Quantized& x, std::int64_t axis = 0);
/// `dtype` must be that of the zero point, if there is one.
Value quantized(Node& node, Value x, Value scale, Value zero_point, DType dtype);
/// To u8, with a scale and a zero point that cover the range of x.
Quantized dynamically_quantized(Node& node, Value x);

/// Inputs `first`, `first` + 1 and `first` + 2 of a node: values, scale, zero point.
Quantized quantized_input(Node& node, int first);
/// Rounds a result by the node's inputs `scale` and `scale` + 1, to the dtype of the zero point or
/// else `fallback`.
Value quantized_result(Node& node, Value y, int scale, DType fallback);

/// a @ b of integers, less their zero points, exact in i32. Lists of zero points are of a's rows
/// and b's columns.
Value matmul_integer(Node& node, const Quantized& a, const Quantized& b);

/// a @ b as reals, plus a bias, which may be none. One scale of a; one of b, or one for each of its
/// columns.
Value product_of_reals(Node& node, const Quantized& a, const Quantized& b, Value bias);

}  // namespace tilemesh::onnx_importer
