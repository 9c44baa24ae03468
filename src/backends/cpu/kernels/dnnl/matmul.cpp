#include "backends/cpu/kernels/dnnl/matmul.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "tilemesh/base/math.hpp"

#include "backends/cpu/kernels/dnnl/descriptor.hpp"
#include "backends/cpu/same_memory.hpp"

namespace tilemesh::cpu::onednn {
namespace {

using dnnl::memory;

/// How the operands' dims become those of the primitive, which has a batch dim or none.
struct Problem {
  enum class Batch { none, flat, one, many };
  // none/flat: the batch is part of the rows, since one matrix serves all; one: all batch dims
  // become one; many: they stay, since they broadcast or lie in another order.
  Batch batch = Batch::flat;
  Shape a, b, y;                        // of equal rank, transposes not yet applied
  Layout a_layout, b_layout, y_layout;  // rows, but for some of many batch dims
  bool transpose_a = false;
  bool transpose_b = false;
};

std::int64_t product(const Shape& shape, int begin, int end) {
  std::int64_t result = 1;
  for (int dim = begin; dim < end; ++dim) {
    result = checked_mul(result, shape[dim]);
  }
  return result;
}

Shape fold_batch(const Shape& shape) {
  const int rank = shape.rank();
  return Shape{product(shape, 0, rank - 2), shape[rank - 2], shape[rank - 1]};
}

Shape fold_rows(const Shape& shape) {
  const int rank = shape.rank();
  return Shape{product(shape, 0, rank - 1), shape[rank - 1]};
}

/// Vectors as matrices, in numpy's way.
void add_vector_dims(const OpCall& call, Problem& problem) {
  problem.a = call.inputs[0].shape;
  problem.b = call.inputs[1].shape;
  Dims y = call.outputs[0].shape.sizes();
  require(problem.a.rank() > 0 && problem.b.rank() > 0, "a scalar operand");
  if (problem.a.rank() == 1) {
    require(!problem.transpose_a, "a transposed vector");
    problem.a = Shape{1, problem.a[0]};
    y.insert(y.size() - (problem.b.rank() > 1 ? 1 : 0), 1);
  }
  if (problem.b.rank() == 1) {
    require(!problem.transpose_b, "a transposed vector");
    problem.b = Shape{problem.b[0], 1};
    y.push_back(1);
  }
  problem.y = Shape(y);
}

/// Dims in another order than that of rows, as after a transpose that moved nothing.
bool is_permuted(const OperandType& type) {
  return type.shape.rank() > 2 && !type.layout.is_opaque() && type.layout.blocks().empty() &&
         !type.layout.is_rows();
}

bool has_permuted(const OpCall& call) {
  return is_permuted(call.inputs[0]) || is_permuted(call.inputs[1]) || is_permuted(call.outputs[0]);
}

/// All dims stay, so that each can have its own step.
void keep_layouts(const OpCall& call, Problem& problem) {
  const int rank = problem.y.rank();
  const auto layout_of = [&](const OperandType& type) {
    require(type.layout.is_rows() || (is_permuted(type) && type.shape.rank() == rank),
            "dims in another order, of fewer dims than the result");
    return type.layout;
  };
  problem.a_layout = layout_of(call.inputs[0]);
  problem.b_layout = layout_of(call.inputs[1]);
  problem.y_layout = layout_of(call.outputs[0]);
  problem.batch = Problem::Batch::many;
  // Not all of oneDNN's epilogues follow an operand over dims in another order.
  require(call.inputs.size() <= 2, "operands of an epilogue beside dims in another order");
}

Problem problem_of(const OpCall& call) {
  Problem problem;
  problem.transpose_a = call.attributes.integer("transpose_a") != 0;
  problem.transpose_b = call.attributes.integer("transpose_b") != 0;
  add_vector_dims(call, problem);
  const int rank = problem.y.rank();
  const bool one_matrix = product(problem.b, 0, problem.b.rank() - 2) == 1;
  const bool is_flat = rank == 2 || (one_matrix && !problem.transpose_a);
  if (is_flat) {
    problem.batch = rank == 2 ? Problem::Batch::none : Problem::Batch::flat;
    problem.a = rank == 2 ? problem.a : fold_rows(problem.a);
    problem.y = rank == 2 ? problem.y : fold_rows(problem.y);
    problem.b = Shape{problem.b[problem.b.rank() - 2], problem.b[problem.b.rank() - 1]};
    return problem;
  }
  problem.a = pad_rank(problem.a, rank);
  problem.b = pad_rank(problem.b, rank);
  if (has_permuted(call)) {
    keep_layouts(call, problem);
    return problem;
  }
  const bool is_same_batch = std::equal(problem.a.begin(), problem.a.end() - 2, problem.b.begin());
  problem.batch = is_same_batch ? Problem::Batch::one : Problem::Batch::many;
  if (is_same_batch) {
    problem.a = fold_batch(problem.a);
    problem.b = fold_batch(problem.b);
    problem.y = fold_batch(problem.y);
  }
  return problem;
}

memory::desc transposed(const memory::desc& desc, bool transpose) {
  if (!transpose) {
    return desc;
  }
  std::vector<int> axes(static_cast<std::size_t>(desc.data.ndims));
  for (std::size_t axis = 0; axis < axes.size(); ++axis) {
    axes[axis] = static_cast<int>(axis);
  }
  std::swap(axes[axes.size() - 1], axes[axes.size() - 2]);
  return desc.permute_axes(axes);
}

/// The post-op's view of an operand that broadcasts to the call's output.
Shape operand_shape(const OpCall& call, const Problem& problem, const OperandType& operand) {
  const Shape& output = call.outputs[0].shape;
  require(operand.shape.rank() <= output.rank(), "an operand of more dims than the output");
  const Shape shape = pad_rank(operand.shape, output.rank());
  if (shape.element_count() == 1) {
    return pad_rank(Shape{}, problem.y.rank());
  }
  if (problem.batch == Problem::Batch::none || problem.batch == Problem::Batch::many) {
    return output.rank() == problem.y.rank() ? shape : pad_rank(shape, problem.y.rank());
  }
  const int kept = problem.batch == Problem::Batch::flat ? 1 : 2;
  const int folded = shape.rank() - kept;
  const bool whole = std::equal(shape.begin(), shape.begin() + folded, output.begin());
  require(
      whole || product(shape, 0, folded) == 1,
      fmt::format("an operand {} broadcasts along some of the dims that are folded into one of {}",
                  operand.shape.to_string(), output.to_string()));
  return kept == 1 ? fold_rows(shape) : fold_batch(shape);
}

PostOpRules matmul_rules(const OpCall& call, const Problem& problem) {
  const bool has_vector = call.inputs[0].shape.rank() == 1 || call.inputs[1].shape.rank() == 1;
  const DType dtype = call.outputs[0].dtype;
  PostOpRules rules;
  rules.describe = [&call, &problem, has_vector, dtype](const OperandType& operand) {
    require(operand.dtype == DType::f32 || operand.dtype == dtype, "of another element type");
    require(operand.layout.is_rows(), "the operand isn't in rows");
    require(!has_vector || operand.shape.element_count() == 1, "an operand of a vector product");
    return describe(operand.dtype, operand_shape(call, problem, operand), Layout::rows());
  };
  rules.is_bias = [&call, &problem, has_vector](const OperandType& operand) {
    const std::int64_t columns = problem.y[problem.y.rank() - 1];
    const int rank = operand.shape.rank();
    return !has_vector && operand.dtype == DType::f32 && operand.layout.is_rows() && rank > 0 &&
           rank <= call.outputs[0].shape.rank() && operand.shape[rank - 1] == columns &&
           operand.shape.element_count() == columns;
  };
  return rules;
}

struct Plan {
  Problem problem;
  memory::desc weights;  // as given
  dnnl::matmul::primitive_desc desc;
  PostOps post_ops;
};

memory::desc weights_desc(const OperandType& operand, const Problem& problem) {
  if (operand.layout == problem.b_layout) {
    return transposed(describe(operand.dtype, problem.b, operand.layout), problem.transpose_b);
  }
  require(operand.shape == problem.b, "the second operand is blocked and has batch dims");
  return transposed(describe(operand), problem.transpose_b);
}

void check_dtypes(const OpCall& call) {
  const DType dtype = call.inputs[0].dtype;
  require(dtype == DType::f32 || dtype == DType::bf16, "only f32 and bf16 are computed in oneDNN");
  require(dtype != DType::bf16 || has_bf16(), "this processor has no bf16 arithmetic");
  require(call.inputs[1].dtype == dtype && call.outputs[0].dtype == dtype, "mixed element types");
}

// oneDNN's favourite block of 64 columns wastes a quarter of 96; narrower ones are as fast.
bool is_padded(const memory::desc& weights) {
  const memory::dims dims = weights.dims();
  const auto plain = static_cast<std::size_t>(dims[0] * dims.back()) *
                     static_cast<std::size_t>(memory::data_type_size(weights.data_type()));
  return dims.size() == 2 && weights.data_type() == memory::data_type::f32 &&
         weights.get_size() > plain + plain / 8;
}

memory::format_tag narrow_tag(memory::dim columns) {
  return columns % 48 == 0   ? memory::format_tag::BA16a48b
         : columns % 32 == 0 ? memory::format_tag::BA16a32b
                             : memory::format_tag::BA16a16b;
}

Plan plan_matmul(const OpCall& call, bool any_weights) {
  check_dtypes(call);
  const DType dtype = call.inputs[0].dtype;
  Plan plan;
  plan.problem = problem_of(call);
  const Problem& problem = plan.problem;
  require(call.inputs[0].layout == problem.a_layout && call.outputs[0].layout == problem.y_layout,
          "the first operand and the result are wanted in rows");
  plan.weights = weights_desc(call.inputs[1], problem);
  plan.post_ops = post_ops_for(call, matmul_rules(call, problem));
  memory::desc bias;
  if (plan.post_ops.bias_operand != PostOps::kNone) {
    memory::dims dims(static_cast<std::size_t>(problem.y.rank()), 1);
    dims.back() = problem.y[problem.y.rank() - 1];
    bias = describe(DType::f32, Shape(std::span<const std::int64_t>(dims)), Layout::rows());
  }
  const auto desc_with = [&](const memory::desc& weights) {
    const dnnl::matmul::desc desc(
        transposed(describe(dtype, problem.a, problem.a_layout), problem.transpose_a), weights,
        bias, describe(dtype, problem.y, problem.y_layout));
    return dnnl::matmul::primitive_desc(desc, attributes_with(plan.post_ops.ops), cpu_engine());
  };
  plan.desc = desc_with(
      any_weights ? memory::desc(plan.weights.dims(), data_type(dtype), memory::format_tag::any)
                  : plan.weights);
  refuse_reference(plan.desc);
  if (any_weights && is_padded(plan.desc.weights_desc())) {
    const auto tag = narrow_tag(plan.weights.dims().back());
    const auto narrow = desc_with(memory::desc(plan.weights.dims(), data_type(dtype), tag));
    if (implementation_of(narrow) == implementation_of(plan.desc)) plan.desc = narrow;
  }
  require(!has_permuted(call) || implementation_of(plan.desc).starts_with("brg"),
          "only oneDNN's brgemm is fast with dims in another order");
  return plan;
}

std::unique_ptr<Kernel> build_matmul(const OpCall& call, const Plan& plan,
                                     const KernelContext& context, int threads) {
  KernelBuilder builder(threads, context.threads);
  std::vector<KernelBuilder::Argument> arguments{
      {DNNL_ARG_SRC, builder.operand(0, plan.desc.src_desc())},
      {DNNL_ARG_WEIGHTS, builder.input(1, plan.weights, plan.desc.weights_desc())},
      {DNNL_ARG_DST, builder.operand(call.inputs.size(), plan.desc.dst_desc())}};
  if (plan.post_ops.bias_operand != PostOps::kNone) {
    arguments.push_back(
        {DNNL_ARG_BIAS, builder.operand(static_cast<std::size_t>(plan.post_ops.bias_operand),
                                        plan.desc.bias_desc())});
  }
  plan.post_ops.add_arguments(builder, call, call, arguments);
  builder.add(dnnl::matmul(plan.desc), plan.desc, std::move(arguments));
  return builder.finish(fmt::format("onednn:matmul:{}", implementation_of(plan.desc)), &call);
}

}  // namespace

void check_matmul_fusion(const OpCall& call, bool ask_library) {
  OpCall plain = call;
  for (OperandType& input : plain.inputs) {
    input.layout = Layout::rows();
  }
  plain.outputs[0].layout = Layout::rows();
  if (ask_library) {
    plan_matmul(plain, false);
    return;
  }
  check_dtypes(plain);
  const Problem problem = problem_of(plain);
  post_ops_for(plain, matmul_rules(plain, problem));
}

std::string name_permuted_matmul(const OpCall& call) {
  return fmt::format("onednn:matmul:{}", implementation_of(plan_matmul(call, false).desc));
}

double matmul_flops(const OpCall& call) {
  const Shape& a = call.inputs[0].shape;
  const bool transpose = call.attributes.integer("transpose_a") != 0 && a.rank() > 1;
  const std::int64_t depth = a.rank() == 0 ? 1 : a[a.rank() - (transpose ? 2 : 1)];
  return 2.0 * static_cast<double>(depth) *
         static_cast<double>(call.outputs[0].shape.element_count());
}

std::unique_ptr<Kernel> make_matmul(const OpCall& call, const KernelContext& context) {
  const int threads = threads_for(matmul_flops(call) / kFlopsPerSecond, context.threads);
  const ThreadLimit limit(threads);
  if (call.inputs[1].layout.is_rows() || is_permuted(call.inputs[1])) {
    return build_matmul(call, plan_matmul(call, false), context, threads);
  }
  // A layout doesn't say all that oneDNN compares: what it would choose is tried first.
  Plan liked = plan_matmul(call, true);
  const OperandType& weights = call.inputs[1];
  const std::optional<Layout> layout =
      read_layout(transposed(liked.desc.weights_desc(), liked.problem.transpose_b));
  if (layout && same_memory(weights.shape, *layout, weights.layout)) {
    liked.weights = liked.desc.weights_desc();
  }
  return build_matmul(call, liked, context, threads);
}

WeightsChoice choose_matmul_weights(const OpCall& call) {
  OpCall plain = call;
  plain.inputs[1].layout = Layout::rows();
  const Plan plan = plan_matmul(plain, true);
  require(plain.inputs[1].shape == plan.problem.b, "the second operand has batch dims");
  const std::optional<Layout> layout =
      read_layout(transposed(plan.desc.weights_desc(), plan.problem.transpose_b));
  require(layout.has_value(), "the weights' layout can't be said");
  return {*layout, fmt::format("onednn:matmul:{}", implementation_of(plan.desc))};
}

}  // namespace tilemesh::cpu::onednn
