#include <algorithm>
#include <bit>
#include <cmath>
#include <complex>
#include <numbers>

#include <fmt/format.h>

#include "tilemesh/base/error.hpp"

#include "attribute_form.hpp"
#include "elements.hpp"
#include "tables.hpp"

/// ONNX DFT 17 to 20: the last dim holds real and imaginary parts (or real ones alone).
namespace tilemesh::ops {
namespace {

using Complex = std::complex<double>;
using Signal = std::vector<Complex>;

// Tables and buffers have a few times the length.
constexpr std::int64_t kMaxLength = std::int64_t{1} << 26;

bool flag(const OpCall& call, std::string_view name) {
  return call.attributes.integer(name) != 0;
}

/// The input is shortened or filled up with zeros to `length` (where it holds the first half of a
/// spectrum: to length / 2 + 1).
void canonical_dft(AttributeForm& form) {
  form.axis("axis", form.rank() - 1, form.rank() - 2);
  form.flag("inverse", false);
  form.flag("onesided", false);
  form.integer("length", {.min = 1, .max = kMaxLength});
}

std::vector<OperandType> infer_dft(const OpCall& call) {
  require_type(call, 0, Types::real);
  require_rank(call, 0, 2, true);
  const Shape& x = call.inputs[0].shape;
  const int last = x.rank() - 1;
  if (x[last] != 1 && x[last] != 2) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("input 0 wants 1 or 2 elements along its last dim (real and imaginary "
                            "part), got {}",
                            x.to_string()));
  }
  const auto axis = static_cast<int>(call.attributes.integer("axis"));
  const std::int64_t length = call.attributes.integer("length");
  const bool half = flag(call, "onesided") && !flag(call, "inverse");
  const bool real = flag(call, "onesided") && flag(call, "inverse");
  const Shape shape = x.with(axis, half ? length / 2 + 1 : length).with(last, real ? 1 : 2);
  return {rows(call.inputs[0].dtype, shape)};
}

/// Every dim but the axis and the parts.
Factors dft_factors(const OpCall& call) {
  FactorBuilder builder(call);
  for (int d = 0; d < call.inputs[0].shape.rank() - 1; ++d) {
    if (d != call.attributes.integer("axis")) builder.share(d, d);
  }
  return builder.build();
}

/// exp(-2 pi i k / n). `k` may be beyond n.
Complex root(std::int64_t k, std::int64_t n) {
  const double angle = 2 * std::numbers::pi * static_cast<double>(k % n) / static_cast<double>(n);
  return {std::cos(angle), -std::sin(angle)};
}

/// Transforms of a power of two: Cooley and Tukey's, in place.
class PowerOfTwo {
 public:
  explicit PowerOfTwo(std::int64_t size) : size_(static_cast<std::size_t>(size)) {
    for (std::int64_t k = 0; k < size / 2; ++k) {
      roots_.push_back(root(k, size));
    }
  }

  std::size_t size() const { return size_; }

  void run(Signal& x) const {
    for (std::size_t i = 1, j = 0; i < size_; ++i) {  // into bit-reversed order
      std::size_t bit = size_ / 2;
      for (; (j & bit) != 0; bit /= 2) {
        j ^= bit;
      }
      j ^= bit;
      if (i < j) std::swap(x[i], x[j]);
    }
    for (std::size_t half = 1; half < size_; half *= 2) {
      const std::size_t step = size_ / (2 * half);
      for (std::size_t first = 0; first < size_; first += 2 * half) {
        for (std::size_t k = 0; k < half; ++k) {
          const Complex odd = times(x[first + half + k], roots_[k * step]);
          x[first + half + k] = x[first + k] - odd;
          x[first + k] += odd;
        }
      }
    }
  }

  // std::complex's product looks for infinities, which takes most of the time.
  static Complex times(const Complex& a, const Complex& b) {
    return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
  }

 private:
  std::size_t size_;
  Signal roots_;
};

/// Transforms of any length; those of no power of two as a convolution with a chirp (Bluestein).
class Transform {
 public:
  explicit Transform(std::int64_t length)
      : length_(static_cast<std::size_t>(length)),
        inner_(std::has_single_bit(static_cast<std::uint64_t>(length))
                   ? length
                   : static_cast<std::int64_t>(
                         std::bit_ceil(2 * static_cast<std::uint64_t>(length) - 1))) {
    if (inner_.size() == length_) return;
    chirp_.resize(length_);
    kernel_.resize(inner_.size());
    for (std::size_t k = 0; k < length_; ++k) {
      // k * k modulo 2n, so that the angle stays small.
      const auto square = static_cast<std::int64_t>(static_cast<std::uint64_t>(k) *
                                                    static_cast<std::uint64_t>(k) % (2 * length_));
      chirp_[k] = root(square, 2 * length);
      kernel_[k] = std::conj(chirp_[k]);
      kernel_[(inner_.size() - k) % inner_.size()] = kernel_[k];
    }
    inner_.run(kernel_);
    buffer_.resize(inner_.size());
  }

