#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "tilemesh/base/error.hpp"

#include "elements.hpp"
#include "tables.hpp"

/// ONNX Det 11 and 22: [..., n, n] to [...].
namespace tilemesh::ops {
namespace {

std::vector<OperandType> infer_determinant(const OpCall& call) {
  require_type(call, 0, Types::real);
  require_rank(call, 0, 2, true);
  const Shape& x = call.inputs[0].shape;
  if (x[x.rank() - 1] != x[x.rank() - 2]) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("input 0 wants square matrices, got {}", x.to_string()));
  }
  Dims sizes = x.sizes();
  sizes.resize(sizes.size() - 2);
  return {rows(call.inputs[0].dtype, Shape(sizes))};
}

Factors determinant_factors(const OpCall& call) {
  FactorBuilder builder(call);
  for (int d = 0; d < call.outputs[0].shape.rank(); ++d) {
    builder.share(d, d);
  }
  return builder.build();
}

/// Gaussian elimination with the largest pivots; the matrix is used up.
double eliminated(double* matrix, std::int64_t n) {
  double result = 1;
  for (std::int64_t k = 0; k < n; ++k) {
    std::int64_t pivot = k;
    for (std::int64_t row = k + 1; row < n; ++row) {
      if (std::abs(matrix[row * n + k]) > std::abs(matrix[pivot * n + k])) pivot = row;
    }
    if (pivot != k) {
      std::swap_ranges(matrix + k * n, matrix + (k + 1) * n, matrix + pivot * n);
      result = -result;
    }
    const double top = matrix[k * n + k];
    result *= top;
    for (std::int64_t row = k + 1; row < n && top != 0; ++row) {
      const double times = matrix[row * n + k] / top;
      for (std::int64_t column = k + 1; column < n; ++column) {
        matrix[row * n + column] -= times * matrix[k * n + column];
      }
    }
  }
  return result;
}

void run_determinant(const OpCall& call, Inputs inputs, Outputs outputs) {
  const Shape& in = call.inputs[0].shape;
  const std::int64_t n = in[in.rank() - 1];
  const Loaded<double> x(inputs[0], call.inputs[0]);
  std::vector<double> matrices(x.data(), x.data() + in.element_count());
  auto values = zeros<double>(call.outputs[0].shape.element_count());
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = eliminated(matrices.data() + static_cast<std::int64_t>(i) * n * n, n);
  }
  store(values, call.outputs[0], outputs[0]);
}

constexpr OpDef kOps[] = {
    {.name = "determinant",
     .infer = infer_determinant,
     .factors = determinant_factors,
     .reference = run_determinant},
};

}  // namespace

std::span<const OpDef> determinant_ops() {
  return kOps;
}

}  // namespace tilemesh::ops
