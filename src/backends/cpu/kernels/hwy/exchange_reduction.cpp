#include "exchange_reduction.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/hwy/exchange_reduction.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "half-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace tilemesh::cpu::highway::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using detail::Reduction;

constexpr std::size_t kFew = 4;                // inputs that are read side by side
constexpr std::int64_t kBlockElements = 1024;  // with more inputs: what stays in the L1 cache

/// Elements that are added up as they are.
template <class T>
struct AsIs {
  using D = hn::ScalableTag<T>;
  using Word = T;
  static constexpr bool kVector = true;
  static HWY_INLINE hn::Vec<D> load(D d, const T* from) { return hn::LoadU(d, from); }
  static HWY_INLINE void store(D d, hn::Vec<D> v, T* to) { hn::StoreU(v, d, to); }
};

/// Elements that are added up in f32.
template <class Type>
struct Widened {
  using D = hn::ScalableTag<float>;
  using Word = std::uint16_t;
  static constexpr bool kVector = Type::kVector;
  static HWY_INLINE hn::Vec<D> load(D d, const Word* from) { return Type::widen(d, from); }
  static HWY_INLINE void store(D d, hn::Vec<D> v, Word* to) { Type::round(d, v, to); }
};

template <ReduceOp Op, class D, class V = hn::Vec<D>>
HWY_INLINE V combine(D, V a, V b) {
  if constexpr (Op == ReduceOp::sum || Op == ReduceOp::mean) {
    return hn::Add(a, b);
  } else if constexpr (Op == ReduceOp::prod) {
    return hn::Mul(a, b);
  } else if constexpr (!hwy::IsFloat<hn::TFromD<D>>()) {
    return Op == ReduceOp::max ? hn::Max(a, b) : hn::Min(a, b);
  } else {
    const auto first = Op == ReduceOp::max ? hn::Gt(a, b) : hn::Lt(a, b);
    return hn::IfThenElse(hn::Or(first, hn::IsNaN(a)), a, b);
  }
}

/// A few inputs, from element `begin` on. The first may be sums so far, the only output may be such
/// sums; `divisor` isn't 0 for the last step of a mean.
template <class Type>
struct Few {
  using Word = typename Type::Word;
  using Sum = hn::TFromD<typename Type::D>;

  std::array<const Word*, kFew> inputs{};
  std::size_t input_count = 0;
  const Sum* sums_in = nullptr;  ///< before the inputs
  std::array<Word*, 2> outputs{};
  std::size_t output_count = 0;
  Sum* sums_out = nullptr;  ///< instead of outputs
  Sum divisor = 0;
  bool streams = false;
};

template <ReduceOp Op, class Type>
HWY_INLINE hn::Vec<typename Type::D> sum_at(const Few<Type>& few, std::int64_t i) {
  const typename Type::D d;
  std::size_t k = few.sums_in == nullptr ? 1 : 0;
  auto sum = k == 0 ? hn::LoadU(d, few.sums_in + i) : Type::load(d, few.inputs[0] + i);
  for (; k < few.input_count; ++k) {
    sum = combine<Op>(d, sum, Type::load(d, few.inputs[k] + i));
  }
  if constexpr (Op == ReduceOp::mean) {
    if (few.divisor != 0) sum = hn::Div(sum, hn::Set(d, few.divisor));
  }
  return sum;
}

template <class Type, class V>
HWY_INLINE void put(const Few<Type>& few, std::int64_t i, V sum) {
  const typename Type::D d;
  if (few.sums_out != nullptr) {
    hn::StoreU(sum, d, few.sums_out + i);
    return;
  }
  for (std::size_t k = 0; k < few.output_count; ++k) {
    if constexpr (std::is_same_v<typename Type::Word, hn::TFromD<typename Type::D>>) {
      if (few.streams) {
        hn::Stream(sum, d, few.outputs[k] + i);
        continue;
      }
    }
    Type::store(d, sum, few.outputs[k] + i);
  }
}

