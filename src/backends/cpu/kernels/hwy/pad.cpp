#include <algorithm>
#include <array>
#include <limits>
#include <string>

#include "tilemesh/ops/derived.hpp"

#include "nest.hpp"
#include "offers.hpp"
#include "region.hpp"

namespace tilemesh::cpu::highway {
namespace {

/// Copies the input into the middle of the output and one value around it.
class PadKernel final : public Kernel {
 public:
  PadKernel(const OpCall& call, int threads)
      : threads_(threads), element_bytes_(size_of(call.outputs[0].dtype)) {
    const Shape& in = call.inputs[0].shape;
    const Shape& out = call.outputs[0].shape;
    const auto& pads = call.attributes.integers("pads");
    Region middle = Region::whole(in);
    for (std::size_t dim = 0; dim < middle.spans.size(); ++dim) {
      const int d = static_cast<int>(dim);
      const std::int64_t begin = pads[dim];
      const std::int64_t first = std::max<std::int64_t>(begin, 0);
      const std::int64_t end = std::min(out[d], in[d] + begin);
      middle.from_start[dim] = first - begin;
      middle.to_start[dim] = first;
      middle.spans[dim].size = std::max<std::int64_t>(end - first, 0);
    }
    if (std::ranges::any_of(middle.spans, [](const Span& span) { return span.size == 0; })) {
      add_border(call, Region::whole(out));
    } else {
      add_borders(call, middle);
      middle_.emplace_back(call.inputs[0], call.outputs[0], middle);
    }
    has_value_ = call.inputs.size() > 1 && call.inputs[1].present;
    output_place_ = call.inputs.size();
    if (call.outputs[0].layout.has_padding(out)) padding_ = padding_of(call.outputs[0]);
  }

  void run(std::byte* const* operands, std::byte* /*scratch*/) override {
    static constexpr std::array<std::byte, 16> kZero{};
    const std::byte* value = has_value_ ? operands[1] : kZero.data();
    std::byte* output = operands[output_place_];
    for (const RegionCopy& copy : middle_) {
      copy.run(operands[0], output, threads_);
    }
    for (const RegionCopy& copy : borders_) {
      copy.run(value, output, threads_);
    }
    fill_with_zeros(padding_, element_bytes_, output);
  }
  int threads() const override {
    int most = 1;
    for (const std::vector<RegionCopy>* copies : {&middle_, &borders_}) {
      for (const RegionCopy& copy : *copies) {
        most = std::max(most, copy.threads(threads_));
      }
    }
    return most;
  }
  std::string_view name() const override { return "highway:pad"; }

 private:
  /// The border as boxes: within the middle in the dims before one, outside of it in that dim,
  /// anywhere in the dims behind.
  void add_borders(const OpCall& call, const Region& middle) {
    const Shape& out = call.outputs[0].shape;
    Region box = Region::whole(out);
    for (int d = 0; d < out.rank(); ++d) {
      const auto dim = static_cast<std::size_t>(d);
      const std::int64_t first = middle.to_start[dim];
      const std::int64_t end = first + middle.spans[dim].size;
      const std::array<std::array<std::int64_t, 2>, 2> sides = {{{0, first}, {end, out[d]}}};
      for (const auto& [from, to] : sides) {
        if (from == to) continue;
        box.to_start[dim] = from;
        box.spans[dim].size = to - from;
        add_border(call, box);
      }
      box.to_start[dim] = first;
      box.spans[dim].size = end - first;
    }
  }

  void add_border(const OpCall& call, Region box) {
    for (Span& span : box.spans) {
      span.from_dim = -1;
    }
    box.from_start.clear();
    const OperandType value{
        .dtype = call.outputs[0].dtype, .shape = {}, .layout = {}, .present = true};
    borders_.emplace_back(value, call.outputs[0], box);
  }

