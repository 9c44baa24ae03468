#include <algorithm>
#include <cstring>
#include <string>

#include <fmt/format.h>

#include "tilemesh/ops/derived.hpp"

#include "offers.hpp"
#include "region.hpp"

namespace tilemesh::cpu::highway {
namespace {

/// Copies regions of inputs to regions of outputs; then zeroes the outputs' padding.
class MovementKernel final : public Kernel {
 public:
  MovementKernel(const OpCall& call, int threads)
      : name_(fmt::format("highway:{}", call.def->name)), threads_(threads) {
    for (std::size_t i = 0; i < call.outputs.size(); ++i) {
      const OperandType& type = call.outputs[i];
      if (!type.present || !type.layout.has_padding(type.shape)) continue;
      padded_.push_back({call.inputs.size() + i, size_of(type.dtype), padding_of(type)});
    }
  }

  void add(const OpCall& call, std::size_t input, std::size_t output, const Region& region) {
    moves_.push_back({input, call.inputs.size() + output,
                      RegionCopy(call.inputs[input], call.outputs[output], region)});
  }

  void run(std::byte* const* operands, std::byte* /*scratch*/) override {
    for (const Move& move : moves_) {
      move.copy.run(operands[move.from], operands[move.to], threads_);
    }
    for (const Padded& padded : padded_) {
      fill_with_zeros(padded.boxes, padded.element_bytes, operands[padded.place]);
    }
  }
  int threads() const override {
    int most = 1;
    for (const Move& move : moves_) {
      most = std::max(most, move.copy.threads(threads_));
    }
    return most;
  }
  std::string_view name() const override { return name_; }