/// The last elements, fewer than a vector has, by way of vectors in memory.
template <ReduceOp Op, class Type>
HWY_NOINLINE void reduce_rest(Few<Type> few, std::int64_t begin, std::int64_t count) {
  using Word = typename Type::Word;
  using Sum = typename Few<Type>::Sum;
  constexpr std::size_t kLanes = hn::MaxLanes(typename Type::D());
  const auto n = static_cast<std::size_t>(count);
  HWY_ALIGN Word in[kFew][kLanes] = {};
  HWY_ALIGN Word out[kLanes] = {};
  HWY_ALIGN Sum sums[kLanes] = {};
  const std::array<Word*, 2> outputs = few.outputs;
  Sum* const sums_out = few.sums_out;
  for (std::size_t k = 0; k < few.input_count; ++k) {
    std::memcpy(in[k], few.inputs[k] + begin, n * sizeof(Word));
    few.inputs[k] = in[k];
  }
  if (few.sums_in != nullptr) {
    std::memcpy(sums, few.sums_in + begin, n * sizeof(Sum));
    few.sums_in = sums;
  }
  few.streams = false;
  few.outputs[0] = out;
  few.sums_out = sums_out == nullptr ? nullptr : sums;
  const std::size_t output_count = std::exchange(few.output_count, 1);
  put(few, 0, sum_at<Op>(few, 0));
  if (sums_out != nullptr) {
    std::memcpy(sums_out + begin, sums, n * sizeof(Sum));
    return;
  }
  for (std::size_t k = 0; k < output_count; ++k) {
    std::memcpy(outputs[k] + begin, out, n * sizeof(Word));
  }
}

template <ReduceOp Op, class Type>
void reduce_few(const Few<Type>& few, std::int64_t count) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(typename Type::D()));
  std::int64_t i = 0;
  for (; i + 4 * lanes <= count; i += 4 * lanes) {
    const auto a = sum_at<Op>(few, i);
    const auto b = sum_at<Op>(few, i + lanes);
    const auto c = sum_at<Op>(few, i + 2 * lanes);
    const auto d = sum_at<Op>(few, i + 3 * lanes);
    put(few, i, a);
    put(few, i + lanes, b);
    put(few, i + 2 * lanes, c);
    put(few, i + 3 * lanes, d);
  }
  for (; i + lanes <= count; i += lanes) {
    put(few, i, sum_at<Op>(few, i));
  }
  if (i < count) reduce_rest<Op>(few, i, count - i);
}

/// Two inputs and as many outputs as members have them in pairs: the whole loop without a choice.
template <ReduceOp Op, class Type, bool kTwice, bool kStreams>
HWY_NOINLINE void reduce_pair(const Few<Type>& few, std::int64_t count) {
  const typename Type::D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto* const a = few.inputs[0];
  const auto* const b = few.inputs[1];
  auto* const x = few.outputs[0];
  auto* const y = few.outputs[kTwice ? 1 : 0];
  const auto half = hn::Set(d, static_cast<hn::TFromD<typename Type::D>>(0.5F));
  const auto sum_of = [&](std::int64_t i) HWY_ATTR {
    const auto sum = combine<Op>(d, Type::load(d, a + i), Type::load(d, b + i));
    if constexpr (Op == ReduceOp::mean) return hn::Mul(sum, half);  // as exact as dividing by 2
    return sum;
  };
  const auto write = [&](auto sum, std::int64_t i) HWY_ATTR {
    if constexpr (kStreams) {
      hn::Stream(sum, d, x + i);
      if constexpr (kTwice) hn::Stream(sum, d, y + i);
    } else {
      Type::store(d, sum, x + i);
      if constexpr (kTwice) Type::store(d, sum, y + i);
    }
  };
  std::int64_t i = 0;
  for (; i + 4 * lanes <= count; i += 4 * lanes) {
    const auto v0 = sum_of(i);
    const auto v1 = sum_of(i + lanes);
    const auto v2 = sum_of(i + 2 * lanes);
    const auto v3 = sum_of(i + 3 * lanes);
    write(v0, i);
    write(v1, i + lanes);
    write(v2, i + 2 * lanes);
    write(v3, i + 3 * lanes);
  }
  for (; i + lanes <= count; i += lanes) {
    write(sum_of(i), i);
  }
  if (i < count) reduce_rest<Op>(few, i, count - i);
}

template <ReduceOp Op, class Type>
void reduce_pair(const Few<Type>& few, std::int64_t count) {
  if constexpr (std::is_same_v<typename Type::Word, hn::TFromD<typename Type::D>>) {
    if (few.streams) {
      few.output_count == 2 ? reduce_pair<Op, Type, true, true>(few, count)
                            : reduce_pair<Op, Type, false, true>(few, count);
      return;
    }
  }
  few.output_count == 2 ? reduce_pair<Op, Type, true, false>(few, count)
                        : reduce_pair<Op, Type, false, false>(few, count);
}

template <class Word>
bool is_aligned(std::span<std::byte* const> pointers) {
  return std::ranges::all_of(pointers, [](const std::byte* pointer) {
    return reinterpret_cast<std::uintptr_t>(pointer) % 64 == 0;  // NOLINT: vectors are aligned so
  });
}

