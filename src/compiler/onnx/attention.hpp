#pragma once

#include <cstdint>
#include <optional>

#include "compiler/onnx/node.hpp"

/// Attention as ops of our table, shared by the operators of ai.onnx and com.microsoft.
namespace tilemesh::onnx_importer {

/// softmax(cap(scale * q * k') + bias) * v, with B samples, N heads of queries, of which each N / M
/// follow one of M heads of keys, S queries and T keys.
struct AttentionCall {
  Value q = kNoValue;        ///< [B, N, S, D]
  Value k = kNoValue;        ///< [B, M, T, D]
  Value v = kNoValue;        ///< [B, M, T, E]
  Value bias = kNoValue;     ///< added to the scores; broadcasts to [B, N, S, T]
  Value allowed = kNoValue;  ///< bool, where keys are seen; broadcasts likewise
  double scale = 1;
  double softcap = 0;                  ///< c * tanh(score / c); 0: none
  std::optional<DType> softmax_dtype;  ///< if another than the operands'
};

/// What stands at each step; what isn't asked for is dropped with the graph's dead nodes.
struct AttentionSteps {
  Value y = kNoValue;       ///< [B, N, S, E]; zeros for a query that sees no key
  Value scores = kNoValue;  ///< [B, N, S, T], as the rest
  Value capped = kNoValue;
  Value biased = kNoValue;
  Value weights = kNoValue;
};

AttentionSteps attend(Node& node, const AttentionCall& call);

/// Which keys a query may see by their places: with p = s + offset, j <= p if `causal`, and
/// p - left <= j <= p + right where these aren't negative. `offset` is a number for all samples, or
/// a value of i64 [B]. Nothing if nothing is said.
struct Sight {
  bool causal = false;
  std::int64_t left = -1;
  std::int64_t right = -1;
  std::int64_t offset = 0;
  Value offsets = kNoValue;
};
/// [S, T] or [B, 1, S, T] of bool; kNoValue if all keys are seen.
Value seen(Node& node, const Sight& sight, std::int64_t queries, std::int64_t keys);
/// True for the first lengths[b] of `keys`: [B, 1, 1, T].
Value within(Node& node, Value lengths, std::int64_t keys);
/// Both; kNoValue stands for all true.
Value both(Node& node, Value a, Value b);

/// 0, 1, ... as i64 [count].
Value places(Node& node, std::int64_t count);

/// Where an update is written into a cache of the same shape but for dim `axis`, which isn't the
/// first: from place `starts[b]` on (i64 [B]; kNoValue: from 0), beyond the end from the front
/// again if `circular`.
struct CachePlace {
  int axis = 2;
  Value starts = kNoValue;
  bool circular = false;
};
Value written_at(Node& node, Value cache, Value update, const CachePlace& place);

/// [B, S, N * D] as [B, N, S, D].
Value split_heads(Node& node, Value value, std::int64_t heads);
/// And back.
Value join_heads(Node& node, Value value);

}  // namespace tilemesh::onnx_importer
