// Operations on schemas as JSON: resolving references, and merging two schemas that must both be
// valid into one.
#pragma once

#include <string>
#include <string_view>

#include "app/files/json_fwd.h"

namespace skald {

bool is_annotation(std::string_view keyword);  // a keyword that does not restrict values
bool has_constraints(const Json& schema);      // has a keyword that is no annotation

class SchemaDocument {
 public:
  // `root` must outlive the document. `source` names it at the start of messages.
  SchemaDocument(const Json& root, std::string source) : root_(root), source_(std::move(source)) {}

  const Json& root() const { return root_; }

  // Throws Error(Exit::Usage) with path and keyword if a keyword is not supported.
  void check_keywords(const Json& schema, const std::string& path) const;

  // The schema that "#/$defs/x" refers to. Throws if it does not exist or is in another document.
  const Json& target(const std::string& reference, const std::string& path) const;

  // Replaces $ref at the schema's top by the schema that it refers to, merged with the keywords
  // beside $ref.
  Json resolved(const Json& schema, const std::string& path) const;

  // A schema that is valid where both are. Schemas of members and choices become allOf, which is
  // merged when it is compiled. Throws if the two cannot be merged.
  Json merged(const Json& a, const Json& b, const std::string& path) const;

  // True if types and constants show that no value is valid by both schemas.
  bool disjoint(const Json& a, const Json& b, const std::string& path) const;

  [[noreturn]] void refuse(const std::string& path, const std::string& what) const;

 private:
  Json merged_at(const Json& a, const Json& b, const std::string& path, int depth) const;
  Json resolved_at(const Json& schema, const std::string& path, int depth) const;
  // Returns false if no value can be valid by both.
  bool merge_keyword(Json& into, const std::string& keyword, const Json& a, const Json& b,
                     const std::string& path) const;
  void merge_members(Json& into, const Json& a, const Json& b, const std::string& path) const;

  const Json& root_;
  std::string source_;
};

// The types of a schema: those it lists, else those its keywords apply to, else all types.
std::vector<std::string> types_of(const Json& schema);

}  // namespace skald