 private:
  struct Move {
    std::size_t from = 0;
    std::size_t to = 0;
    RegionCopy copy;
  };
  struct Padded {
    std::size_t place = 0;
    std::int64_t element_bytes = 1;
    std::vector<Box> boxes;
  };
  std::string name_;
  std::vector<Move> moves_;
  std::vector<Padded> padded_;
  int threads_;
};

/// Makes the kernel with `add_moves(kernel)`, which may throw Unsplittable.
template <class AddMoves>
KernelOffer offer_moves(const OpCall& call, const KernelContext& context,
                        const AddMoves& add_moves) {
  if (std::string reason = why_not(call); !reason.empty()) return {nullptr, reason};
  if (call.inputs[0].dtype != call.outputs[0].dtype) return {nullptr, "a change of dtype"};
  try {
    auto kernel = std::make_unique<MovementKernel>(call, context.threads);
    add_moves(*kernel);
    return {std::move(kernel), ""};
  } catch (const RegionCopy::Unsplittable& no) {
    return {nullptr, no.reason};
  }
}

std::size_t axis_of(const OpCall& call) {
  return static_cast<std::size_t>(call.attributes.integer("axis"));
}

/// Tensors of one rank, the source's dims of one index repeated where the target has more.
Region broadcast_region(const Shape& from, const Shape& to) {
  Region region = Region::whole(to);
  const int shift = to.rank() - from.rank();
  region.from_start.clear();
  for (int dim = 0; dim < to.rank(); ++dim) {
    Span& span = region.spans[static_cast<std::size_t>(dim)];
    const int own = dim - shift;
    span.from_dim = own < 0 || (from[own] == 1 && to[dim] != 1) ? -1 : own;
    if (own >= 0) region.from_start.push_back(0);
  }
  return region;
}

}  // namespace

KernelOffer offer_transpose(const OpCall& call, const KernelContext& context) {
  return offer_moves(call, context, [&](MovementKernel& kernel) {
    Region region = Region::whole(call.outputs[0].shape);
    const auto& order = call.attributes.integers("order");
    for (std::size_t dim = 0; dim < order.size(); ++dim) {
      region.spans[dim].from_dim = static_cast<int>(order[dim]);
    }
    kernel.add(call, 0, 0, region);
  });
}

KernelOffer offer_convert(const OpCall& call, const KernelContext& context) {
  if (call.inputs[0].dtype != call.outputs[0].dtype) return offer_cast(call, context);
  return offer_moves(call, context, [&](MovementKernel& kernel) {
    kernel.add(call, 0, 0, Region::whole(call.outputs[0].shape));
  });
}

KernelOffer offer_plain_convert(const OpCall& call, const KernelContext& context) {
  constexpr std::int64_t kSmallBytes = 4096;
  if (call.inputs[0].dtype != call.outputs[0].dtype) return {nullptr, "a change of dtype"};
  const OperandType& out = call.outputs[0];
  if (out.layout.has_padding(out.shape) && out.bytes() > kSmallBytes) {
    return {nullptr, "padding to be filled"};
  }
  return offer_convert(call, context);
}

KernelOffer offer_reshape(const OpCall& call, const KernelContext& context) {
  if (!call.inputs[0].layout.is_rows() || !call.outputs[0].layout.is_rows()) {
    return {nullptr, "a layout other than rows"};
  }
  OpCall flat = call;
  flat.inputs[0].shape = flat.outputs[0].shape = {call.outputs[0].shape.element_count()};
  return offer_convert(flat, context);
}

KernelOffer offer_concat(const OpCall& call, const KernelContext& context) {
  return offer_moves(call, context, [&](MovementKernel& kernel) {
    const std::size_t axis = axis_of(call);
    std::int64_t start = 0;
    for (std::size_t k = 0; k < call.inputs.size(); ++k) {
      Region region = Region::whole(call.inputs[k].shape);
      region.to_start[axis] = start;
      start += call.inputs[k].shape[static_cast<int>(axis)];
      kernel.add(call, k, 0, region);
    }
  });
}

KernelOffer offer_split(const OpCall& call, const KernelContext& context) {
  return offer_moves(call, context, [&](MovementKernel& kernel) {
    const std::size_t axis = axis_of(call);
    std::int64_t start = 0;
    for (std::size_t k = 0; k < call.outputs.size(); ++k) {
      Region region = Region::whole(call.outputs[k].shape);
      region.from_start[axis] = start;
      start += call.outputs[k].shape[static_cast<int>(axis)];
      if (call.outputs[k].present) kernel.add(call, 0, k, region);
    }
  });
}

KernelOffer offer_slice(const OpCall& call, const KernelContext& context) {
  return offer_moves(call, context, [&](MovementKernel& kernel) {
    Region region = Region::whole(call.outputs[0].shape);
    const std::vector<ops::Cut> cuts = ops::cuts_of(call);
    for (std::size_t d = 0; d < cuts.size(); ++d) {
      Span& span = region.spans[d];
      if (span.size > 0) region.from_start[d] = cuts[d].start;
      if (span.size > 1) span.from_step = cuts[d].step;
    }
    kernel.add(call, 0, 0, region);
  });
}

KernelOffer offer_expand(const OpCall& call, const KernelContext& context) {
  return offer_moves(call, context, [&](MovementKernel& kernel) {
    kernel.add(call, 0, 0, broadcast_region(call.inputs[0].shape, call.outputs[0].shape));
  });
}

KernelOffer offer_tile(const OpCall& call, const KernelContext& context) {
  return offer_moves(call, context, [&](MovementKernel& kernel) {
    const Shape& shape = call.inputs[0].shape;
    Region region = Region::whole(shape);
    const auto& repeats = call.attributes.integers("repeats");
    for (int dim = 0; dim < shape.rank(); ++dim) {
      const std::int64_t times = repeats[static_cast<std::size_t>(dim)];
      if (times != 1) region.spans.push_back({times, -1, 1, dim, shape[dim]});
    }
    kernel.add(call, 0, 0, region);
  });
}

KernelOffer offer_depth_to_space(const OpCall& call, const KernelContext& context) {
  return offer_moves(call, context, [&](MovementKernel& kernel) {
    const Shape& in = call.inputs[0].shape;
    const Shape& out = call.outputs[0].shape;
    const std::int64_t b = call.attributes.integer("blocksize");
    const bool row_first = call.attributes.text("mode") == "CRD";
    const std::int64_t channels = out[1];
    // DCR reads the channels as [b, b, c], CRD as [c, b, b].
    const std::int64_t c_step = row_first ? b * b : 1;
    const std::int64_t y_step = row_first ? b : b * channels;
    const std::int64_t x_step = row_first ? 1 : channels;
    Region region = Region::whole(in);
    region.spans = {{in[0], 0, 1, 0, 1},  {channels, 1, c_step, 1, 1}, {in[2], 2, 1, 2, b},
                    {b, 1, y_step, 2, 1}, {in[3], 3, 1, 3, b},         {b, 1, x_step, 3, 1}};
    kernel.add(call, 0, 0, region);
  });
}

KernelOffer offer_space_to_depth(const OpCall& call, const KernelContext& context) {
  return offer_moves(call, context, [&](MovementKernel& kernel) {
    const Shape& in = call.inputs[0].shape;
    const std::int64_t b = call.attributes.integer("blocksize");
    Region region = Region::whole(in);
    region.spans = {{in[0], 0, 1, 0, 1},     {in[1], 1, 1, 1, 1},     {in[2] / b, 2, b, 2, 1},
                    {b, 2, 1, 1, b * in[1]}, {in[3] / b, 3, b, 3, 1}, {b, 3, 1, 1, in[1]}};
    kernel.add(call, 0, 0, region);
  });
}

}  // namespace tilemesh::cpu::highway
