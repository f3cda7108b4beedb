#include "app/schema/expander.h"

#include <algorithm>

#include "app/files/json.h"
#include "engine/base/error.h"
#include "engine/base/printable.h"

namespace skald {
namespace {

constexpr size_t kMostConds = 200'000;
constexpr size_t kMostNotes = 20;
constexpr size_t kMostOpen = 400;  // conditions and references that lead to each other

// Says that something is being expanded, for as long as it lives.
template <class T>
class Open {
 public:
  Open(std::set<T>& open, T one) : open_(open), one_(one) { open_.insert(one); }
  ~Open() { open_.erase(one_); }
  Open(const Open&) = delete;
  Open& operator=(const Open&) = delete;

 private:
  std::set<T>& open_;
  T one_;
};

}  // namespace

Expander::Expander(const Json& root, const std::string& source)
    : document_(root, source),
      source_name_(source),
      track_(document_.has("unevaluatedProperties") || document_.has("unevaluatedItems")) {
  conds_.emplace_back();  // kAnything
  cond_numbers_[{}] = kAnything;
  made_schemas_.emplace_back(false);
  sources_.push_back({{&made_schemas_.back(), 0, "#"}, {}});
  conds_.push_back({0});  // kNothing
  cond_numbers_[{0}] = kNothing;
}

uint32_t Expander::source_of(const SchemaPlace& place) {
  const auto [known, fresh] = source_numbers_.try_emplace({place.schema, place.resource},
                                                          static_cast<uint32_t>(sources_.size()));
  if (!fresh) return known->second;
  std::vector<uint32_t>& alike = sources_by_hash_[hash_of(*place.schema)];
  for (const uint32_t other : alike) {
    const SchemaPlace& there = sources_[other].place;
    if (there.resource != place.resource || *there.schema != *place.schema) continue;
    return known->second = other;
  }
  alike.push_back(known->second);
  sources_.push_back({place, {}});
  return known->second;
}

uint64_t Expander::hash_of(const Json& json) {
  const auto mix = [](uint64_t sum, uint64_t part) {
    sum = (sum ^ part) * 0x9E3779B97F4A7C15u;
    return sum ^ sum >> 29;
  };
  const auto of_text = [](const std::string& text) { return std::hash<std::string>()(text); };
  const auto type = static_cast<uint64_t>(json.type());
  if (json.is_string()) return mix(type, of_text(json.get_ref<const std::string&>()));
  if (!json.is_structured()) return std::hash<Json>()(json);
  uint64_t& sum = hashes_[&json];
  if (sum != 0) return sum;
  uint64_t all = mix(type, json.size());
  if (json.is_array()) {
    for (const Json& item : json) all = mix(all, hash_of(item));
  } else {
    for (const auto& [name, member] : json.items()) {
      all = mix(mix(all, of_text(name)), hash_of(member));
    }
  }
  return hashes_[&json] = all;
}

CondId Expander::cond_of(const SchemaPlace& place, bool positive) {
  const Json& schema = *place.schema;
  if (schema.is_boolean()) return schema.get<bool>() == positive ? kAnything : kNothing;
  if (!schema.is_object())
    document_.refuse(place.path, "expected a schema: an object, true or false");
  if (schema.empty()) return positive ? kAnything : kNothing;
  return cond_of(std::vector<Literal>{2 * source_of(place) + !positive});
}

CondId Expander::cond_of(std::vector<Literal> literals) {
  std::sort(literals.begin(), literals.end());
  literals.erase(std::unique(literals.begin(), literals.end()), literals.end());
  for (size_t i = 0; i < literals.size(); ++i) {
    if (literals[i] == 0) return kNothing;
    if (i > 0 && literals[i] == literals[i - 1] + 1 && literals[i] % 2 == 1) return kNothing;
  }
  const auto [known, fresh] =
      cond_numbers_.try_emplace(literals, static_cast<CondId>(conds_.size()));
  if (fresh) {
    if (conds_.size() > kMostConds) document_.refuse("#", "the schema combines too many parts");
    conds_.push_back(std::move(literals));
  }
  return known->second;
}

CondId Expander::part(const SchemaPlace& around, const Json& schema, const std::string& step,
                      bool positive) {
  return cond_of(document_.place(schema, around.resource, concat(around.path, "/", step)),
                 positive);
}

CondId Expander::made(Json schema, const SchemaPlace& around, bool positive) {
  made_schemas_.push_back(std::move(schema));
  return cond_of(SchemaPlace{&made_schemas_.back(), around.resource, around.path}, positive);
}

CondId Expander::both(CondId a, CondId b) {
  if (a == b || b == kAnything) return a;
  if (a == kAnything) return b;
  if (a == kNothing || b == kNothing) return kNothing;
  std::vector<Literal> all = conds_[a];
  all.insert(all.end(), conds_[b].begin(), conds_[b].end());
  return cond_of(std::move(all));
}

CondId Expander::either(const std::vector<CondId>& conds) {
  std::vector<CondId> some;
  for (CondId cond : conds) {
    if (cond == kAnything) return kAnything;
    if (cond != kNothing) some.push_back(cond);
  }
  std::sort(some.begin(), some.end());
  some.erase(std::unique(some.begin(), some.end()), some.end());
  if (some.empty()) return kNothing;
  if (some.size() == 1) return some[0];
  const auto [known, fresh] =
      any_numbers_.try_emplace(some, static_cast<uint32_t>(sources_.size()));
  if (fresh) sources_.push_back({{nullptr, 0, path(some[0])}, some});
  return cond_of(std::vector<Literal>{2 * known->second});
}

CondId Expander::inverse(CondId cond) {
  if (cond == kAnything) return kNothing;
  if (cond == kNothing) return kAnything;
  std::vector<CondId> each;
  for (Literal literal : conds_[cond]) each.push_back(cond_of(std::vector<Literal>{literal ^ 1}));
  return either(each);
}

std::string Expander::path(CondId cond) const {
  return conds_[cond].empty() ? "#" : sources_[conds_[cond][0] / 2].place.path;
}

void Expander::note(const std::string& path, const std::string& what) {
  std::string text = concat(source_name_, ": ", printable(path), ": ", what);
  if (!noted_.insert(text).second) return;
  if (notes_.size() < kMostNotes) {
    notes_.push_back(std::move(text));
  } else if (notes_.size() == kMostNotes) {
    notes_.push_back(concat(source_name_, ": more notes like these"));
  }
}

std::optional<std::vector<CondId>> Expander::choices(CondId cond) {
  if (conds_[cond].size() != 1 || conds_[cond][0] % 2 == 1) return std::nullopt;
  const Source& source = sources_[conds_[cond][0] / 2];
  if (!source.place.schema) return source.any;
  if (!source.place.schema->is_object()) return std::nullopt;
  const SchemaPlace place = source.place;
  const char* found = nullptr;
  constexpr std::string_view kSilent[] = {"title",    "description", "default", "examples",
                                          "$schema",  "$id",         "$defs",   "definitions",
                                          "$comment", "$anchor",     "id"};
  for (const auto& [keyword, value] : place.schema->items()) {
    if (std::find(std::begin(kSilent), std::end(kSilent), keyword) != std::end(kSilent)) continue;
    if (found) return std::nullopt;
    found = keyword == "$ref"    ? "$ref"
            : keyword == "anyOf" ? "anyOf"
            : keyword == "oneOf" ? "oneOf"
                                 : nullptr;
    if (!found) return std::nullopt;
  }
  if (!found || track_) return std::nullopt;
  const Json& value = *find(place, found);
  if (found[0] == '$') {
    if (!value.is_string()) return std::nullopt;
    return std::vector{cond_of(document_.target(value.get<std::string>(), place, false), true)};
  }
  if (!value.is_array() || value.empty()) return std::nullopt;
  std::vector<CondId> all;
  for (size_t i = 0; i < value.size(); ++i) {
    all.push_back(part(place, value[i], concat(found, "/", i), true));
  }
  if (found[0] == 'o' && !is_exclusive(all)) return std::nullopt;
  return all;
}

const Union& Expander::expand(CondId cond) {
  static const Union kNone;
  if (cond == kNothing) return kNone;
  auto& known = expanded_[cond];
  if (known) return *known;
  Union result = any_value();
  const std::vector<Literal> literals = conds_[cond];
  if (literals.size() == 1) return expand_literal(literals[0]);
  const Open<CondId> open(open_conds_, cond);
  for (size_t i = 0; i < literals.size(); ++i) {
    const Union& next = expand_literal(literals[i]);
    result = i == 0 ? next : both(result, next);
  }
  return *(expanded_[cond] = std::make_unique<Union>(std::move(result)));
}

bool Expander::is_nothing(CondId cond) {
  if (cond == kNothing) return true;
  if (conds_[cond].size() < 2 || open_conds_.count(cond) || open_conds_.size() > kMostOpen) {
    return false;
  }
  for (Literal literal : conds_[cond]) {
    if (open_literals_.count(literal)) return false;
  }
  try {
    return expand(cond).empty();
  } catch (const TooComplex&) {
    return false;
  }
}

const Union& Expander::expand_literal(Literal literal) {
  const auto known = literals_.find(literal);
  if (known != literals_.end()) return *known->second;
  const Source& source = sources_[literal / 2];
  if (open_literals_.count(literal) || open_literals_.size() > kMostOpen) {
    document_.refuse(source.place.path, "$ref leads in a circle");
  }
  const Open<Literal> open(open_literals_, literal);
  const bool positive = literal % 2 == 0;
  Union result;
  if (source.place.schema) {
    result = positive ? must(source.place) : must_not(source.place);
  } else {
    if (!positive) result = any_value();
    for (CondId cond : std::vector<CondId>(source.any)) {
      if (positive) {
        add(result, expand(cond));
      } else {
        result = both(result, expand(inverse(cond)));
      }
    }
  }
  return *(literals_[literal] = std::make_unique<Union>(std::move(result)));
}

}  // namespace skald
