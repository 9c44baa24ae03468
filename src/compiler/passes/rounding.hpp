#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "tilemesh/types/dtype.hpp"

/// What a rewrite may do to numbers, for all passes (docs/rewrites.md): it may not lose more than
/// the rounding of the graph as it was written, and may not take away a rounding that was written
/// to be seen. The passes ask here, and nowhere else decide by a number of their own.
namespace tilemesh::passes {

/// True if x / c and x * (1 / c) are the same f32 for every x: c is a power of two, and its
/// reciprocal an ordinary f32.
bool has_exact_reciprocal(double c);

/// True for 1 and -1: the factors that round nothing, so that they join any sum or product.
bool is_sign(double factor);

/// True if a factor may be taken into constant weights, which then round once more: not so large
/// that sums of products would overflow where they didn't. What it does to the weights says
/// `scaled`.
bool may_scale_weights(double factor);

/// True if a factor before a product may be multiplied behind it: so near to 1 that the product's
/// sums stay in the range of `dtype` without it. Never in f16, whose range they fill.
bool may_move_behind(double factor, DType dtype);

/// True if an additive constant may join a bias: so small that a sum of ordinary numbers keeps its
/// digits. Larger ones round what they are added to, which may be what they are for
/// (x + 12582912 - 12582912).
bool may_join_bias(double shift);

/// True if f32 holds the products of weights and factors as well as it held the weights: none
/// became infinite, and the largest is far from where digits are lost. (Weights of dead channels
/// may be tiny beside it.)
bool are_ordinary(std::span<const float> weights, std::span<const float> products);

/// `weights[i] * factor(i)`, each rounded once; nothing if they aren't ordinary.
template <class Factor>
std::optional<std::vector<float>> scaled(std::span<const float> weights, const Factor& factor) {
  std::vector<float> products(weights.size());
  bool are_zeros = true;  // not by vanishing
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const double by = factor(i);
    products[i] = static_cast<float>(double{weights[i]} * by);
    are_zeros = are_zeros && (weights[i] == 0 || by == 0);
  }
  return are_zeros || are_ordinary(weights, products) ? std::optional(std::move(products))
                                                      : std::nullopt;
}

}  // namespace tilemesh::passes
