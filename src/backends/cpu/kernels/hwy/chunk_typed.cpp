#include <algorithm>
#include <cmath>
#include <functional>
#include <type_traits>

#include "tilemesh/types/dtype_traits.hpp"
#include "tilemesh/types/strided.hpp"

#include "chunk.hpp"

namespace tilemesh::cpu::highway {
namespace {

template <class T>
const T* input(const ChunkArgs& args, std::size_t k) {
  return reinterpret_cast<const T*>(args.in[k]);
}

/// Applies `F`'s call operator. Which inputs are uniform is settled outside the loop, so that the
/// compiler may vectorize it.
template <class T, class R, class F>
void binary(const ChunkArgs& args) {
  const T* x = input<T>(args, 0);
  const T* y = input<T>(args, 1);
  auto* z = reinterpret_cast<R*>(args.out);
  const std::int64_t count = args.count;
  switch (args.uniform) {
    case 0:
      for (std::int64_t i = 0; i < count; ++i)
        z[i] = static_cast<R>(F{}(x[i], y[i]));
      return;
    case 1: {
      const T first = *x;
      for (std::int64_t i = 0; i < count; ++i)
        z[i] = static_cast<R>(F{}(first, y[i]));
      return;
    }
    case 2: {
      const T second = *y;
      for (std::int64_t i = 0; i < count; ++i)
        z[i] = static_cast<R>(F{}(x[i], second));
      return;
    }
    default:
      if (count > 0) std::fill_n(z, count, static_cast<R>(F{}(*x, *y)));
  }
}

template <class T, class R, class F>
void unary(const ChunkArgs& args) {
  const T* x = input<T>(args, 0);
  auto* y = reinterpret_cast<R*>(args.out);
  if (args.uniform != 0) {
    if (args.count > 0) std::fill_n(y, args.count, static_cast<R>(F{}(*x)));
    return;
  }
  for (std::int64_t i = 0; i < args.count; ++i)
    y[i] = static_cast<R>(F{}(x[i]));
}

/// Integers wrap: they are added as unsigned ones at least as wide as int.
template <class T>
using Wrapping = std::conditional_t<std::is_floating_point_v<T>, T, std::uint64_t>;

struct Add {
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(static_cast<Wrapping<T>>(a) + static_cast<Wrapping<T>>(b));
  }
};
struct Sub {
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(static_cast<Wrapping<T>>(a) - static_cast<Wrapping<T>>(b));
  }
};
struct Mul {
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(static_cast<Wrapping<T>>(a) * static_cast<Wrapping<T>>(b));
  }
};
struct Div {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (std::is_floating_point_v<T>) {
      return a / b;
    } else {
      if (b == 0) throw Error(ErrorCode::kernel_failed, "integer division by zero");
      if constexpr (std::is_signed_v<T>) {
        if (b == -1) return Sub{}(T{0}, a);  // the lowest number's quotient wraps
      }
      return static_cast<T>(a / b);
    }
  }
};
struct Min {
  template <class T>
  T operator()(T a, T b) const {
    return a != a || a < b ? a : b;
  }
};
struct Max {
  template <class T>
  T operator()(T a, T b) const {
    return a != a || a > b ? a : b;
  }
};
struct Prelu {
  template <class T>
  T operator()(T x, T slope) const {
    return x < T{0} ? Mul{}(x, slope) : x;
  }
};
struct Identity {
  template <class T>
  T operator()(T x) const {
    return x;
  }
};
struct Neg {
  template <class T>
  T operator()(T x) const {
    if constexpr (std::is_floating_point_v<T>) return -x;
    return Sub{}(T{0}, x);
  }
};
struct Abs {
  template <class T>
  T operator()(T x) const {
    if constexpr (std::is_floating_point_v<T>) return std::abs(x);
    return x < T{0} ? Sub{}(T{0}, x) : x;
  }
};
struct Relu {
  template <class T>
  T operator()(T x) const {
    return x < T{0} ? T{0} : x;
  }
};
struct Sqrt {
  double operator()(double x) const { return std::sqrt(x); }
};

template <class T>
ChunkFn find_typed(ScalarFn fn) {
  switch (fn) {
    case ScalarFn::add: return binary<T, T, Add>;
    case ScalarFn::sub: return binary<T, T, Sub>;
    case ScalarFn::mul: return binary<T, T, Mul>;
    case ScalarFn::div: return binary<T, T, Div>;
    case ScalarFn::min: return binary<T, T, Min>;
    case ScalarFn::max: return binary<T, T, Max>;
    case ScalarFn::prelu: return binary<T, T, Prelu>;
    case ScalarFn::identity: return unary<T, T, Identity>;
    case ScalarFn::neg: return unary<T, T, Neg>;
    case ScalarFn::abs: return unary<T, T, Abs>;
    case ScalarFn::relu: return unary<T, T, Relu>;
    case ScalarFn::sqrt:
      if constexpr (std::is_same_v<T, double>) return unary<double, double, Sqrt>;
      return nullptr;
    default: return nullptr;
  }
}

