#include <algorithm>
#include <string>
#include <vector>

#include "tilemesh/base/math.hpp"

#include "integer_operands.hpp"
#include "offers.hpp"
#include "parallel.hpp"

namespace tilemesh::cpu::highway {
namespace {

/// The matrices that are multiplied, in elements from the operands' beginnings.
struct Product {
  std::int64_t first_row = 0;  // of all rows of the first operand
  std::int64_t second = 0;
};

struct Sizes {
  std::int64_t rows = 1, depth = 1, columns = 1;
  std::vector<Product> products;
};

/// A second operand without a batch multiplies all rows of the first at once.
Sizes sizes_of(const OpCall& call) {
  const Shape& a = call.inputs[0].shape;
  const Shape& b = call.inputs[1].shape;
  const Shape& y = call.outputs[0].shape;
  Sizes sizes;
  sizes.rows = a[a.rank() - 2];
  sizes.depth = a[a.rank() - 1];
  sizes.columns = b[b.rank() - 1];
  std::int64_t batch_of_b = 1;
  for (int d = 0; d < b.rank() - 2; ++d) {
    batch_of_b *= b[d];
  }
  if (batch_of_b == 1 && b.rank() <= a.rank()) {
    for (int d = 0; d < a.rank() - 2; ++d) {
      sizes.rows *= a[d];
    }
    sizes.products.emplace_back();
    return sizes;
  }
  std::int64_t count = 1;
  for (int d = 0; d < y.rank() - 2; ++d) {
    count *= y[d];
  }
  const auto matrix_of = [&](const Shape& shape, std::int64_t index) {
    std::int64_t matrix = 0;
    std::int64_t step = 1;
    for (int d = y.rank() - 3; d >= 0; --d) {
      const int own = d - (y.rank() - shape.rank());
      if (own >= 0) {
        if (shape[own] != 1) matrix += index % y[d] * step;
        step *= shape[own];
      }
      index /= y[d];
    }
    return matrix;
  };
  for (std::int64_t i = 0; i < count; ++i) {
    sizes.products.push_back(
        {matrix_of(a, i) * sizes.rows, matrix_of(b, i) * sizes.depth * sizes.columns});
  }
  return sizes;
}

class MatMulIntegerKernel final : public Kernel {
 public:
  MatMulIntegerKernel(const OpCall& call, int device_threads)
      : sizes_(sizes_of(call)),
        a_rows_(call.inputs[0].shape.element_count() / std::max<std::int64_t>(sizes_.depth, 1)),
        a_signed_(call.inputs[0].dtype == DType::i8),
        b_signed_(call.inputs[1].dtype == DType::i8),
        a_zeros_(row_zeros(call, 0)),
        b_zeros_(row_zeros(call, 1)),
        place_(call.inputs.size()),
        panels_(ceil_div(sizes_.columns, fns_.columns)) {
    const auto products = static_cast<double>(call.outputs[0].shape.element_count()) *
                          static_cast<double>(sizes_.depth);
    threads_ = threads_for(products * kNanosecondsPerIntegerProduct, device_threads);
    a_bytes_ = round_up(a_rows_ * even(sizes_.depth) * 2, std::int64_t{64});
    const std::int64_t rows = std::min(even(sizes_.depth), kPanelDepth) + 2;
    thread_bytes_ = round_up(rows * fns_.columns * 2, std::int64_t{64});
  }

  void run(std::byte* const* operands, std::byte* scratch) override {
    auto* c = reinterpret_cast<std::int32_t*>(operands[place_]);
    if (sizes_.depth == 0) {
      const auto products = static_cast<std::int64_t>(sizes_.products.size());
      std::fill_n(c, products * sizes_.rows * sizes_.columns, 0);
      return;
    }
    auto* a = reinterpret_cast<std::int16_t*>(scratch);
    widen_rows(fns_, operands[0], a_signed_, a_zeros_, operands, a_rows_, sizes_.depth, a);
    const auto count = static_cast<std::int64_t>(sizes_.products.size()) * panels_;
    parallel_for(threads_, count, [&](int thread, std::int64_t begin, std::int64_t end) {
      std::byte* own = scratch + a_bytes_ + thread * thread_bytes_;
      for (std::int64_t i = begin; i < end; ++i) {
        run_panel(operands, a, c, i / panels_, i % panels_, reinterpret_cast<std::int16_t*>(own));
      }
    });
  }
  std::int64_t scratch_bytes() const override { return a_bytes_ + thread_bytes_ * threads_; }
  int threads() const override { return threads_; }
  std::string_view name() const override { return "highway:matmul_integer"; }

