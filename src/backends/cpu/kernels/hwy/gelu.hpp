#pragma once

#include <cstdint>

namespace tilemesh::cpu::highway {

/// x becomes x/2 (1 + erf(x / sqrt(2))), in place, with an error of at most 4e-7 max(1, |x|): what
/// erf in f32 gives as well. The scalar op's function is exact in the negative tail, and three
/// times as slow.
using GeluFn = void (*)(float* x, std::int64_t count);
GeluFn fast_gelu();

}  // namespace tilemesh::cpu::highway
