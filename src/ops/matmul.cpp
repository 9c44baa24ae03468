#include <fmt/format.h>

#include "tilemesh/base/error.hpp"

#include "attribute_form.hpp"
#include "elements.hpp"
#include "tables.hpp"

namespace tilemesh::ops {
namespace {

/// One operand seen as a batch of matrices; where its batch dims and its own two dims are.
struct Side {
  Shape batch;
  int batch_rank = 0;
  int row_dim = -1, column_dim = -1;  // of the operand; -1: a vector lacks it
  std::int64_t rows = 1, columns = 1;
};

void matmul_form(AttributeForm& form) {
  form.flag("transpose_a", false);
  form.flag("transpose_b", false);
}

Side side_of(const OpCall& call, std::size_t input) {
  const Shape& shape = call.inputs[input].shape;
  const bool transposed = call.attributes.integer(input == 0 ? "transpose_a" : "transpose_b") != 0;
  require_rank(call, input, transposed ? 2 : 1, true);
  Side side;
  if (shape.rank() == 1) {
    (input == 0 ? side.column_dim : side.row_dim) = 0;
  } else {
    side.batch_rank = shape.rank() - 2;
    side.row_dim = side.batch_rank + (transposed ? 1 : 0);
    side.column_dim = side.batch_rank + (transposed ? 0 : 1);
  }
  side.batch = Shape(std::span(shape.begin(), static_cast<std::size_t>(side.batch_rank)));
  if (side.row_dim >= 0) side.rows = shape[side.row_dim];
  if (side.column_dim >= 0) side.columns = shape[side.column_dim];
  return side;
}

std::vector<OperandType> infer_matmul(const OpCall& call) {
  require_type(call, 0, Types::number);
  require_same_type(call, 0, 1);
  const Side a = side_of(call, 0);
  const Side b = side_of(call, 1);
  if (a.columns != b.rows) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{} and {} don't multiply: the inner sizes are {} and {}",
                            call.inputs[0].shape.to_string(), call.inputs[1].shape.to_string(),
                            a.columns, b.rows));
  }
  const Shape batch = broadcast(a.batch, b.batch);
  Dims sizes = batch.sizes();
  if (a.row_dim >= 0) sizes.push_back(a.rows);
  if (b.column_dim >= 0) sizes.push_back(b.columns);
  return {rows(call.inputs[0].dtype, Shape(sizes))};
}

Factors matmul_factors(const OpCall& call) {
  const Side a = side_of(call, 0);
  const Side b = side_of(call, 1);
  const Shape& out = call.outputs[0].shape;
  const int batch_rank = std::max(a.batch_rank, b.batch_rank);
  FactorBuilder builder(call);
  for (int d = 0; d < batch_rank; ++d) {
    const int factor = builder.add();
    builder.output(0, d, factor);
    const Side* sides[] = {&a, &b};
    for (std::size_t i = 0; i < 2; ++i) {
      const int dim = d - (batch_rank - sides[i]->batch_rank);
      if (dim >= 0 && call.inputs[i].shape[dim] == out[d]) builder.input(i, dim, factor);
    }
  }
  if (a.row_dim >= 0) {
    const int factor = builder.add();
    builder.input(0, a.row_dim, factor);
    builder.output(0, batch_rank, factor);
  }
  if (b.column_dim >= 0) {
    const int factor = builder.add();
    builder.input(1, b.column_dim, factor);
    builder.output(0, out.rank() - 1, factor);
  }
  const int inner = builder.add();
  builder.input(0, a.column_dim, inner);
  builder.input(1, b.row_dim, inner);
  return builder.build();
}

/// An operand's elements as [batch, rows, columns], row-major, whatever was transposed.
template <class T>
std::vector<T> matrices(const std::byte* data, const OperandType& type, const Side& side) {
  const Dims own = row_major_strides(type.shape);
  Dims sizes = side.batch.sizes();
  Dims strides(own.begin(), own.begin() + side.batch_rank);
  sizes.push_back(side.rows);
  sizes.push_back(side.columns);
  strides.push_back(side.row_dim < 0 ? 0 : own[static_cast<std::size_t>(side.row_dim)]);
  strides.push_back(side.column_dim < 0 ? 0 : own[static_cast<std::size_t>(side.column_dim)]);
  auto values = zeros<T>(type.shape.element_count());
  copy_elements(data, type.dtype, strides, reinterpret_cast<std::byte*>(values.data()), kDTypeOf<T>,
                Shape(sizes));
  return values;
}

/// c[rows, columns] = a[rows, inner] * b[inner, columns]
template <class T>
void multiply(const T* a, const T* b, T* c, std::int64_t row_count, std::int64_t inner,
              std::int64_t columns) {
  std::vector<Sum<T>> sums(static_cast<std::size_t>(columns));
  for (std::int64_t i = 0; i < row_count; ++i) {
    std::ranges::fill(sums, Sum<T>{});
    for (std::int64_t k = 0; k < inner; ++k) {
      const auto factor = static_cast<Sum<T>>(a[i * inner + k]);
      const T* line = b + k * columns;
      for (std::int64_t j = 0; j < columns; ++j) {
        sums[static_cast<std::size_t>(j)] += factor * static_cast<Sum<T>>(line[j]);
      }
    }
    for (std::int64_t j = 0; j < columns; ++j) {
      c[i * columns + j] = static_cast<T>(sums[static_cast<std::size_t>(j)]);
    }
  }
}

void run_matmul(const OpCall& call, Inputs inputs, Outputs outputs) {
  const Side a = side_of(call, 0);
  const Side b = side_of(call, 1);
  const Shape batch = broadcast(a.batch, b.batch);
  const Dims steps_a = broadcast_strides(a.batch, batch);
  const Dims steps_b = broadcast_strides(b.batch, batch);
  visit_product(call.inputs[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const std::vector<T> left = matrices<T>(inputs[0], call.inputs[0], a);
    const std::vector<T> right = matrices<T>(inputs[1], call.inputs[1], b);
    auto result = zeros<T>(call.outputs[0].shape.element_count());
    Dims index = zero_index(batch);
    for (std::int64_t i = 0; i < batch.element_count(); ++i, next_index(index, batch)) {
      multiply(left.data() + dot(index, steps_a) * a.rows * a.columns,
               right.data() + dot(index, steps_b) * b.rows * b.columns,
               result.data() + i * a.rows * b.columns, a.rows, a.columns, b.columns);
    }
    store(result, call.outputs[0], outputs[0]);
  });
}

constexpr OpDef kOps[] = {
    {.name = "matmul",
     .min_inputs = 2,
     .max_inputs = 2,
     .canonical = matmul_form,
     .infer = infer_matmul,
     .factors = matmul_factors,
     .reference = run_matmul,
     .takes_epilogue = true,
     .partial = PartialRule::scales},
};

}  // namespace

std::span<const OpDef> matmul_ops() {
  return kOps;
}

}  // namespace tilemesh::ops
