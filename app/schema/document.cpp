#include "app/schema/document.h"

#include <algorithm>
#include <charconv>

#include "app/files/json.h"
#include "engine/base/error.h"
#include "engine/base/printable.h"

namespace skald {
namespace {

bool has_scheme(std::string_view address) {
  const size_t colon = address.find(':');
  return colon != std::string_view::npos && colon > 0 && address.find_first_of("/?#") > colon;
}

// Takes "." and ".." out of the path of an address.
std::string without_dots(std::string address) {
  const size_t scheme = address.find("://");
  const size_t path = scheme == std::string::npos ? 0 : address.find('/', scheme + 3);
  if (path == std::string::npos || address.find("/.", path) == std::string::npos) return address;
  std::string out = address.substr(0, path);
  for (size_t at = path; at < address.size();) {
    const size_t end = std::min(address.find('/', at + 1), address.size());
    const std::string_view part = std::string_view(address).substr(at, end - at);
    if (part == "/..") {
      const size_t last = out.rfind('/');
      out.erase(last == out.npos ? path : std::max(last, path));
    }
    const bool dots = part == "/." || part == "/..";
    if (!dots) out += part;
    if (dots && end == address.size()) out += '/';
    at = end;
  }
  if (path == 0 && address[0] != '/' && out.starts_with('/')) out.erase(0, 1);
  return out;
}

// The address that `reference` means within a resource at `base`; without a fragment.
std::string resolve(const std::string& base, const std::string& reference) {
  if (reference.empty()) return base;
  if (has_scheme(reference)) return reference;
  const size_t scheme = base.find("://");
  const size_t path = scheme == std::string::npos ? 0 : base.find('/', scheme + 3);
  if (reference[0] == '/') {
    return without_dots(path == std::string::npos ? base + reference
                                                  : base.substr(0, path) + reference);
  }
  const size_t slash = base.rfind('/');
  const bool in_path = slash != std::string::npos && path != std::string::npos && slash >= path;
  if (!in_path) return scheme == std::string::npos ? reference : base + "/" + reference;
  return without_dots(base.substr(0, slash + 1) + reference);
}

std::string percent_decoded(std::string_view text) {
  std::string part;
  for (size_t i = 0; i < text.size(); ++i) {
    int code = 0;
    if (text[i] == '%' && i + 2 < text.size() &&
        std::from_chars(&text[i + 1], &text[i + 1] + 2, code, 16).ptr == &text[i + 1] + 2) {
      part += static_cast<char>(code);
      i += 2;
    } else {
      part += text[i];
    }
  }
  return part;
}

const Json* step(const Json& at, std::string_view name) {
  std::string part;
  for (size_t i = 0; i < name.size(); ++i) {
    const bool escaped =
        name[i] == '~' && i + 1 < name.size() && (name[i + 1] == '0' || name[i + 1] == '1');
    part += !escaped ? name[i] : name[++i] == '0' ? '~' : '/';
  }
  if (at.is_object() && at.contains(part)) return &at[part];
  if (at.is_array()) {
    size_t index = 0;
    const auto parsed = std::from_chars(part.data(), part.data() + part.size(), index);
    const bool whole = parsed.ec == std::errc() && parsed.ptr == part.data() + part.size();
    if (whole && index < at.size()) return &at[index];
  }
  return nullptr;
}

std::string text_of(const Json& schema, const char* keyword) {
  if (!schema.is_object()) return {};
  const auto found = schema.find(keyword);
  return found != schema.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::string without_fragment(const std::string& address) {
  return address.substr(0, address.find('#'));
}

bool is_old(const Json& schema, bool otherwise) {
  const std::string draft = text_of(schema, "$schema");
  if (draft.empty()) return otherwise;
  return draft.find("draft-0") != std::string::npos;
}

}  // namespace

SchemaDocument::SchemaDocument(const Json& root, std::string source)
    : root_(root), source_(std::move(source)) {
  resources_.push_back({"", &root_, "#", is_old(root_, false)});
  visit(root_, 0, "#", 0);
}

bool SchemaDocument::is_draft_4() const {
  const std::string draft = text_of(root_, "$schema");
  return draft.find("draft-03") != std::string::npos || draft.find("draft-04") != std::string::npos;
}

bool SchemaDocument::has(std::string_view keyword) const {
  return keywords_.find(keyword) != keywords_.end();
}

// Finds resources, anchors and the keywords that matter for the whole document. Values of enum and
// const are no schemas.
void SchemaDocument::visit(const Json& json, uint32_t resource, const std::string& path,
                           int depth) {
  if (json.is_array()) {
    for (size_t i = 0; i < json.size(); ++i) {
      if (json[i].is_structured()) visit(json[i], resource, concat(path, "/", i), depth + 1);
    }
    return;
  }
  if (!json.is_object()) return;
  std::string id = text_of(json, "$id");
  if (id.empty() && resources_[resource].old) id = text_of(json, "id");
  const bool old = is_old(json, resources_[resource].old);
  const bool alone = old && json.contains("$ref");
  if (!id.empty() && id[0] == '#' && !alone) {  // up to draft 7
    anchors_[resources_[resource].address + id] = {&json, resource, path};
  } else if (!id.empty() && !alone) {
    const std::string address = without_fragment(resolve(resources_[resource].address, id));
    if (depth == 0) {
      resources_[0].address = address;
    } else {
      resource = static_cast<uint32_t>(resources_.size());
      resources_.push_back({address, &json, path, old});
      resource_roots_[&json] = resource;
    }
  }
  const std::string anchor = text_of(json, "$anchor"), dynamic = text_of(json, "$dynamicAnchor");
  const std::string& address = resources_[resource].address;
  if (!anchor.empty()) anchors_[address + "#" + anchor] = {&json, resource, path};
  if (!dynamic.empty()) {
    anchors_[address + "#" + dynamic] = {&json, resource, path};
    dynamic_[dynamic].push_back({&json, resource, path});
  }
  for (const auto& [keyword, value] : json.items()) {
    if (keyword.starts_with("unevaluated")) keywords_[keyword] = true;
    if (!value.is_structured() || keyword == "enum" || keyword == "const") continue;
    visit(value, resource, path + "/" + keyword, depth + 1);
  }
}

uint32_t SchemaDocument::resource_of(const Json& schema, uint32_t around) const {
  const auto found = resource_roots_.find(&schema);
  return found == resource_roots_.end() ? around : found->second;
}

SchemaPlace SchemaDocument::place(const Json& schema, uint32_t resource, std::string path) const {
  return {&schema, resource_of(schema, resource), std::move(path)};
}

SchemaPlace SchemaDocument::target(const std::string& reference, const SchemaPlace& from,
                                   bool dynamic) const {
  const auto missing = [&]() {
    refuse(from.path,
           concat("$ref '", printable(reference), "' refers to a place that does not exist"));
  };
  const size_t hash = reference.find('#');
  const std::string address =
      without_fragment(resolve(resources_[from.resource].address, reference.substr(0, hash)));
  const std::string fragment = hash == std::string::npos
                                   ? ""
                                   : percent_decoded(std::string_view(reference).substr(hash + 1));
  if (!fragment.empty() && fragment[0] != '/') {
    const auto found = anchors_.find(address + "#" + fragment);
    if (found == anchors_.end()) missing();
    const Anchor& anchor = found->second;
    if (dynamic && text_of(*anchor.schema, "$dynamicAnchor") == fragment &&
        dynamic_.at(fragment).size() > 1) {
      refuse(from.path, concat("$dynamicRef '", printable(reference),
                               "' may mean several schemas, which is not supported"));
    }
    return {anchor.schema, anchor.resource, anchor.path};
  }
  const Resource* resource = nullptr;
  for (const Resource& one : resources_) {
    if (one.address == address) resource = resource ? resource : &one;
  }
  if (!resource) {
    refuse(from.path, concat("$ref '", printable(reference),
                             "' refers to another document; only references within it are "
                             "supported"));
  }
  SchemaPlace at{resource->root, static_cast<uint32_t>(resource - resources_.data()),
                 resource->path};
  for (size_t begin = 1; begin <= fragment.size();) {
    const size_t end = std::min(fragment.find('/', begin), fragment.size());
    const std::string_view part = std::string_view(fragment).substr(begin, end - begin);
    const Json* next = step(*at.schema, part);
    if (!next) missing();
    at = place(*next, at.resource, concat(at.path, "/", part));
    begin = end + 1;
  }
  return at;
}

void SchemaDocument::refuse(const std::string& path, const std::string& what) const {
  fail(Exit::Usage, source_, ": ", printable(path), ": ", what);
}

}  // namespace skald