 private:
  void run_panel(std::byte* const* operands, const std::int16_t* a, std::int32_t* c,
                 std::int64_t index, std::int64_t panel, std::int16_t* own) const {
    const Product& product = sizes_.products[static_cast<std::size_t>(index)];
    const std::int64_t column = panel * fns_.columns;
    const std::int64_t count = std::min(fns_.columns, sizes_.columns - column);
    const std::int64_t stride = even(sizes_.depth);
    std::int16_t* lines = own + 2 * fns_.columns;
    for (std::int64_t first = 0; first < sizes_.depth; first += kPanelDepth) {
      const std::int64_t depth = std::min(kPanelDepth, sizes_.depth - first);
      const std::byte* b = operands[1] + product.second + first * sizes_.columns + column;
      for (std::int64_t k = 0; k < depth; k += 2, b += 2 * sizes_.columns) {
        widen_line(operands, b, column, count, own);
        if (k + 1 < depth) {
          widen_line(operands, b + sizes_.columns, column, count, own + fns_.columns);
        } else {
          std::fill_n(own + fns_.columns, count, std::int16_t{0});
        }
        fns_.interleave(own, own + fns_.columns, count, lines + k * fns_.columns);
      }
      fns_.multiply(a + product.first_row * stride + first, sizes_.rows, stride, lines, even(depth),
                    c + index * sizes_.rows * sizes_.columns + column, sizes_.columns, count,
                    first > 0);
    }
  }

  void widen_line(std::byte* const* operands, const std::byte* from, std::int64_t column,
                  std::int64_t count, std::int16_t* to) const {
    if (b_zeros_.period == 1) {
      fns_.widen(from, b_signed_, b_zeros_.at(operands, 0), to, count);
      return;
    }
    fns_.widen(from, b_signed_, 0, to, count);
    for (std::int64_t j = 0; j < count; ++j) {
      to[j] = static_cast<std::int16_t>(to[j] - b_zeros_.at(operands, column + j));
    }
  }

  IntegerPanels fns_ = integer_panels();
  Sizes sizes_;
  std::int64_t a_rows_;
  bool a_signed_, b_signed_;
  RowZeros a_zeros_, b_zeros_;
  std::size_t place_;
  std::int64_t panels_;
  int threads_ = 1;
  std::int64_t a_bytes_ = 0;
  std::int64_t thread_bytes_ = 0;
};

std::string why_not_matmul(const OpCall& call) {
  if (std::string reason = why_no_integer_product(call); !reason.empty()) return reason;
  if (call.attributes.integer("transpose_a") != 0 || call.attributes.integer("transpose_b") != 0) {
    return "a transposed operand";
  }
  const Shape& a = call.inputs[0].shape;
  const Shape& b = call.inputs[1].shape;
  if (a.rank() < 2 || b.rank() < 2) return "a vector";
  const auto zeros_of = [&](std::size_t place) {
    const bool present = place < call.inputs.size() && call.inputs[place].present;
    return present ? call.inputs[place].shape : Shape();
  };
  // Rows of the first operand, then columns of the second.
  const Shape a_zeros = zeros_of(2);
  if (const std::int64_t count = a_zeros.element_count(); count != 1) {
    const std::int64_t rows = a[a.rank() - 2];
    const bool by_row =
        a_zeros.rank() >= 2 && a_zeros[a_zeros.rank() - 1] == 1 &&
        (count == rows || a_zeros.element_count() * a[a.rank() - 1] == a.element_count());
    if (!by_row) return "zero points other than one for all or for each row";
  }
  const Shape b_zeros = zeros_of(3);
  if (b_zeros.element_count() != 1 && b_zeros[b_zeros.rank() - 1] != b_zeros.element_count()) {
    return "zero points other than one for all or for each column";
  }
  return "";
}

}  // namespace

KernelOffer offer_matmul_integer(const OpCall& call, const KernelContext& context) {
  if (std::string reason = why_not_matmul(call); !reason.empty()) return {nullptr, reason};
  return {std::make_unique<MatMulIntegerKernel>(call, context.threads), ""};
}

}  // namespace tilemesh::cpu::highway
