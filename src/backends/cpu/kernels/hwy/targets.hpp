#pragma once

// The instruction sets that are worth their code: SSE4, AVX2 and AVX-512 on x86, what Highway
// chooses elsewhere; plain C++ is always among them. Included before any header of Highway.
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3_DL)