struct Xor {
  template <class T>
  bool operator()(T a, T b) const {
    return (a != 0) != (b != 0);
  }
};
struct IsNan {
  template <class T>
  bool operator()(T x) const {
    return x != x;
  }
};

template <class T>
ChunkFn find_test(std::string_view op) {
  if (op == "equal") return binary<T, std::uint8_t, std::equal_to<T>>;
  if (op == "less") return binary<T, std::uint8_t, std::less<T>>;
  if (op == "less_or_equal") return binary<T, std::uint8_t, std::less_equal<T>>;
  if (op == "greater") return binary<T, std::uint8_t, std::greater<T>>;
  if (op == "greater_or_equal") return binary<T, std::uint8_t, std::greater_equal<T>>;
  if constexpr (std::is_floating_point_v<T>) {
    if (op == "is_nan") return unary<T, std::uint8_t, IsNan>;
  }
  return nullptr;
}

/// Bools are read as bytes: one that isn't 0 or 1 read as bool would be undefined.
ChunkFn find_logic(std::string_view op) {
  using Byte = std::uint8_t;
  if (op == "and") return binary<Byte, Byte, std::logical_and<Byte>>;
  if (op == "or") return binary<Byte, Byte, std::logical_or<Byte>>;
  if (op == "xor") return binary<Byte, Byte, Xor>;
  if (op == "not") return unary<Byte, Byte, std::logical_not<Byte>>;
  if (op == "equal") return binary<Byte, Byte, std::equal_to<Byte>>;
  return nullptr;
}

template <class T>
void select(const ChunkArgs& args) {
  const auto* condition = input<std::uint8_t>(args, 0);
  const T* x = input<T>(args, 1);
  const T* y = input<T>(args, 2);
  auto* z = reinterpret_cast<T*>(args.out);
  const std::int64_t condition_step = (args.uniform & 1) != 0 ? 0 : 1;
  const std::int64_t x_step = (args.uniform & 2) != 0 ? 0 : 1;
  const std::int64_t y_step = (args.uniform & 4) != 0 ? 0 : 1;
  for (std::int64_t i = 0; i < args.count; ++i) {
    const T first = x[i * x_step];
    const T second = y[i * y_step];
    z[i] = condition[i * condition_step] != 0 ? first : second;
  }
}

template <DType kFrom, DType kTo>
void cast_any(const ChunkArgs& args) {
  const Shape shape = {args.count};
  const Dims step = {args.uniform != 0 ? 0 : 1};
  copy_strided({args.in[0], kFrom, shape, step}, {args.out, kTo, shape, {1}});
}

template <class To>
struct CastTo {
  template <class T>
  To operator()(T x) const {
    return static_cast<To>(x);
  }
};
template <class T>
inline constexpr bool kIsPlain = std::is_arithmetic_v<T> && !std::is_same_v<T, bool>;

struct Truth {
  template <class T>
  std::uint8_t operator()(T x) const {
    return x != T{0} ? 1 : 0;
  }
};

template <class From, class To>
ChunkFn find_cast() {
  constexpr bool kSaturates = std::is_floating_point_v<From> && !std::is_floating_point_v<To>;
  if constexpr (std::is_same_v<From, bool> && kIsPlain<To>) {
    return [](const ChunkArgs& args) {
      struct FromByte {
        To operator()(std::uint8_t x) const { return x != 0 ? To{1} : To{0}; }
      };
      unary<std::uint8_t, To, FromByte>(args);
    };
  } else if constexpr (std::is_same_v<To, bool> && kIsPlain<From>) {
    return unary<From, std::uint8_t, Truth>;
  } else if constexpr (kIsPlain<From> && kIsPlain<To> && !kSaturates) {
    return unary<From, To, CastTo<To>>;
  } else {
    return cast_any<kDTypeOf<From>, kDTypeOf<To>>;
  }
}

}  // namespace

ChunkFn typed_chunk(ScalarFn fn, DType dtype) {
  return visit_dtype(dtype, [&](auto tag) -> ChunkFn {
    using T = typename decltype(tag)::type;
    if constexpr (kIsPlain<T> && !std::is_same_v<T, float>) return find_typed<T>(fn);
    return nullptr;
  });
}

ChunkFn test_chunk(std::string_view op, DType dtype) {
  return visit_dtype(dtype, [&](auto tag) -> ChunkFn {
    using T = typename decltype(tag)::type;
    if constexpr (std::is_same_v<T, bool>) return find_logic(op);
    if constexpr (kIsPlain<T>) return find_test<T>(op);
    return nullptr;
  });
}

ChunkFn select_chunk(std::int64_t element_bytes) {
  switch (element_bytes) {
    case 1: return select<std::uint8_t>;
    case 2: return select<std::uint16_t>;
    case 4: return select<std::uint32_t>;
    default: return select<std::uint64_t>;
  }
}

ChunkFn cast_chunk(DType from, DType to) {
  if (const ChunkFn fast = half_chunk(from, to)) return fast;
  return visit_dtype(from, [&](auto source) {
    return visit_dtype(to, [](auto target) -> ChunkFn {
      return find_cast<typename decltype(source)::type, typename decltype(target)::type>();
    });
  });
}

}  // namespace tilemesh::cpu::highway