  std::vector<RegionCopy> middle_;
  std::vector<RegionCopy> borders_;
  std::vector<Box> padding_;
  bool has_value_ = false;
  std::size_t output_place_ = 0;
  int threads_;
  std::int64_t element_bytes_;
};

/// A run of output indices along one dim and where it reads: evenly, forwards, backwards or (step
/// 0) from one place.
struct Segment {
  std::int64_t to = 0;
  std::int64_t from = 0;
  std::int64_t step = 1;
  std::int64_t size = 0;
};

constexpr std::size_t kMostRegions = 256;

/// From index `i` of the padded dim on (it may be negative) as far as the input is read evenly.
Segment segment_at(std::string_view mode, std::int64_t i, std::int64_t size) {
  constexpr std::int64_t kOn = std::numeric_limits<std::int64_t>::max();
  const std::int64_t from = ops::padded_from(mode, i, size);
  const bool is_inside = i >= 0 && i < size;
  if (is_inside || mode == "wrap") return {.from = from, .step = 1, .size = size - from};
  if (mode == "edge") return {.from = from, .step = 0, .size = i < 0 ? -i : kOn};
  if (size == 1) return {.from = 0, .step = 0, .size = kOn};
  const bool descends = from != 0 && ops::padded_from(mode, i + 1, size) < from;
  return {.from = from, .step = descends ? -1 : 1, .size = descends ? from : size - from};
}

std::vector<Segment> segments_of(std::string_view mode, std::int64_t in, std::int64_t out,
                                 std::int64_t begin) {
  std::vector<Segment> segments;
  for (std::int64_t i = 0; i < out; i += segments.back().size) {
    segments.push_back(segment_at(mode, i - begin, in));
    segments.back().to = i;
    segments.back().size = std::min(segments.back().size, out - i);
    if (segments.size() > kMostRegions) throw RegionCopy::Unsplittable{"too many repetitions"};
  }
  return segments;
}

/// Reflecting, repeating and wrapping pads: one copy for each combination of the dims' segments.
class MirrorPadKernel final : public Kernel {
 public:
  MirrorPadKernel(const OpCall& call, int threads) : threads_(threads) {
    const Shape& in = call.inputs[0].shape;
    const Shape& out = call.outputs[0].shape;
    const auto& pads = call.attributes.integers("pads");
    const std::string& mode = call.attributes.text("mode");
    std::vector<Region> regions = {Region::whole(out)};
    for (int d = 0; d < out.rank(); ++d) {
      const auto dim = static_cast<std::size_t>(d);
      std::vector<Region> next;
      for (const Segment& segment : segments_of(mode, in[d], out[d], pads[dim])) {
        for (Region region : regions) {
          region.to_start[dim] = segment.to;
          region.from_start[dim] = segment.from;
          region.spans[dim].size = segment.size;
          region.spans[dim].from_step = segment.step;
          next.push_back(std::move(region));
        }
      }
      regions = std::move(next);
      if (regions.size() > kMostRegions) throw RegionCopy::Unsplittable{"too many repetitions"};
    }
    for (const Region& region : regions) {
      copies_.emplace_back(call.inputs[0], call.outputs[0], region);
    }
    if (call.outputs[0].layout.has_padding(out)) padding_ = padding_of(call.outputs[0]);
    element_bytes_ = size_of(call.outputs[0].dtype);
    output_place_ = call.inputs.size();
  }

  void run(std::byte* const* operands, std::byte* /*scratch*/) override {
    for (const RegionCopy& copy : copies_) {
      copy.run(operands[0], operands[output_place_], threads_);
    }
    fill_with_zeros(padding_, element_bytes_, operands[output_place_]);
  }
  int threads() const override {
    int most = 1;
    for (const RegionCopy& copy : copies_) {
      most = std::max(most, copy.threads(threads_));
    }
    return most;
  }
  std::string_view name() const override { return "highway:pad"; }

 private:
  std::vector<RegionCopy> copies_;
  std::vector<Box> padding_;
  std::size_t output_place_ = 0;
  int threads_;
  std::int64_t element_bytes_ = 1;
};

}  // namespace

KernelOffer offer_pad(const OpCall& call, const KernelContext& context) {
  if (std::string reason = why_not(call); !reason.empty()) return {nullptr, reason};
  if (call.outputs[0].shape.rank() == 0) return {nullptr, "a scalar"};
  try {
    if (call.attributes.text("mode") != "constant") {
      if (call.inputs[0].shape.element_count() == 0) return {nullptr, "no elements"};
      return {std::make_unique<MirrorPadKernel>(call, context.threads), ""};
    }
    return {std::make_unique<PadKernel>(call, context.threads), ""};
  } catch (const RegionCopy::Unsplittable& no) {
    return {nullptr, no.reason};
  }
}

}  // namespace tilemesh::cpu::highway
