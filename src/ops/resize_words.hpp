#pragma once

#include <array>
#include <string_view>

namespace tilemesh::ops {

// The words of resize's attributes, in the order of their enumerators; the first is the default.
inline constexpr std::array<std::string_view, 6> kResizeCoordinates = {
    "half_pixel",    "half_pixel_symmetric", "pytorch_half_pixel",
    "align_corners", "asymmetric",           "tf_crop_and_resize"};
inline constexpr std::array<std::string_view, 4> kResizeRoundings = {
    "round_prefer_floor", "round_prefer_ceil", "floor", "ceil"};
inline constexpr std::array<std::string_view, 3> kResizeModes = {"nearest", "linear", "cubic"};

}  // namespace tilemesh::ops
