#include "backends/cpu/target.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "backends/cpu/kernel_list.hpp"
#include "backends/cpu/kernels/dnnl/kernels.hpp"
#include "backends/cpu/kernels/hwy/offers.hpp"
#include "backends/cpu/prices.hpp"
#include "backends/cpu/same_memory.hpp"

namespace tilemesh::cpu {
namespace {

/// Ops whose output lies as their input does.
constexpr std::array<std::string_view, 15> kFollowers = {"average_pool",
                                                         "batch_normalization",
                                                         "cast",
                                                         "equal",
                                                         "global_average_pool",
                                                         "global_max_pool",
                                                         "greater",
                                                         "greater_or_equal",
                                                         "less",
                                                         "less_or_equal",
                                                         "lrn",
                                                         "map",
                                                         "max_pool",
                                                         "resize",
                                                         "where"};

/// Ops that move parts of images, which stay in blocks as long as no block is cut.
constexpr std::array<std::string_view, 4> kMovers = {"concat", "pad", "slice", "split"};

/// Shares of the peak that implementations reach, as measured; the first whose text the name holds.
struct Efficiency {
  std::string_view part;
  double share;
};
constexpr Efficiency kEfficiencies[] = {
    {"patches", 0.5},    {"conv_transpose", 0.3}, {"jit_dw", 0.4},
    {"brdgmm_dw", 0.35}, {"jit_1x1", 0.85},       {"brgconv", 0.82},
    {"gemm:", 0.25},     {":jit", 0.88},          {"brg:", 0.85},
};
constexpr double kUsualEfficiency = 0.25;
constexpr double kGroupedGemmEfficiency = 0.01;  // a matrix of one row a group
constexpr std::string_view kReferenceName = "reference";
constexpr double kReferenceEfficiency = 0.0003;

double efficiency_of(std::string_view implementation) {
  const auto* found = std::ranges::find_if(kEfficiencies, [&](const Efficiency& entry) {
    return implementation.find(entry.part) != std::string_view::npos;
  });
  return found == std::end(kEfficiencies) ? kUsualEfficiency : found->share;
}

/// A gemm of few pixels is slow: what is left of its speed.
double gemm_share(const Shape& output) {
  constexpr double kEnoughPixels = 64;
  const auto pixels = static_cast<double>(output.element_count() / (output[0] * output[1]));
  return std::min(1.0, (pixels + 12) / kEnoughPixels);
}

bool is_convolution(std::string_view op) {
  return op == "conv" || op == "conv_transpose";
}

bool is_mover(const OpDef& op) {
  return std::ranges::find(kMovers, op.name) != kMovers.end();
}

/// True if no block is cut: each blocked dim is the same in all images, or whole blocks in each.
bool keeps_blocks(const OpCall& call, const Layout& layout) {
  const Shape& first = call.inputs[0].shape;
  for (int dim = 0; dim < first.rank(); ++dim) {
    const std::int64_t block = layout.block_of(dim);
    bool is_same = true;
    bool is_whole = true;
    for (const auto* operands : {&call.inputs, &call.outputs}) {
      for (const OperandType& type : *operands) {
        if (type.present && type.shape.rank() == first.rank()) {
          is_same = is_same && type.shape[dim] == first[dim];
          is_whole = is_whole && type.shape[dim] % block == 0;
        }
      }
    }
    if (!is_same && !is_whole) {
      return false;
    }
  }
  return true;
}

bool is_follower(const OpDef& op) {
  return is_mover(op) || op.scalar_fn >= 0 ||
         std::ranges::find(kFollowers, op.name) != kFollowers.end();
}

/// How much more than the logical work a blocked layout does for the sake of its padding.
double padding_factor(const OperandType& operand) {
  const auto elements = static_cast<double>(operand.shape.element_count());
  return elements == 0
             ? 1
             : static_cast<double>(operand.layout.element_count(operand.shape)) / elements;
}

/// Processors that split a 512-bit operation in two lose little with 256-bit ones, and pad less.
double narrow_share(const TargetInfo& info) {
  return info.processor.find("AMD") != std::string::npos ? 0.96 : 0.5;
}

bool has_zero_size(const OpCall& call) {
  const auto is_empty = [](const OperandType& type) {
    return type.present && type.shape.element_count() == 0;
  };
  return std::ranges::any_of(call.inputs, is_empty) || std::ranges::any_of(call.outputs, is_empty);
}

class CpuTarget final : public Target {
 public:
  explicit CpuTarget(TargetInfo info)
      : info_(std::move(info)),
        prices_(info_),
        isa_(isa_of(info_)),
        narrow_share_(narrow_share(info_)),
        is_this_machine_(isa_ == isa_of_this_machine()) {}

