#include "backends/cpu/kernels/dnnl/in_place_pass.hpp"

#include <utility>

namespace tilemesh::cpu::onednn {
namespace {

/// The post-ops [begin, end).
PostOps part_of(const PostOps& post_ops, int begin, int end) {
  PostOps part;
  for (int index = begin; index < end; ++index) {
    if (post_ops.ops.kind(index) == dnnl::primitive::kind::eltwise) {
      float scale = 1;
      float alpha = 0;
      float beta = 0;
      dnnl::algorithm kind{};
      post_ops.ops.get_params_eltwise(index, scale, kind, alpha, beta);
      part.ops.append_eltwise(scale, kind, alpha, beta);
    } else {
      dnnl::algorithm kind{};
      dnnl::memory::desc desc;
      post_ops.ops.get_params_binary(index, kind, desc);
      part.ops.append_binary(kind, desc);
    }
  }
  for (PostOps::Binary binary : post_ops.binaries) {
    if (binary.index >= begin && binary.index < end) {
      binary.index -= begin;
      part.binaries.push_back(binary);
    }
  }
  return part;
}

}  // namespace

void InPlacePass::add(KernelBuilder& builder, const OpCall& call, const OpCall& planned,
                      int image) const {
  std::vector<KernelBuilder::Argument> arguments{
      {DNNL_ARG_SRC_0, image},
      {DNNL_ARG_SRC_1, operand.slot(builder, call, planned)},
      {DNNL_ARG_DST, image}};
  rest.add_arguments(builder, call, planned, arguments);
  if (may_lose_nan(kind)) {
    builder.look_for_nan();
  }
  builder.add(dnnl::binary(desc), desc, std::move(arguments));
}

InPlacePass make_pass(dnnl::algorithm kind, PostOps::Binary operand, PostOps rest,
                      const dnnl::memory::desc& image) {
  const dnnl::binary::desc desc(kind, image, operand.desc, image);
  const dnnl::binary::primitive_desc primitive(desc, attributes_with(rest.ops), cpu_engine());
  refuse_reference(primitive);
  return {kind, primitive, std::move(operand), std::move(rest)};
}

SplitPostOps split_at_operand(const PostOps& post_ops, const dnnl::memory::desc& image) {
  if (post_ops.binaries.empty()) {
    return {post_ops, std::nullopt};
  }
  const PostOps::Binary& first = post_ops.binaries.front();
  dnnl::algorithm kind{};
  dnnl::memory::desc desc;
  post_ops.ops.get_params_binary(first.index, kind, desc);
  PostOps head = part_of(post_ops, 0, first.index);
  head.bias_operand = post_ops.bias_operand;
  return {std::move(head),
          make_pass(kind, first, part_of(post_ops, first.index + 1, post_ops.ops.len()), image)};
}

}  // namespace tilemesh::cpu::onednn
