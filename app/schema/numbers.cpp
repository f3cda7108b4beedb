// Grammars of the numbers between two bounds, built digit by digit.
#include <algorithm>
#include <map>

#include "app/files/json.h"
#include "app/schema/parts.h"

namespace skald {

using grammar::Regex;
using grammar::make::choice;
using grammar::make::one_of;
using grammar::make::repeat;
using grammar::make::sequence;

namespace {

constexpr size_t kMostWhole = 16, kMostFraction = 16;  // digits
constexpr size_t kMostInteger = 18;                    // digits of an integer that fits int64
constexpr int kMostExponent = 400;

// One part behind another. A list in braces would copy them, at each digit all that follows.
Regex then(Regex first, Regex second) {
  std::vector<Regex> parts;
  parts.reserve(2);
  parts.push_back(std::move(first));
  parts.push_back(std::move(second));
  return sequence(std::move(parts));
}
Regex maybe(Regex part) { return repeat(std::move(part), 0, 1); }
Regex empty() { return sequence({}); }
Regex text(std::string_view chars) {
  std::vector<Regex> parts;
  for (char c : chars) {
    parts.push_back(one_of({{static_cast<char32_t>(c), static_cast<char32_t>(c)}}));
  }
  return sequence(std::move(parts));
}

// The absolute value of a bound: digits before and after the point.
struct Magnitude {
  std::string whole = "0", fraction = {};
  bool exclusive = false;
};

bool less(const Magnitude& a, const Magnitude& b) {
  if (a.whole.size() != b.whole.size()) return a.whole.size() < b.whole.size();
  if (a.whole != b.whole) return a.whole < b.whole;
  return a.fraction < b.fraction;  // no trailing zeros, so a prefix is less
}

std::string plus_1(std::string digits) {
  size_t i = digits.size();
  while (i > 0 && digits[i - 1] == '9') digits[--i] = '0';
  if (i == 0) return "1" + digits;
  ++digits[i - 1];
  return digits;
}

std::string minus_1(std::string digits) {  // `digits` is at least 1
  size_t i = digits.size();
  while (digits[i - 1] == '0') digits[--i] = '9';
  --digits[i - 1];
  if (digits.size() > 1 && digits[0] == '0') digits.erase(0, 1);
  return digits;
}

bool shorter_or_less(const std::string& a, const std::string& b) {
  return a.size() != b.size() ? a.size() < b.size() : a < b;
}

// The fractions between two bounds. Each method makes the digits that may follow the first `i`
// digits. `at_low` says that those first digits equal the lower bound's, `at_high` the upper
// bound's.
class Fractions {
 public:
  Fractions(const Magnitude* low, const Magnitude* high) : low_(low), high_(high) {
    if (low) digits_ = std::max(digits_, low->fraction.size() + 1);
    if (high) digits_ = std::max(digits_, high->fraction.size() + 1);
  }

  Regex all() {
    std::vector<Regex> choices;
    if (may_end(0, low_, high_)) choices.push_back(empty());
    choices.push_back(then(text("."), digits(0, low_ != nullptr, high_ != nullptr)));
    return choice(std::move(choices));
  }

 private:
  bool may_end(size_t i, bool at_low, bool at_high) const {
    if (at_low && (i < low_->fraction.size() || low_->exclusive)) return false;
    return !at_high || i < high_->fraction.size() || !high_->exclusive;
  }

  Regex rest(size_t i, bool at_low, bool at_high) {
    // After all digits of an inclusive lower bound, any digits are allowed.
    if (at_low && i >= low_->fraction.size() && !low_->exclusive) at_low = false;
    if (!at_low && !at_high) return any(i);
    const Regex more = digits(i, at_low, at_high);
    return may_end(i, at_low, at_high) ? maybe(more) : more;
  }

  Regex any(size_t i) {
    return repeat(one_of({{'0', '9'}}), 0, static_cast<uint32_t>(digits_ - i));
  }

  Regex digits(size_t i, bool at_low, bool at_high) {
    if (i >= digits_) return choice({});
    const auto digit = [i](const std::string& fraction) {
      return i < fraction.size() ? fraction[i] : '0';
    };
    const char first = at_low ? digit(low_->fraction) : '0';
    const char last = at_high ? digit(high_->fraction) : '9';
    std::vector<Regex> choices;
    const auto add = [&](char from, char to, bool low, bool high) {
      if (from > to) return;
      choices.push_back(then(one_of({{static_cast<char32_t>(from), static_cast<char32_t>(to)}}),
                             rest(i + 1, low, high)));
    };
    if (first > last) return choice({});
    if (first == last) {
      add(first, last, at_low, at_high);
    } else {
      const char from = at_low ? static_cast<char>(first + 1) : first;
      const char to = at_high ? static_cast<char>(last - 1) : last;
      if (at_low) add(first, first, true, false);
      add(from, to, false, false);
      if (at_high) add(last, last, false, true);
    }
    return choice(std::move(choices));
  }