  /// The transform of `x`, in place, without a scale.
  void run(Signal& x) {
    if (inner_.size() == length_) return inner_.run(x);
    std::ranges::fill(buffer_, Complex{});
    for (std::size_t k = 0; k < length_; ++k) {
      buffer_[k] = PowerOfTwo::times(x[k], chirp_[k]);
    }
    inner_.run(buffer_);
    for (std::size_t k = 0; k < buffer_.size(); ++k) {
      buffer_[k] = std::conj(PowerOfTwo::times(buffer_[k], kernel_[k]));
    }
    inner_.run(buffer_);  // backwards, by way of the conjugates
    const double scale = 1 / static_cast<double>(buffer_.size());
    for (std::size_t k = 0; k < length_; ++k) {
      x[k] = PowerOfTwo::times(std::conj(buffer_[k]) * scale, chirp_[k]);
    }
  }

 private:
  std::size_t length_;
  PowerOfTwo inner_;
  Signal chirp_, kernel_, buffer_;
};

/// Fills the second half of a real signal's spectrum from the first.
void mirror(Signal& x) {
  const std::size_t n = x.size();
  x[0] = x[0].real();
  for (std::size_t k = 1; k <= n / 2; ++k) {
    if (2 * k == n) x[k] = x[k].real();
    x[n - k] = std::conj(x[k]);
  }
}

void conjugate(Signal& x) {
  for (Complex& value : x) {
    value = std::conj(value);
  }
}

/// `count` elements of a signal from `from`, whose neighbours lie `stride` numbers apart.
void load(Signal& x, const double* from, std::int64_t count, std::int64_t stride, bool real) {
  std::ranges::fill(x, Complex{});
  for (std::int64_t i = 0; i < count; ++i) {
    const double* at = from + i * stride;
    x[static_cast<std::size_t>(i)] = {at[0], real ? 0 : at[1]};
  }
}

void run_dft(const OpCall& call, Inputs inputs, Outputs outputs) {
  const Shape& shape = call.outputs[0].shape;
  if (shape.element_count() == 0) return;
  const auto axis = static_cast<int>(call.attributes.integer("axis"));
  const std::int64_t length = call.attributes.integer("length");
  const bool inverse = flag(call, "inverse");
  const bool half = inverse && flag(call, "onesided");
  const AxisView in = around(call.inputs[0].shape, axis);
  const AxisView out = around(shape, axis);
  const std::int64_t parts = call.inputs[0].shape[shape.rank() - 1];
  const std::int64_t parts_out = shape[shape.rank() - 1];
  const std::int64_t count = std::min(in.size, half ? length / 2 + 1 : length);
  const double scale = inverse ? 1 / static_cast<double>(length) : 1;
  const Loaded<double> x(inputs[0], call.inputs[0]);
  auto values = zeros<double>(shape.element_count());
  Transform transform(length);
  Signal signal(static_cast<std::size_t>(length));
  const std::int64_t lines = in.inner / parts;
  for (std::int64_t line = 0; line < in.outer * lines; ++line) {
    const std::int64_t o = line / lines;
    const std::int64_t i = line % lines;
    load(signal, x.data() + o * in.size * in.inner + i * parts, count, in.inner, parts == 1);
    if (half) mirror(signal);
    if (inverse) conjugate(signal);
    transform.run(signal);
    double* to = values.data() + o * out.size * out.inner + i * parts_out;
    for (std::int64_t k = 0; k < out.size; ++k) {
      const Complex value = signal[static_cast<std::size_t>(k)] * scale;
      to[k * out.inner] = value.real();
      if (parts_out == 2) to[k * out.inner + 1] = inverse ? -value.imag() : value.imag();
    }
  }
  store(values, call.outputs[0], outputs[0]);
}

constexpr OpDef kOps[] = {
    {.name = "dft",
     .canonical = canonical_dft,
     .infer = infer_dft,
     .factors = dft_factors,
     .reference = run_dft,
     .partial = PartialRule::sums},
};

}  // namespace

std::span<const OpDef> fourier_ops() {
  return kOps;
}

}  // namespace tilemesh::ops