  const TargetInfo& info() const override { return info_; }

  std::vector<Candidate> candidates(const OpCall& call,
                                    const std::vector<bool>& constant_inputs) const override {
    std::vector<Candidate> found;
    if (!has_zero_size(call)) {
      if (is_convolution(call.def->name)) {
        add_convolutions(call, found);
        if (call.def->name == "conv") add_own_convolution(call, found);
      } else if (call.def->name == "matmul") {
        add_matmul(call, constant_inputs, found);
      } else if (is_follower(*call.def)) {
        add_followers(call, found);
      }
      std::ranges::stable_sort(found, {}, &Candidate::seconds);
    }
    found.push_back(in_rows(call));
    return found;
  }

  double convert_seconds(const OperandType& from, const Layout& to) const override {
    if (same_memory(from.shape, from.layout, to)) {
      return 0;
    }
    OperandType target = from;
    target.layout = to;
    return 1e-6 + prices_.bytes(static_cast<double>(from.bytes() + target.bytes()));
  }

  bool can_fuse(const OpCall& call, const ExpressionStep& step,
                const OperandType* operand) const override {
    constexpr std::size_t kMostMapInputs = 16;
    if (call.def->name == "map") {
      return call.inputs.size() < kMostMapInputs;
    }
    if (!is_convolution(call.def->name) && call.def->name != "matmul") {
      return false;
    }
    OpCall grown = call;
    grown.epilogue.steps.push_back(step);
    const OperandType none{DType::f32, {}, {}, false};
    const auto own = static_cast<std::size_t>(call.def->max_inputs);
    grown.inputs.resize(std::max(grown.inputs.size(), own), none);
    for (int i = 0; i < arity(step.fn); ++i) {
      const int argument = step.arguments[static_cast<std::size_t>(i)];
      const auto index = static_cast<std::size_t>(argument - ExpressionStep::kOperand);
      if (argument >= ExpressionStep::kOperand && index >= grown.inputs.size()) {
        if (operand == nullptr) {
          return false;
        }
        grown.inputs.resize(index + 1, none);
        grown.inputs[index] = *operand;
      }
    }
    for (auto* operands : {&grown.inputs, &grown.outputs}) {
      for (OperandType& type : *operands) {
        type.layout = Layout::rows();
      }
    }
    return onednn::why_not_fused(grown, is_this_machine_).empty();
  }

 private:
  /// Layouts are named as plainly as they can, so that equal memory has equal names.
  static Candidate candidate_of(const OpCall& call, std::string implementation, double seconds) {
    Candidate candidate{std::move(implementation), {}, {}, seconds};
    for (const OperandType& input : call.inputs) {
      candidate.inputs.push_back(plain_layout(input.shape, input.layout));
    }
    for (const OperandType& output : call.outputs) {
      candidate.outputs.push_back(plain_layout(output.shape, output.layout));
    }
    return candidate;
  }

  /// The last resort, and the way of ops that don't care: a row-major kernel takes every call.
  Candidate in_rows(const OpCall& call) const {
    OpCall rows = call;
    for (auto* operands : {&rows.inputs, &rows.outputs}) {
      for (OperandType& type : *operands) {
        type.layout = Layout::rows();
      }
    }
    if (has_zero_size(call)) {
      return candidate_of(rows, std::string(kReferenceName), prices_.pass(rows));
    }
    if (onednn::flops_of(call) > 0) {  // whatever its kernel is, it isn't a good one
      return candidate_of(rows, "rows",
                          prices_.compute(onednn::flops_of(call), kReferenceEfficiency, rows));
    }
    return candidate_of(
        rows, accepting(rows).value_or(is_this_machine_ ? std::string(kReferenceName) : "rows"),
        prices_.pass(rows));
  }

