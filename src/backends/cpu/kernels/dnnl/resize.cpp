#include "backends/cpu/kernels/dnnl/resize.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "tilemesh/base/math.hpp"

#include "backends/cpu/kernels/dnnl/conv.hpp"
#include "backends/cpu/kernels/dnnl/descriptor.hpp"

namespace tilemesh::cpu::onednn {
namespace {

int threads_of(const OpCall& call, const KernelContext& context) {
  return threads_for(2 * static_cast<double>(call.outputs[0].bytes()) / kBytesPerSecond,
                     context.threads);
}

/// ONNX Resize's rule for one dim: the source position of an output index.
double source_position(const std::string& coordinate, double index, double scale,
                       std::int64_t input, std::int64_t output) {
  if (coordinate == "asymmetric") {
    return index / scale;
  }
  if (coordinate == "align_corners") {
    return output == 1 ? 0
                       : index * static_cast<double>(input - 1) / static_cast<double>(output - 1);
  }
  if (coordinate == "pytorch_half_pixel" && output == 1) {
    return 0;
  }
  return (index + 0.5) / scale - 0.5;
}

std::int64_t nearest(const std::string& mode, double position) {
  if (mode == "floor") {
    return static_cast<std::int64_t>(std::floor(position));
  }
  if (mode == "ceil") {
    return static_cast<std::int64_t>(std::ceil(position));
  }
  const double half =
      mode == "round_prefer_ceil" ? std::floor(position + 0.5) : std::ceil(position - 0.5);
  return static_cast<std::int64_t>(half);
}

bool is_known_coordinate(const std::string& coordinate) {
  constexpr std::string_view kKnown[] = {"half_pixel", "asymmetric", "align_corners",
                                         "pytorch_half_pixel"};
  return std::ranges::find(kKnown, coordinate) != std::end(kKnown);
}

struct ResizeRule {
  std::string coordinate;
  std::string nearest_mode;
  std::vector<double> scales;  // one per dim
};

ResizeRule rule_of(const OpCall& call) {
  const Shape& input = call.inputs[0].shape;
  const Shape& output = call.outputs[0].shape;
  ResizeRule rule{call.attributes.text_or("coordinate", "half_pixel"),
                  call.attributes.text_or("nearest_mode", "round_prefer_floor"),
                  {}};
  if (call.attributes.has("scales")) {
    rule.scales = call.attributes.numbers("scales");
  }
  if (rule.scales.empty()) {
    for (int dim = 0; dim < input.rank(); ++dim) {
      rule.scales.push_back(static_cast<double>(output[dim]) / static_cast<double>(input[dim]));
    }
  }
  return rule;
}

/// oneDNN takes the element under the centre of the output's.
bool takes_the_same_elements(const ResizeRule& rule, int dim, std::int64_t input,
                             std::int64_t output) {
  const double scale = rule.scales[static_cast<std::size_t>(dim)];
  const float ratio = static_cast<float>(output) / static_cast<float>(input);
  for (std::int64_t index = 0; index < output; ++index) {
    const double position =
        source_position(rule.coordinate, static_cast<double>(index), scale, input, output);
    const std::int64_t wanted =
        std::clamp<std::int64_t>(nearest(rule.nearest_mode, position), 0, input - 1);
    const float centre = (static_cast<float>(index) + 0.5F) / ratio - 0.5F;
    if (std::clamp<std::int64_t>(std::lround(centre), 0, input - 1) != wanted) {
      return false;
    }
  }
  return true;
}

bool has_half_pixel_centres(const ResizeRule& rule, int dim, std::int64_t input,
                            std::int64_t output) {
  const double scale = rule.scales[static_cast<std::size_t>(dim)];
  const bool is_half_pixel =
      rule.coordinate == "half_pixel" || (rule.coordinate == "pytorch_half_pixel" && output > 1);
  return is_half_pixel && scale * static_cast<double>(input) == static_cast<double>(output);
}

dnnl::algorithm check_resize(const OpCall& call) {
  const Shape& input = call.inputs[0].shape;
  const Shape& output = call.outputs[0].shape;
  const std::string mode = call.attributes.text_or("mode", "nearest");
  const ResizeRule rule = rule_of(call);
  require(input.rank() >= 3 && input.rank() <= 5, "not an image");
  require(input[0] == output[0] && input[1] == output[1], "images or channels are resized");
  require(mode == "nearest" || mode == "linear", fmt::format("the mode {}", mode));
  require(is_known_coordinate(rule.coordinate), fmt::format("coordinates {}", rule.coordinate));
  require(call.attributes.integer_or("antialias", 0) == 0, "antialias");
  for (int dim = 2; dim < input.rank(); ++dim) {
    const bool is_same = mode == "nearest"
                             ? takes_the_same_elements(rule, dim, input[dim], output[dim])
                             : has_half_pixel_centres(rule, dim, input[dim], output[dim]);
    require(is_same, fmt::format("coordinates {} from {} to {} differ from oneDNN's",
                                 rule.coordinate, input[dim], output[dim]));
  }
  return mode == "nearest" ? dnnl::algorithm::resampling_nearest
                           : dnnl::algorithm::resampling_linear;
}

}  // namespace

std::unique_ptr<Kernel> make_resize(const OpCall& call, const KernelContext& context) {
  require(call.epilogue.empty(), "an epilogue");
  require(call.inputs[0].dtype == DType::f32, "only f32");
  const dnnl::algorithm algorithm = check_resize(call);
  const int threads = threads_of(call, context);
  const ThreadLimit limit(threads);
  OperandType source = call.inputs[0];
  OperandType target = call.outputs[0];
  align_images(source, target);
  const dnnl::resampling_forward::desc desc(dnnl::prop_kind::forward_inference, algorithm,
                                            describe(source), describe(target));
  const dnnl::resampling_forward::primitive_desc primitive(desc, attributes_with(), cpu_engine());
  refuse_reference(primitive);
  return unary_kernel<dnnl::resampling_forward>(primitive, "resize", threads, context);
}

}  // namespace tilemesh::cpu::onednn
