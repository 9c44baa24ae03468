#include "compiler/layout_search.hpp"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>

#include "compiler/views.hpp"

namespace tilemesh {
namespace {

constexpr std::size_t kMaxStates = 24;

// A value that is still to be read, and the layouts in which it is there; first the one it was made
// in, which is what an op that doesn't care follows.
struct LiveValue {
  GraphValueId id = kNoValue;
  std::vector<Layout> layouts;

  bool has(const Layout& layout) const {
    return std::ranges::find(layouts, layout) != layouts.end();
  }
};

bool is_same(const LiveValue& a, const LiveValue& b) {
  return a.id == b.id && a.layouts.size() == b.layouts.size() && a.layouts[0] == b.layouts[0] &&
         std::ranges::all_of(a.layouts, [&](const Layout& layout) { return b.has(layout); });
}

struct State {
  double seconds = 0;
  std::size_t parent = 0;  // among the states before the last call
  Candidate chosen;        // for the last call
  std::vector<LiveValue> live;

  const LiveValue* find(GraphValueId id) const {
    const auto it = std::ranges::find(live, id, &LiveValue::id);
    return it == live.end() ? nullptr : &*it;
  }
};

class LayoutSearch {
 public:
  explicit LayoutSearch(const LayoutProblem& problem) : problem_(problem) {}

  std::vector<Candidate> run() {
    std::vector<std::vector<State>> steps{{State{}}};
    for (std::size_t i = 0; i < problem_.calls.size(); ++i) {
      steps.push_back(step(steps.back(), i));
      for (State& state : steps[i])
        state.live = {};  // only the way back is needed
    }
    for (State& state : steps.back()) {
      for (const LiveValue& value : state.live)
        state.seconds += price_of_end(value);
    }
    auto best = static_cast<std::size_t>(
        std::ranges::min_element(steps.back(), {}, &State::seconds) - steps.back().begin());
    std::vector<Candidate> chosen(problem_.calls.size());
    for (std::size_t i = problem_.calls.size(); i > 0; --i) {
      State& state = steps[i][best];
      chosen[i - 1] = std::move(state.chosen);
      best = state.parent;
    }
    return chosen;
  }

 private:
  std::vector<State> step(const std::vector<State>& before, std::size_t i) {
    asked_.clear();
    std::vector<State> after;
    for (std::size_t s = 0; s < before.size(); ++s) {
      for (const Candidate& candidate : ask(before[s], i)) {
        State next = advance(before[s], candidate, i);
        next.parent = s;
        keep(after, std::move(next));
      }
    }
    TILEMESH_CHECK(!after.empty(), "a target has no candidate that can be used");
    if (after.size() > kMaxStates) {
      std::ranges::nth_element(after, after.begin() + kMaxStates, {}, &State::seconds);
      after.resize(kMaxStates);
    }
    return after;
  }

  // Of states from which the future looks the same, the cheapest.
  static void keep(std::vector<State>& states, State&& state) {
    for (State& other : states) {
      if (!std::ranges::equal(other.live, state.live, is_same)) continue;
      if (state.seconds < other.seconds) other = std::move(state);
      return;
    }
    states.push_back(std::move(state));
  }

  LiveValue look_up(const State& state, GraphValueId id) const {
    const LiveValue* live = state.find(id);
    return live != nullptr ? *live : LiveValue{id, problem_.layouts_before(id)};
  }

