#include "tilemesh/base/close_names.hpp"

#include <algorithm>
#include <cctype>
#include <map>
#include <numeric>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace tilemesh {
namespace {

constexpr std::size_t kLongestCompared = 200;  // letters; longer names are only searched

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return result;
}

/// Letters to insert, remove, replace or swap with a neighbour to turn one into the other (optimal
/// string alignment).
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1);
  std::vector<std::size_t> last(b.size() + 1);
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(last.begin(), last.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t k = 1; k <= b.size(); ++k) {
      const std::size_t replaced = last[k - 1] + (a[i - 1] == b[k - 1] ? 0U : 1U);
      row[k] = std::min({last[k] + 1, row[k - 1] + 1, replaced});
      if (i > 1 && k > 1 && a[i - 1] == b[k - 2] && a[i - 2] == b[k - 1]) {
        row[k] = std::min(row[k], before[k - 2] + 1);
      }
    }
    std::swap(before, last);
    std::swap(last, row);
  }
  return last[b.size()];
}

/// Small for what is alike; larger than any limit for what isn't.
std::size_t unlikeness(const std::string& wanted, const std::string& name) {
  constexpr auto kFar = static_cast<std::size_t>(-1);
  if (wanted.empty() || name.empty()) {
    return kFar;
  }
  const bool contained = wanted.find(name) != std::string::npos && 2 * name.size() >= wanted.size();
  const bool contains = contained || name.find(wanted) != std::string::npos;
  const std::size_t longer = std::max(wanted.size(), name.size());
  if (contains) {
    return longer - std::min(wanted.size(), name.size());
  }
  if (longer > kLongestCompared) {
    return kFar;
  }
  const std::size_t changes = distance(wanted, name);
  return changes <= std::max<std::size_t>(1, longer / 3) ? changes : kFar;
}

}  // namespace

std::vector<std::string> close_names(std::string_view name, const std::vector<std::string>& all,
                                     std::size_t limit) {
  const std::string wanted = lower(name);
  std::map<std::string, std::size_t> found;
  for (const std::string& other : all) {
    const std::size_t far = unlikeness(wanted, lower(other));
    if (far != static_cast<std::size_t>(-1)) {
      found.emplace(other, far);
    }
  }
  std::vector<std::pair<std::string, std::size_t>> ranked(found.begin(), found.end());
  std::stable_sort(ranked.begin(), ranked.end(),
                   [](const auto& a, const auto& b) { return a.second < b.second; });
  std::vector<std::string> result;
  for (std::size_t i = 0; i < ranked.size() && i < limit; ++i) {
    result.push_back(ranked[i].first);
  }
  return result;
}

std::string did_you_mean(std::string_view name, const std::vector<std::string>& all) {
  const std::vector<std::string> names = close_names(name, all);
  return names.empty() ? "" : fmt::format("; did you mean \"{}\"?", fmt::join(names, "\", \""));
}

}  // namespace tilemesh
