#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "tilemesh/base/error.hpp"
#include "tilemesh/base/math.hpp"

#include "attribute_form.hpp"
#include "elements.hpp"
#include "tables.hpp"

/// ONNX NonMaxSuppression 10 and 11. Its number of results depends on the data: as the ops of
/// bounded.cpp it gives room for all that there can be, filled up with -1, and a count.
namespace tilemesh::ops {
namespace {

enum Input : std::size_t { kBoxes, kScores, kOverlap, kScore };

void canonical_suppression(AttributeForm& form) {
  form.integer("max_per_class", {.fallback = 0, .min = 0});
  form.flag("centers", false);
}

/// [batch, classes, boxes] of a call.
struct Sizes {
  std::int64_t batch, classes, boxes, most;
};

Sizes sizes_of(const OpCall& call) {
  const Shape& scores = call.inputs[kScores].shape;
  return {scores[0], scores[1], scores[2],
          std::min(call.attributes.integer("max_per_class"), scores[2])};
}

std::vector<OperandType> infer_suppression(const OpCall& call) {
  require_type(call, kBoxes, Types::real);
  require_type(call, kScores, Types::real);
  require_rank(call, kScores, 3);
  const Sizes sizes = sizes_of(call);
  require_shape(call, kBoxes, Shape{sizes.batch, sizes.boxes, 4}, "batch, boxes, corners");
  for (const std::size_t threshold : {kOverlap, kScore}) {
    if (!has_input(call, threshold)) continue;
    require_type(call, threshold, Types::real);
    if (call.inputs[threshold].shape.element_count() != 1) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("input {} wants one number, got {}", threshold,
                              call.inputs[threshold].shape.to_string()));
    }
  }
  const std::int64_t most = checked_mul(checked_mul(sizes.batch, sizes.classes), sizes.most);
  return {rows(DType::i64, Shape{most, 3}), rows(DType::i64, Shape{})};
}

struct Box {
  float left, top, right, bottom;
  float area() const { return (right - left) * (bottom - top); }
};

Box box_at(const float* corners, bool centers) {
  if (centers) {
    const float x = corners[0], y = corners[1], width = corners[2] / 2, height = corners[3] / 2;
    return {x - width, y - height, x + width, y + height};
  }
  return {std::min(corners[1], corners[3]), std::min(corners[0], corners[2]),
          std::max(corners[1], corners[3]), std::max(corners[0], corners[2])};
}

bool overlap(const Box& a, const Box& b, float threshold) {
  const float width = std::min(a.right, b.right) - std::max(a.left, b.left);
  const float height = std::min(a.bottom, b.bottom) - std::max(a.top, b.top);
  if (!(width > 0) || !(height > 0)) return false;
  const float shared = width * height;
  const float all = a.area() + b.area() - shared;
  if (!(shared > 0) || !(a.area() > 0) || !(b.area() > 0) || !(all > 0)) return false;
  return shared / all > threshold;
}

/// Goes through the classes of a call; keeps its room.
class Suppression {
 public:
  Suppression(const OpCall& call, Inputs inputs)
      : sizes_(sizes_of(call)),
        boxes_(inputs[kBoxes], call.inputs[kBoxes]),
        scores_(inputs[kScores], call.inputs[kScores]) {
    const bool centers = call.attributes.integer("centers") != 0;
    for (std::int64_t i = 0; i < sizes_.batch * sizes_.boxes; ++i) {
      all_.push_back(box_at(boxes_.data() + i * 4, centers));
    }
    if (has_input(call, kOverlap)) {
      threshold_ = Loaded<float>(inputs[kOverlap], call.inputs[kOverlap])[0];
      if (!(threshold_ >= 0 && threshold_ <= 1)) {
        throw Error(ErrorCode::kernel_failed,
                    fmt::format("the threshold of overlaps is {}, outside [0,1]", threshold_));
      }
    }
    scored_ = has_input(call, kScore);
    if (scored_) least_ = Loaded<float>(inputs[kScore], call.inputs[kScore])[0];
  }

  /// The boxes of one class that stay, the best first.
  const std::vector<std::int64_t>& kept(std::int64_t batch, std::int64_t number) {
    const float* scores = scores_.data() + (batch * sizes_.classes + number) * sizes_.boxes;
    const Box* boxes = all_.data() + batch * sizes_.boxes;
    order_.clear();
    for (std::int64_t i = 0; i < sizes_.boxes; ++i) {
      if (!std::isnan(scores[i]) && (!scored_ || scores[i] > least_)) order_.push_back(i);
    }
    std::ranges::stable_sort(order_, std::greater<>(), [&](std::int64_t i) { return scores[i]; });
    kept_.clear();
    for (const std::int64_t i : order_) {
      if (std::ssize(kept_) == sizes_.most) break;
      const bool covered = std::ranges::any_of(
          kept_, [&](std::int64_t k) { return overlap(boxes[i], boxes[k], threshold_); });
      if (!covered) kept_.push_back(i);
    }
    return kept_;
  }

 private:
  Sizes sizes_;
  Loaded<float> boxes_, scores_;
  std::vector<Box> all_;
  std::vector<std::int64_t> order_, kept_;
  float threshold_ = 0, least_ = 0;
  bool scored_ = false;
};

void run_suppression(const OpCall& call, Inputs inputs, Outputs outputs) {
  const Sizes sizes = sizes_of(call);
  Suppression suppression(call, inputs);
  std::vector<std::int64_t> chosen;
  for (std::int64_t batch = 0; batch < sizes.batch; ++batch) {
    for (std::int64_t number = 0; number < sizes.classes; ++number) {
      for (const std::int64_t box : suppression.kept(batch, number)) {
        chosen.insert(chosen.end(), {batch, number, box});
      }
    }
  }
  const std::vector<std::int64_t> count{std::ssize(chosen) / 3};
  chosen.resize(static_cast<std::size_t>(sizes.batch * sizes.classes * sizes.most * 3), -1);
  if (has_output(call, outputs, 0)) store(chosen, call.outputs[0], outputs[0]);
  if (has_output(call, outputs, 1)) store(count, call.outputs[1], outputs[1]);
}

constexpr OpDef kOps[] = {
    {.name = "non_max_suppression",
     .min_inputs = 2,
     .max_inputs = 4,
     .min_outputs = 2,
     .max_outputs = 2,
     .canonical = canonical_suppression,
     .infer = infer_suppression,
     .factors = no_factors,
     .reference = run_suppression},
};

}  // namespace

std::span<const OpDef> suppression_ops() {
  return kOps;
}

}  // namespace tilemesh::ops