  // The candidates for call i in a state; the target is asked once for each set of input layouts.
  const std::vector<Candidate>& ask(const State& state, std::size_t i) {
    const GraphNode& node = problem_.calls[i];
    std::vector<Layout> layouts;
    std::vector<bool> constant;
    for (const GraphValueId id : node.inputs) {
      constant.push_back(id != kNoValue && problem_.is_free(id));
      layouts.push_back(id == kNoValue || constant.back() ? Layout::rows()
                                                          : look_up(state, id).layouts[0]);
    }
    for (const auto& [known, candidates] : asked_) {
      if (known == layouts) return *candidates;
    }
    OpCall call = problem_.placed.shard_call(node);
    for (std::size_t k = 0; k < layouts.size(); ++k)
      call.inputs[k].layout = layouts[k];
    auto candidates =
        std::make_unique<std::vector<Candidate>>(problem_.target.candidates(call, constant));
    add_view(call, *candidates);
    std::erase_if(*candidates, [&](const Candidate& candidate) {
      TILEMESH_CHECK(candidate.inputs.size() == call.inputs.size() &&
                         candidate.outputs.size() == call.outputs.size(),
                     "a candidate has a wrong number of layouts");
      return !can_be_stored(node, candidate);
    });
    asked_.emplace_back(std::move(layouts), std::move(candidates));
    return *asked_.back().second;
  }

  // What is stored in the binary, or made resident by its user, can't be in a form that only a
  // backend can make.
  bool can_be_stored(const GraphNode& node, const Candidate& candidate) const {
    for (std::size_t k = 0; k < node.inputs.size(); ++k) {
      if (node.inputs[k] != kNoValue && problem_.is_free(node.inputs[k]) &&
          candidate.inputs[k].is_opaque()) {
        return false;
      }
    }
    return true;
  }

  // A transpose may do nothing but name the dims in another order.
  static void add_view(const OpCall& call, std::vector<Candidate>& candidates) {
    if (call.def->name != "transpose") return;
    const Layout& layout = call.inputs[0].layout;
    if (const auto result = transposed_layout(layout, call.attributes.integers("order"))) {
      candidates.push_back({"view", {layout}, {*result}, 0});
    }
  }

  double convert_seconds(const LiveValue& value, const Layout& to) const {
    OperandType type = problem_.placed.shard_type(value.id);
    type.layout = value.layouts[0];
    if (is_same_memory(type.layout, to, type.shape)) return 0;
    return problem_.target.convert_seconds(type, to);
  }

  State advance(const State& before, const Candidate& candidate, std::size_t i) const {
    const GraphNode& node = problem_.calls[i];
    State state{before.seconds + candidate.seconds, 0, candidate, {}};
    std::vector<LiveValue> live = before.live;
    for (std::size_t k = 0; k < node.inputs.size(); ++k) {
      const GraphValueId id = node.inputs[k];
      if (id == kNoValue || problem_.is_free(id)) continue;
      auto it = std::ranges::find(live, id, &LiveValue::id);
      if (it == live.end()) {
        const LiveValue value = look_up(before, id);
        if (value.has(candidate.inputs[k])) continue;
        it = live.insert(live.end(), value);
      }
      if (it->has(candidate.inputs[k])) continue;
      state.seconds += convert_seconds(*it, candidate.inputs[k]);
      it->layouts.push_back(candidate.inputs[k]);
    }
    for (std::size_t k = 0; k < node.outputs.size(); ++k) {
      if (node.outputs[k] != kNoValue) live.push_back({node.outputs[k], {candidate.outputs[k]}});
    }
    std::erase_if(live, [&](const LiveValue& value) {
      if (problem_.last_use(value.id) > i) return false;
      state.seconds += price_of_end(value);
      return true;
    });
    std::ranges::sort(live, {}, &LiveValue::id);
    state.live = std::move(live);
    return state;
  }

  // What it takes to leave a value as it is wanted behind the run, once no call reads it any more.
  double price_of_end(const LiveValue& value) const {
    const bool wanted = problem_.is_wanted_in_rows(value.id) && !value.has(Layout::rows());
    return wanted ? convert_seconds(value, Layout::rows()) : 0;
  }

  const LayoutProblem& problem_;
  std::vector<std::pair<std::vector<Layout>, std::unique_ptr<std::vector<Candidate>>>> asked_;
};

}  // namespace

std::vector<Candidate> search_layouts(const LayoutProblem& problem) {
  return LayoutSearch(problem).run();
}

}  // namespace tilemesh