  struct ImageLayouts {
    Layout source;
    Layout target;
  };
  std::vector<ImageLayouts> image_layouts(const OpCall& call) const {
    constexpr std::int64_t kMostPlainChannels = 4;  // that a first convolution reads well in rows
    const bool reads_rows = call.inputs[0].shape[1] <= kMostPlainChannels;
    std::vector<ImageLayouts> list;
    for (int block = isa_.vector_floats; block >= 8; block /= 2) {
      const Layout blocked = Layout::blocked(1, block);
      if (reads_rows) {
        list.push_back({{}, blocked});
      }
      list.push_back({blocked, blocked});
    }
    const Layout last = Layout::channels_last(call.outputs[0].shape.rank());
    list.push_back({last, last});
    list.push_back({{}, {}});
    return list;
  }

  double convolution_seconds(const OpCall& call, std::string_view implementation) const {
    double share = efficiency_of(implementation);
    const bool is_grouped = call.attributes.integer_or("group", 1) > 1;
    if (implementation.find("gemm:") != std::string_view::npos) {
      share = is_grouped ? kGroupedGemmEfficiency : share * gemm_share(call.outputs[0].shape);
    }
    if (isa_.vector_floats > 8 && implementation.ends_with(":avx2")) {
      share *= narrow_share_;
    }
    return prices_.compute(onednn::flops_of(call) * padding_factor(call.inputs[1]), share, call);
  }

  void add_convolutions(const OpCall& call, std::vector<Candidate>& found) const {
    for (const ImageLayouts& layouts : image_layouts(call)) {
      OpCall laid_out = call;
      laid_out.inputs[0].layout = layouts.source;
      laid_out.inputs[1].layout = Layout::rows();
      laid_out.outputs[0].layout = layouts.target;
      for (std::size_t i = 2; i < call.inputs.size(); ++i) {
        const bool is_image = i > 2 && call.inputs[i].shape == call.outputs[0].shape;
        laid_out.inputs[i].layout = is_image ? layouts.target : Layout::rows();
      }
      if (const auto choice = choose_weights(laid_out)) {
        laid_out.inputs[1].layout = choice->layout;
        found.push_back(candidate_of(laid_out, choice->implementation,
                                     convolution_seconds(laid_out, choice->implementation)));
      }
    }
  }

  /// Our own kernels, which read rows and take any epilogue.
  void add_own_convolution(const OpCall& call, std::vector<Candidate>& found) const {
    constexpr double kShare = 0.6;  // of the peak
    OpCall rows = call;
    for (auto* operands : {&rows.inputs, &rows.outputs}) {
      for (OperandType& type : *operands) {
        type.layout = Layout::rows();
      }
    }
    if (highway::offer_conv_windows(rows, {.threads = info_.threads_per_device}).kernel) {
      found.push_back(candidate_of(rows, "highway:conv_windows",
                                   prices_.compute(onednn::flops_of(call), kShare, rows)));
    }
  }

  void add_matmul(const OpCall& call, const std::vector<bool>& constant_inputs,
                  std::vector<Candidate>& found) const {
    OpCall rows = call;
    for (OperandType& input : rows.inputs) {
      input.layout = Layout::rows();
    }
    rows.outputs[0].layout = Layout::rows();
    const double flops = onednn::flops_of(call);
    const double packing = static_cast<double>(call.inputs[1].bytes()) / 2;
    if (onednn::why_not_fused(rows, is_this_machine_).empty()) {
      found.push_back(candidate_of(
          rows, "onednn:matmul",
          prices_.compute(flops, efficiency_of("brg:"), rows) + prices_.bytes(packing)));
    }
    const bool is_constant = constant_inputs.size() > 1 && constant_inputs[1];
    if (!is_constant) {
      return;
    }
    if (const auto choice = choose_weights(rows); choice && !choice->layout.is_rows()) {
      OpCall packed = rows;
      packed.inputs[1].layout = choice->layout;
      found.push_back(candidate_of(packed, choice->implementation,
                                   prices_.compute(flops, efficiency_of("brg:"), rows)));
    }
  }