template <ReduceOp Op, class Type>
void reduce(const Reduction& reduction) {
  using Word = typename Type::Word;
  using Sum = typename Few<Type>::Sum;
  const std::size_t count = reduction.inputs.size();
  const std::size_t direct = std::min<std::size_t>(reduction.outputs.size(), 2);
  HWY_ALIGN Sum sums[kBlockElements];
  const bool at_once = count <= kFew && reduction.outputs.size() == direct;
  const std::int64_t block =
      at_once ? std::max<std::int64_t>(reduction.elements, 1) : kBlockElements;
  for (std::int64_t begin = 0; begin < reduction.elements; begin += block) {
    const std::int64_t some = std::min(block, reduction.elements - begin);
    for (std::size_t done = 0; done < count;) {
      Few<Type> few;
      few.sums_in = done == 0 ? nullptr : sums;
      few.input_count = std::min(kFew, count - done);
      for (std::size_t k = 0; k < few.input_count; ++k) {
        few.inputs[k] = reinterpret_cast<const Word*>(reduction.inputs[done + k]) + begin;
      }
      done += few.input_count;
      if (done < count) {
        few.sums_out = sums;
      } else {
        few.divisor = Op == ReduceOp::mean ? static_cast<Sum>(count) : Sum{0};
        few.output_count = direct;
        for (std::size_t k = 0; k < direct; ++k) {
          few.outputs[k] = reinterpret_cast<Word*>(reduction.outputs[k]) + begin;
        }
        few.streams = at_once && reduction.streams && is_aligned<Word>(reduction.outputs);
      }
      count == 2 ? reduce_pair<Op>(few, some) : reduce_few<Op>(few, some);
    }
    for (std::byte* const output : reduction.outputs.subspan(direct)) {
      std::memcpy(reinterpret_cast<Word*>(output) + begin,
                  reinterpret_cast<const Word*>(reduction.outputs[0]) + begin,
                  static_cast<std::size_t>(some) * sizeof(Word));
    }
  }
  if (reduction.streams) hwy::FlushStream();  // before others are told
}

template <class Type>
detail::ReduceFunction of_floats(ReduceOp op) {
  if constexpr (!Type::kVector) return nullptr;
  switch (op) {
    case ReduceOp::sum: return reduce<ReduceOp::sum, Type>;
    case ReduceOp::max: return reduce<ReduceOp::max, Type>;
    case ReduceOp::min: return reduce<ReduceOp::min, Type>;
    case ReduceOp::mean: return reduce<ReduceOp::mean, Type>;
    case ReduceOp::prod: return reduce<ReduceOp::prod, Type>;
  }
  return nullptr;
}

/// Not all sizes can be multiplied.
template <class T>
detail::ReduceFunction of_integers(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum: return reduce<ReduceOp::sum, AsIs<T>>;
    case ReduceOp::max: return reduce<ReduceOp::max, AsIs<T>>;
    case ReduceOp::min: return reduce<ReduceOp::min, AsIs<T>>;
    default: return nullptr;
  }
}

}  // namespace
// NOLINTNEXTLINE(misc-use-internal-linkage): HWY_EXPORT needs its name
detail::ReduceFunction find_exchange_reduction([[maybe_unused]] ReduceOp op,
                                               [[maybe_unused]] DType dtype) {
#if HWY_TARGET == HWY_SCALAR
  return nullptr;
#else
  switch (dtype) {
    case DType::f32: return of_floats<AsIs<float>>(op);
    case DType::f64: return of_floats<AsIs<double>>(op);
    case DType::f16: return of_floats<Widened<AsHalf>>(op);
    case DType::bf16: return of_floats<Widened<AsBFloat16>>(op);
    case DType::i64: return of_integers<std::int64_t>(op);
    case DType::i32: return of_integers<std::int32_t>(op);
    case DType::i8: return of_integers<std::int8_t>(op);
    case DType::u8: return of_integers<std::uint8_t>(op);
    default: return nullptr;
  }
#endif
}
}  // namespace tilemesh::cpu::highway::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tilemesh::cpu::highway {
namespace {
HWY_EXPORT(find_exchange_reduction);
}  // namespace

detail::ReduceFunction exchange_reduction(ReduceOp op, DType dtype) {
  const detail::ReduceFunction found = HWY_DYNAMIC_DISPATCH(find_exchange_reduction)(op, dtype);
  return found != nullptr ? found : detail::plain_reduction(op, dtype);
}

}  // namespace tilemesh::cpu::highway
#endif
