#pragma once

#include <cstdint>

#include "compiler/onnx/node.hpp"

namespace tilemesh::onnx_importer {

struct RmsNorm {
  Value normal = kNoValue;   ///< x / rms, of x's dtype
  Value inverse = kNoValue;  ///< 1 / rms, [..., 1, 1], of the dtype computed in
};
/// Divides x by the root of the mean of its squares over the dims from `axis` on, computed in
/// `dtype`.
RmsNorm rms_normal(Node& node, Value x, std::int64_t axis, double epsilon, DType dtype);

/// x normalised over the dims from `axis` on; `bias` may be kNoValue. The op's three outputs: the
/// mean and the inverse deviation come second and third.
std::vector<Value> layer_normal(Node& node, Value x, Value scale, Value bias, std::int64_t axis,
                                double epsilon, int output_count = 1);

}  // namespace tilemesh::onnx_importer
