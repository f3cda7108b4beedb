// Expands schemas into normal form (forms.h).
//
// What cannot be kept exactly becomes looser where a schema must hold, and stricter where it must
// not, so that no text is valid without a note that says so:
//   must hold, too complex      a note, and the keyword is ignored
//   must not hold, too complex  fewer alternatives, no note
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "app/schema/document.h"
#include "app/schema/forms.h"
#include "app/schema/languages.h"

namespace skald {

// Thrown within the expander if a combination has too many alternatives.
struct TooComplex {};

class Expander {
 public:
  Expander(const Json& root, const std::string& source);

  const SchemaDocument& document() const { return document_; }
  Languages& languages() { return languages_; }

  CondId root() { return cond_of(document_.root(), true); }
  CondId both(CondId a, CondId b);
  CondId either(const std::vector<CondId>& conds);
  CondId inverse(CondId cond);

  const Union& expand(CondId cond);
  // True if no value satisfies the condition; false also if that is not known.
  bool is_nothing(CondId cond);
  // If the condition is one reference or one choice of schemas and nothing else: those schemas.
  std::optional<std::vector<CondId>> choices(CondId cond);
  std::string path(CondId cond) const;

  // True if a text or a name belongs to a form. Names are the keys of members.
  bool holds(const StringForm& form, const std::string& text);
  bool holds(const NumberForm& form, const NumberBound& value) const;
  bool is_name(CondId cond, const std::string& name);
  bool covers(const Names& names, const std::string& name);
  CondId cond_of_name(const ObjectForm& form, const std::string& name);

  void note(const std::string& path, const std::string& what);
  const std::vector<std::string>& notes() const { return notes_; }
  const std::vector<std::string>& unknown() const { return unknown_; }

 private:
  using Literal = uint32_t;  // 2 * source + (1 if negated)
  struct Source {
    SchemaPlace place;
    std::vector<CondId> any;  // if there is no schema: one of these conditions
  };
  struct Applied {  // a schema that applies to the same value as the schema around it
    CondId cond;
    std::string path;
  };

  uint32_t source_of(const SchemaPlace& place);  // equal schemas are one source
  uint64_t hash_of(const Json& json);
  CondId cond_of(const SchemaPlace& place, bool positive);
  CondId cond_of(std::vector<Literal> literals);
  CondId part(const SchemaPlace& around, const Json& schema, const std::string& step,
              bool positive);
  CondId made(Json schema, const SchemaPlace& around, bool positive);

  const Union& expand_literal(Literal literal);
  Union must(const SchemaPlace& place);
  Union must_not(const SchemaPlace& place);

  // must.cpp
  Union own(const SchemaPlace& place);
  Union own_types(const SchemaPlace& place);
  void own_numbers(const SchemaPlace& place, Union& result);
  void own_strings(const SchemaPlace& place, Union& result);
  void own_arrays(const SchemaPlace& place, ArrayForm& form);
  void own_objects(const SchemaPlace& place, ObjectForm& form);
  void apply_choices(const SchemaPlace& place, Union& result);
  void apply_one_of(const SchemaPlace& place, Union& result);
  void apply_if(const SchemaPlace& place, Union& result);
  void apply_dependencies(const SchemaPlace& place, Union& result);
  void apply_unevaluated(const SchemaPlace& place, Union& result);
  Union values(const Json& list, const SchemaPlace& place);
  bool is_exclusive(const std::vector<CondId>& choices);

  // must_not.cpp
  void not_scalars(const SchemaPlace& place, Union& result);
  void not_arrays(const SchemaPlace& place, Union& result);
  void not_objects(const SchemaPlace& place, Union& result);
  void not_applied(const SchemaPlace& place, Union& result);
  Union not_values(const Json& list, const SchemaPlace& place);

  // combine.cpp
  Union both(const Union& a, const Union& b);
  bool both(const NumberForm& a, const NumberForm& b, std::vector<NumberForm>& out);
  bool both(const StringForm& a, const StringForm& b, std::vector<StringForm>& out);
  bool both(const ArrayForm& a, const ArrayForm& b, std::vector<ArrayForm>& out);
  bool both(const ObjectForm& a, const ObjectForm& b, std::vector<ObjectForm>& out);

  // keywords.cpp
  const Json* find(const SchemaPlace& place, const char* keyword) const;
  bool is_true(const SchemaPlace& place, const char* keyword) const;
  uint64_t count(const SchemaPlace& place, const char* keyword, uint64_t missing) const;
  std::optional<NumberBound> bound(const SchemaPlace& place, const char* keyword,
                                   bool exclusive) const;
  std::vector<std::string> names(const Json& list, const std::string& path) const;
  void check_keywords(const SchemaPlace& place);

  SchemaDocument document_;
  std::string source_name_;
  Languages languages_;
  bool track_;  // the document says what must hold for unevaluated members or items
  std::deque<Source> sources_;
  std::map<std::pair<const Json*, uint32_t>, uint32_t> source_numbers_;
  std::unordered_map<uint64_t, std::vector<uint32_t>> sources_by_hash_;
  std::unordered_map<const Json*, uint64_t> hashes_;  // of objects and arrays
  std::map<std::vector<CondId>, uint32_t> any_numbers_;
  std::deque<std::vector<Literal>> conds_;
  std::map<std::vector<Literal>, CondId> cond_numbers_;
  std::deque<Json> made_schemas_;
  std::unordered_map<Literal, std::unique_ptr<Union>> literals_;
  std::unordered_map<CondId, std::unique_ptr<Union>> expanded_;
  std::set<Literal> open_literals_;
  std::set<CondId> open_conds_;
  size_t work_ = 0;
  std::vector<std::string> notes_;
  std::set<std::string> noted_;
  std::vector<std::string> unknown_;
};

}  // namespace skald
