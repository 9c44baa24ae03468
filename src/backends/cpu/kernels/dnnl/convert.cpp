#include "backends/cpu/kernels/dnnl/convert.hpp"

#include <fmt/format.h>

#include "backends/cpu/kernels/dnnl/descriptor.hpp"

namespace tilemesh::cpu::onednn {
namespace {

bool is_exact_pair(DType from, DType to) {
  return (from == DType::f32 && to == DType::bf16) || (from == DType::bf16 && to == DType::f32);
}

}  // namespace

std::unique_ptr<Kernel> make_convert(const OpCall& call, const KernelContext& context) {
  OperandType from = call.inputs[0];
  OperandType to = call.outputs[0];
  if (from.dtype == to.dtype) {
    require(!from.layout.is_rows() && !to.layout.is_rows(), "our transposes beat it on rows");
    from.dtype = to.dtype = carrier_of(from.dtype);
  } else {
    require(is_exact_pair(from.dtype, to.dtype),
            fmt::format("oneDNN converts {} to {} in a way of its own", to_string(from.dtype),
                        to_string(to.dtype)));
  }
  const double seconds = static_cast<double>(from.bytes() + to.bytes()) / kBytesPerSecond;
  const int threads = threads_for(seconds, context.threads);
  const ThreadLimit limit(threads);
  const dnnl::reorder::primitive_desc primitive(cpu_engine(), describe(from), cpu_engine(),
                                                describe(to), attributes_with());
  KernelBuilder builder(threads, context.threads);
  builder.add(dnnl::reorder(primitive), primitive,
              {{DNNL_ARG_FROM, builder.operand(0, describe(from))},
               {DNNL_ARG_TO, builder.operand(1, describe(to))}});
  return builder.finish(fmt::format("onednn:reorder:{}", implementation_of(primitive)));
}

}  // namespace tilemesh::cpu::onednn
