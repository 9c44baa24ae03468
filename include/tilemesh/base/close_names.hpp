#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace tilemesh {

/// The names most like `name`, best first, each once: those that contain it, or are half of it or
/// more, and those that few changed letters turn into it. Empty if none is close.
std::vector<std::string> close_names(std::string_view name, const std::vector<std::string>& all,
                                     std::size_t limit = 5);

/// "; did you mean "a", "b"?" or an empty text.
std::string did_you_mean(std::string_view name, const std::vector<std::string>& all);

}  // namespace tilemesh
