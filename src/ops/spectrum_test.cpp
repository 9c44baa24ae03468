#include <cmath>
#include <complex>
#include <numbers>

#include "op_cases.hpp"

namespace tilemesh::ops::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Complex = std::complex<double>;

Attributes spectrum(std::int64_t length, bool inverse = false, bool onesided = false) {
  return {{"axis", std::int64_t{1}},
          {"length", length},
          {"inverse", std::int64_t{inverse}},
          {"onesided", std::int64_t{onesided}}};
}

/// The transform by its definition.
std::vector<Complex> plain_dft(const std::vector<Complex>& x, double sign) {
  const auto n = static_cast<double>(x.size());
  std::vector<Complex> result(x.size());
  for (std::size_t k = 0; k < x.size(); ++k) {
    for (std::size_t i = 0; i < x.size(); ++i) {
      const auto turns = static_cast<double>(i * k % x.size());
      result[k] += x[i] * std::polar(1.0, sign * 2 * std::numbers::pi * turns / n);
    }
    if (sign > 0) result[k] /= n;
  }
  return result;
}

TEST(Dft, AgreesWithTheDefinitionForAnyLength) {
  for (const std::int64_t n : {1, 2, 3, 4, 5, 7, 8, 12, 17, 31, 32, 60, 127, 250}) {
    const Value x = random({1, n, 2}, DType::f64);
    const std::vector<double> parts = elements<double>(x);
    std::vector<Complex> signal;
    for (std::size_t i = 0; i < parts.size(); i += 2)
      signal.emplace_back(parts[i], parts[i + 1]);
    for (const bool inverse : {false, true}) {
      const std::vector<Complex> wanted = plain_dft(signal, inverse ? 1 : -1);
      const std::vector<double> y = elements<double>(run("dft", {x}, spectrum(n, inverse)));
      for (std::size_t k = 0; k < wanted.size(); ++k) {
        EXPECT_NEAR(y[2 * k], wanted[k].real(), 1e-11 * static_cast<double>(n)) << n;
        EXPECT_NEAR(y[2 * k + 1], wanted[k].imag(), 1e-11 * static_cast<double>(n)) << n;
      }
    }
  }
}

TEST(Dft, OfRealSignalsGivesHalfASpectrum) {
  const Value x = f32({1, 4, 1}, {1, 2, 3, 4});
  EXPECT_THAT(elements<float>(run("dft", {x}, spectrum(4, false, true))),
              ElementsAre(10, 0, -2, 2, -2, 0));
  const Value half = f32({1, 3, 2}, {10, 0, -2, 2, -2, 0});
  const Value back = run("dft", {half}, spectrum(4, true, true));
  EXPECT_EQ(back.type.shape, (Shape{1, 4, 1}));
  EXPECT_THAT(elements<float>(back), ElementsAre(1, 2, 3, 4));
  // Of an odd length, and of another than the spectrum was made for.
  const Value three = run("dft", {f32({1, 2, 2}, {6, 0, -1.5F, 0})}, spectrum(3, true, true));
  EXPECT_THAT(elements<float>(three), ElementsAre(1, 2.5F, 2.5F));
}

TEST(Dft, CutsOrFillsUpToItsLength) {
  const Value x = f32({1, 3, 1}, {1, 2, 3});
  EXPECT_THAT(elements<float>(run("dft", {x}, spectrum(2))), ElementsAre(3, 0, -1, 0));
  EXPECT_THAT(elements<float>(run("dft", {x}, spectrum(4))),
              ElementsAre(6, 0, -2, -2, 2, 0, -2, 2));
}

TEST(Dft, TransformsAlongAnyAxisButTheLast) {
  const Value x = f32({2, 1, 2, 1}, {1, 2, 3, 4});
  Attributes attributes = spectrum(2);
  attributes.set("axis", std::int64_t{0});
  EXPECT_THAT(elements<float>(run("dft", {x}, attributes)), ElementsAre(4, 0, 6, 0, -2, 0, -2, 0));
  attributes.set("axis", std::int64_t{3});
  EXPECT_THAT(infer_error("dft", {x}, attributes), HasSubstr("axis"));
  EXPECT_THAT(infer_error("dft", {f32({1, 2, 3}, std::vector<float>(6))}, spectrum(2)),
              HasSubstr("1 or 2 elements"));
  EXPECT_THAT(infer_error("dft", {x}, spectrum(0)), HasSubstr("\"length\""));
}

}  // namespace
}  // namespace tilemesh::ops::testing