  /// All operands of the output's size as one of them lies now.
  void add_followers(const OpCall& call, std::vector<Candidate>& found) const {
    std::vector<Layout> tried;
    for (const OperandType& input : call.inputs) {
      const Layout& layout = input.layout;
      if (!input.present || layout.is_rows() || layout.is_opaque() ||
          input.shape.rank() != call.outputs[0].shape.rank() ||
          std::ranges::find(tried, layout) != tried.end()) {
        continue;
      }
      tried.push_back(layout);
      if (is_mover(*call.def) && !keeps_blocks(call, layout)) {
        continue;
      }
      OpCall laid_out = call;
      for (std::size_t i = 0; i < call.inputs.size(); ++i) {
        if (lies_like_output(call, i)) {
          laid_out.inputs[i].layout = layout;
        }
      }
      for (OperandType& output : laid_out.outputs) {
        output.layout = layout;
      }
      if (std::optional<std::string> name = accepting(laid_out)) {
        found.push_back(candidate_of(laid_out, std::move(*name), prices_.pass(laid_out)));
      }
    }
  }

  /// Operands that broadcast stay as they are.
  static bool lies_like_output(const OpCall& call, std::size_t input) {
    const OperandType& type = call.inputs[input];
    if (!type.present || type.shape.rank() != call.outputs[0].shape.rank()) {
      return false;
    }
    return type.shape == call.outputs[0].shape || input == 0 || call.def->name == "concat";
  }

  /// The kernel other than the reference that takes the call; nullopt if there is none.
  std::optional<std::string> accepting(const OpCall& call) const {
    if (!is_this_machine_) {
      const bool follows = call.def->scalar_fn >= 0 || call.def->name == "map" ||
                           call.def->name.find("pool") != std::string_view::npos;
      return follows ? std::optional<std::string>("follow") : std::nullopt;
    }
    for (const KernelEntry& entry : kernel_list(call.def->name)) {
      if (entry.name != kReferenceName &&
          entry.offer(call, {.threads = info_.threads_per_device}).kernel != nullptr) {
        return std::string(entry.name);
      }
    }
    return std::nullopt;
  }

  std::optional<onednn::ConstantChoice> choose_weights(const OpCall& call) const {
    return is_this_machine_ ? onednn::choose_constant(call, info_.threads_per_device)
                            : usual_weights(call);
  }

  /// What oneDNN usually chooses, for a machine that isn't at hand.
  std::optional<onednn::ConstantChoice> usual_weights(const OpCall& call) const {
    const bool is_conv = call.def->name == "conv";
    const std::int64_t groups = call.attributes.integer_or("group", 1);
    const auto block = static_cast<std::int32_t>(call.outputs[0].layout.block_of(1));
    if (is_conv && block > 1) {
      const Layout blocked = Layout::blocked(1, block);
      if (groups == 1 && call.inputs[0].layout == blocked) {
        return onednn::ConstantChoice{1, Layout({}, {{1, block}, {0, block}}), "onednn:conv:jit"};
      }
      if (groups > 1 && call.inputs[1].shape[1] == 1 && call.inputs[1].shape[0] == groups &&
          call.inputs[0].layout == blocked) {
        return onednn::ConstantChoice{1, Layout::blocked(0, block), "onednn:conv:jit_dw"};
      }
    }
    const bool is_plain = call.inputs[0].layout.is_rows() && call.outputs[0].layout.is_rows();
    if (is_plain && is_convolution(call.def->name)) {
      return onednn::ConstantChoice{1, Layout::rows(), "onednn:conv:gemm:"};
    }
    return std::nullopt;
  }

  TargetInfo info_;
  Prices prices_;
  Isa isa_;
  double narrow_share_;  // what kernels of half the vector width reach of the others' speed
  bool is_this_machine_;
};

}  // namespace

std::unique_ptr<Target> make_target(const TargetInfo& info) {
  return std::make_unique<CpuTarget>(info);
}

}  // namespace tilemesh::cpu