  const Magnitude* low_;
  const Magnitude* high_;
  size_t digits_ = kMostFraction;
};

// Whole numbers from `low` to `high`, which have the same length, after their first `i` digits.
Regex same_length(const std::string& low, const std::string& high, size_t i, bool at_low,
                  bool at_high) {
  const auto left = static_cast<uint32_t>(low.size() - i);
  if (left == 0) return empty();
  if (!at_low && !at_high) return repeat(one_of({{'0', '9'}}), left, left);
  const char first = at_low ? low[i] : '0', last = at_high ? high[i] : '9';
  std::vector<Regex> choices;
  const auto add = [&](char from, char to, bool keep_low, bool keep_high) {
    if (from > to) return;
    choices.push_back(then(one_of({{static_cast<char32_t>(from), static_cast<char32_t>(to)}}),
                           same_length(low, high, i + 1, keep_low, keep_high)));
  };
  if (first == last) {
    add(first, last, at_low, at_high);
  } else {
    if (at_low) add(first, first, true, false);
    add(static_cast<char>(first + at_low), static_cast<char>(last - at_high), false, false);
    if (at_high) add(last, last, false, true);
  }
  return choice(std::move(choices));
}

Regex whole_between(const std::string& low, const std::string& high) {
  std::vector<Regex> choices;
  for (size_t length = low.size(); length <= high.size(); ++length) {
    const std::string least = "1" + std::string(length - 1, '0'), most(length, '9');
    const std::string& from = length == low.size() ? low : least;
    const std::string& to = length == high.size() ? high : most;
    if (!shorter_or_less(to, from)) {
      choices.push_back(same_length(from, to, 0, true, true));
    }
  }
  return choice(std::move(choices));
}

Regex magnitudes(const Magnitude& low, const Magnitude& high) {
  if (less(high, low)) return choice({});
  if (low.whole == high.whole) {
    return then(text(low.whole), Fractions(&low, &high).all());
  }
  std::vector<Regex> choices;
  choices.push_back(then(text(low.whole), Fractions(&low, nullptr).all()));
  const std::string from = plus_1(low.whole), to = minus_1(high.whole);
  if (!shorter_or_less(to, from)) {
    choices.push_back(then(whole_between(from, to), Fractions(nullptr, nullptr).all()));
  }
  choices.push_back(then(text(high.whole), Fractions(nullptr, &high).all()));
  return choice(std::move(choices));
}

// The whole number nearest to a bound, within it.
Magnitude whole_within(const Magnitude& m, bool is_low) {
  if (m.fraction.empty() && !m.exclusive) return m;
  if (is_low) return {plus_1(m.whole)};
  if (!m.fraction.empty()) return {m.whole};
  if (m.whole == "0") return {"0", "", true};  // no whole number is within the bound
  return {minus_1(m.whole)};
}

template <class Between>
Regex signed_between(const NumberBounds& bounds, Between between) {
  const auto& [least, most] = bounds;
  const auto magnitude = [](const NumberBound& b) {
    return Magnitude{b.whole, b.fraction, b.exclusive};
  };
  const auto is_zero = [](const NumberBound& b) { return b.whole == "0" && b.fraction.empty(); };
  // The upper bound if the schema gives none.
  const auto widest = [](const std::optional<NumberBound>& other) {
    return Magnitude{std::string(std::max(kMostWhole, other ? other->whole.size() : 0), '9')};
  };
  std::vector<Regex> choices;
  // Numbers from 0 up.
  if (!(most && most->negative)) {
    const Magnitude low = least && !least->negative ? magnitude(*least) : Magnitude{};
    const Magnitude high = most ? magnitude(*most) : widest(least);
    choices.push_back(between(low, high));
  }
  // Numbers below 0.
  if (!least || (least->negative && !is_zero(*least))) {
    const Magnitude low = most && most->negative ? magnitude(*most) : Magnitude{"0", "", true};
    const Magnitude high = least ? magnitude(*least) : widest(most);
    choices.push_back(then(text("-"), between(low, high)));
  }
  return choice(std::move(choices));
}

}  // namespace

Regex integer_zeros() {
  return maybe(then(text("."), repeat(one_of({{'0', '0'}}), 1, kMostFraction)));
}

std::optional<NumberBound> number_bound(const Json& number, bool exclusive) {
  const std::string text = dump(number);  // -12.5, 1e-07
  const size_t e = text.find_first_of("eE");
  const std::string mantissa = text.substr(0, e);
  int exponent = 0;
  if (e != std::string::npos) {
    if (text.size() - e > 5) return std::nullopt;
    exponent = std::stoi(text.substr(e + 1));
  }
  if (exponent > kMostExponent || exponent < -kMostExponent) return std::nullopt;
  NumberBound bound;
  bound.negative = text[0] == '-';
  bound.exclusive = exclusive;
  std::string digits;
  size_t point = std::string::npos;
  for (char c : mantissa) {
    if (c == '.') point = digits.size();
    if (c >= '0' && c <= '9') digits += c;
  }
  if (point == std::string::npos) point = digits.size();
  const int moved = static_cast<int>(point) + exponent;
  if (moved <= 0) {
    digits.insert(0, static_cast<size_t>(1 - moved), '0');
    point = 1;
  } else {
    point = static_cast<size_t>(moved);
    if (digits.size() < point) digits.append(point - digits.size(), '0');
  }
  bound.whole = digits.substr(0, point);
  bound.fraction = digits.substr(point);
  bound.whole.erase(0, std::min(bound.whole.find_first_not_of('0'), bound.whole.size() - 1));
  bound.fraction.erase(bound.fraction.find_last_not_of('0') + 1);
  if (bound.whole == "0" && bound.fraction.empty()) bound.negative = false;
  return bound;
}

Regex number_between(const NumberBounds& bounds) {
  return signed_between(
      bounds, [&](const Magnitude& low, const Magnitude& high) { return magnitudes(low, high); });
}

Regex integer_between(const NumberBounds& bounds, bool zeros) {
  return signed_between(bounds, [&](const Magnitude& low, const Magnitude& high) {
    const Magnitude from = whole_within(low, true);
    Magnitude to = whole_within(high, false);
    if (to.whole.size() > kMostInteger && from.whole.size() <= kMostInteger) {
      to = {std::string(kMostInteger, '9')};
    }
    if (to.exclusive || less(to, from)) return choice({});
    const Regex whole = whole_between(from.whole, to.whole);
    return zeros ? then(whole, integer_zeros()) : whole;
  });
}

}  // namespace skald
