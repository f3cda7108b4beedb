// A schema document: which schema a reference means.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "app/files/json_fwd.h"

namespace skald {

// A schema, and the resource (a schema with an $id) whose address its references start from.
struct SchemaPlace {
  const Json* schema;
  uint32_t resource;
  std::string path;  // in messages: "#/properties/age"
};

class SchemaDocument {
 public:
  // `root` must outlive the document. `source` names it at the start of messages.
  SchemaDocument(const Json& root, std::string source);

  SchemaPlace root() const { return {&root_, 0, "#"}; }

  // Up to draft 7, the keywords beside a $ref mean nothing.
  bool ref_stands_alone(uint32_t resource) const { return resources_[resource].old; }
  // Draft 4 and older: 1.0 is no integer.
  bool is_draft_4() const;
  bool has(std::string_view keyword) const;  // anywhere in the document

  // The schema at `schema`, a part of a schema in `resource`.
  SchemaPlace place(const Json& schema, uint32_t resource, std::string path) const;

  // The schema that a $ref or $dynamicRef at `from` means. Throws Error(Exit::Usage) if it does not
  // exist or is in another document.
  SchemaPlace target(const std::string& reference, const SchemaPlace& from, bool dynamic) const;

  [[noreturn]] void refuse(const std::string& path, const std::string& what) const;

 private:
  struct Resource {
    std::string address;
    const Json* root;
    std::string path;
    bool old;
  };
  struct Anchor {
    const Json* schema;
    uint32_t resource;
    std::string path;
  };

  void visit(const Json& json, uint32_t resource, const std::string& path, int depth);
  uint32_t resource_of(const Json& schema, uint32_t around) const;

  const Json& root_;
  std::string source_;
  std::vector<Resource> resources_;
  std::map<const Json*, uint32_t> resource_roots_;
  std::map<std::string, Anchor> anchors_;               // by address#name
  std::map<std::string, std::vector<Anchor>> dynamic_;  // by name
  std::map<std::string, bool, std::less<>> keywords_;
};

}  // namespace skald
