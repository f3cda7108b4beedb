// Combines several lambdas into one visitor of a std::variant.
#pragma once

namespace skald {

template <class... Visitors>
struct Overloaded : Visitors... {
  using Visitors::operator()...;
};
template <class... Visitors>
Overloaded(Visitors...) -> Overloaded<Visitors...>;

}  // namespace skald
