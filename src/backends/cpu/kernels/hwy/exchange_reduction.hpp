#pragma once

#include "tilemesh/device/host_exchange.hpp"

namespace tilemesh::cpu::highway {

/// As detail::plain_reduction, with vectors where there are some: the same bits, but of NaNs.
detail::ReduceFunction exchange_reduction(ReduceOp op, DType dtype);

}  // namespace tilemesh::cpu::highway
