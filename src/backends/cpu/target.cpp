#include "backends/cpu/target.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "backends/cpu/follow_rules.hpp"
#include "backends/cpu/kernel_list.hpp"
#include "backends/cpu/kernels/dnnl/kernels.hpp"
#include "backends/cpu/kernels/hwy/offers.hpp"
#include "backends/cpu/kernels/matmul_gemm.hpp"
#include "backends/cpu/prices.hpp"
#include "backends/cpu/same_memory.hpp"

namespace tilemesh::cpu {
namespace {

constexpr std::string_view kReferenceName = "reference";

bool is_convolution(std::string_view op) {
  return op == "conv" || op == "conv_transpose";
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
        add_permuted_matmul(call, found);
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

  DType arithmetic_type(DType dtype) const override {
    const bool is_wider = dtype == DType::f16 || (dtype == DType::bf16 && !isa_.bf16);
    return is_wider ? DType::f32 : dtype;
  }

  bool can_fuse(const OpCall& call, const ExpressionStep& step,
                const OperandType* operand) const override {
    constexpr std::size_t kMostMapInputs = 16;
    if (call.def->name == "map") {
      return call.inputs.size() < kMostMapInputs;
    }
    if (!call.def->takes_epilogue) {
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
                          prices_.weighted(onednn::flops_of(call), kReferenceName, rows));
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
    for (int block = std::max(8, isa_.vector_floats); block >= 8; block /= 2) {
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
        found.push_back(candidate_of(
            laid_out, choice->implementation,
            prices_.weighted(onednn::flops_of(call), choice->implementation, laid_out)));
      }
    }
  }

  /// Our own kernels, which read rows and take any epilogue.
  void add_own_convolution(const OpCall& call, std::vector<Candidate>& found) const {
    constexpr std::string_view kName = "highway:conv_windows";
    OpCall own = call;
    for (OperandType& input : own.inputs) {
      input.layout = Layout::rows();
    }
    for (const Layout& layout :
         {Layout::rows(), Layout::channels_last(call.outputs[0].shape.rank())}) {
      own.outputs[0].layout = layout;
      if (highway::offer_conv_windows(own, {.threads = info_.threads_per_device}).kernel) {
        found.push_back(candidate_of(own, std::string(kName),
                                     prices_.weighted(onednn::flops_of(call), kName, own)));
      }
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
          prices_.weighted(flops, "onednn:matmul:brg:", rows) + prices_.bytes(packing)));
    }
    const bool is_constant = constant_inputs.size() > 1 && constant_inputs[1];
    if (!is_constant) {
      return;
    }
    add_matmul_gemm(rows, found);
    if (const auto choice = choose_weights(rows); choice && !choice->layout.is_rows()) {
      OpCall packed = rows;
      packed.inputs[1].layout = choice->layout;
      found.push_back(candidate_of(packed, choice->implementation,
                                   prices_.weighted(flops, "onednn:matmul:brg:", rows)));
    }
  }

  /// Measured on processors that split 512-bit operations in two; others may have it otherwise.
  void add_matmul_gemm(const OpCall& rows, std::vector<Candidate>& found) const {
    constexpr std::string_view kName = "onednn:gemm";
    OpCall call = rows;
    call.inputs[1].layout = matmul_gemm_weights(call);
    if (isa_.vector_floats == 16 && splits_vectors(info_) &&
        why_no_matmul_gemm(call, info_.threads_per_device).empty()) {
      found.push_back(candidate_of(call, std::string(kName),
                                   prices_.weighted(onednn::flops_of(call), kName, call)));
    }
  }

  /// Products of batches with their operands as they lie, and with a result in which the dims
  /// before the last two stand behind the rows: transposes around attention have nothing to move
  /// then.
  void add_permuted_matmul(const OpCall& call, std::vector<Candidate>& found) const {
    const int rank = call.outputs[0].shape.rank();
    if (rank < 3 || !is_this_machine_) {
      return;
    }
    Layout::Order heads_inside = Layout::rows().order(rank);
    std::swap(heads_inside[static_cast<std::size_t>(rank - 3)],
              heads_inside[static_cast<std::size_t>(rank - 2)]);
    for (const Layout& a : {Layout::rows(), call.inputs[0].layout}) {
      for (const Layout& b : {Layout::rows(), call.inputs[1].layout}) {
        for (const Layout& y : {Layout::rows(), Layout(heads_inside, {})}) {
          add_permuted_matmul(call, {a, b, y}, found);
        }
      }
    }
  }

  void add_permuted_matmul(const OpCall& call, const std::array<Layout, 3>& layouts,
                           std::vector<Candidate>& found) const {
    constexpr double kStridedShare = 0.95;  // of the speed with matrices one after the other
    OpCall laid_out = call;
    for (OperandType& input : laid_out.inputs) {
      input.layout = Layout::rows();
    }
    laid_out.inputs[0].layout = layouts[0];
    laid_out.inputs[1].layout = layouts[1];
    laid_out.outputs[0].layout = layouts[2];
    const bool is_plain = std::ranges::all_of(layouts, &Layout::is_rows);
    const bool is_known = std::ranges::any_of(found, [&](const Candidate& candidate) {
      return candidate.inputs[0] == layouts[0] && candidate.inputs[1] == layouts[1] &&
             candidate.outputs[0] == layouts[2];
    });
    if (is_plain || is_known) {
      return;
    }
    if (const auto name = onednn::choose_permuted_matmul(laid_out)) {
      const double seconds = prices_.weighted(onednn::flops_of(call), *name, laid_out);
      found.push_back(
          candidate_of(laid_out, *name, layouts[1].is_rows() ? seconds : seconds / kStridedShare));
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
      if (!can_follow(call, layout)) {
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

  /// The kernel other than the reference that takes the call; nullopt if there is none.
  std::optional<std::string> accepting(const OpCall& call) const {
    if (!is_this_machine_) {
      const bool follows = call.def->scalar_fn >= 0 || call.def->name == "map" ||
                           call.def->name.find("pool") != std::string_view::npos;
      return follows ? std::optional<std::string>("follow") : std::nullopt;
    }
    for (const KernelEntry& entry : kernel_list(call.def->name)) {
      if (entry.name != kReferenceName &&
          ask(entry, call, {.threads = info_.threads_per_device}).kernel != nullptr) {
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
    const std::int64_t groups =
        is_convolution(call.def->name) ? call.attributes.integer("group") : 1;
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
  bool is_this_machine_;
};

}  // namespace

std::unique_ptr<Target> make_target(const TargetInfo& info) {
  return std::make_unique<CpuTarget>(info);
}

}  // namespace tilemesh::cpu
