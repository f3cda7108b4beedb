// Schemas as data: references, and two schemas that must both hold as one.
#pragma once

#include <string>
#include <string_view>

#include "app/files/json.h"

namespace skald {

// Keywords that say nothing about what is valid.
bool is_annotation(std::string_view keyword);
bool has_constraints(const Json& schema);  // beside annotations

class SchemaDocument {
 public:
  // Borrows the schema. `source` begins messages.
  SchemaDocument(const Json& root, std::string source) : root_(root), source_(std::move(source)) {}

  const Json& root() const { return root_; }

  // Throws Error(Exit::Usage) that names path and keyword for one that is not supported.
  void check_keywords(const Json& schema, const std::string& path) const;

  // What "#/$defs/x" names. Throws where there is nothing, or it is another document.
  const Json& target(const std::string& reference, const std::string& path) const;

  // The schema without $ref at its top: what that names, with what stands beside it.
  Json resolved(const Json& schema, const std::string& path) const;

  // A schema that holds where both do. Members and choices become allOf, to be merged when they are
  // come to. Throws for what cannot be merged.
  Json merged(const Json& a, const Json& b, const std::string& path) const;

  // Whether no value is valid by both, as far as types and constants tell.
  bool disjoint(const Json& a, const Json& b, const std::string& path) const;

  [[noreturn]] void refuse(const std::string& path, const std::string& what) const;

 private:
  Json merged_at(const Json& a, const Json& b, const std::string& path, int depth) const;
  Json resolved_at(const Json& schema, const std::string& path, int depth) const;
  // False when no value can be valid by both.
  bool merge_keyword(Json& into, const std::string& keyword, const Json& a, const Json& b,
                     const std::string& path) const;
  void merge_members(Json& into, const Json& a, const Json& b, const std::string& path) const;

  const Json& root_;
  std::string source_;
};

// The types of a schema, as it says or as its keywords tell; all of them where nothing does.
std::vector<std::string> types_of(const Json& schema);

}  // namespace skald
