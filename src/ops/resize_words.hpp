#pragma once

#include <array>
#include <string_view>

namespace tilemesh::ops {

// The words of resize's attributes, in the order of their enumerators; the first is the default.
inline constexpr std::array<std::string_view, 7> kResizeCoordinates = {
    "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners",
    "asymmetric", "tf_half_pixel_for_nn", "tf_crop_and_resize"};
// The last one is that of ONNX before opset 11.
inline constexpr std::array<std::string_view, 5> kResizeRoundings = {
    "round_prefer_floor", "round_prefer_ceil", "floor", "ceil", "floor_up_ceil_down"};
inline constexpr std::array<std::string_view, 3> kResizeModes = {"nearest", "linear", "cubic"};

}  // namespace tilemesh::ops
