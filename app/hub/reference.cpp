#include "app/hub/reference.h"

#include <algorithm>
#include <cctype>

#include "app/hub/text.h"
#include "engine/base/error.h"
#include "engine/base/printable.h"

namespace skald {
namespace {

struct ShortName {
  std::string_view name, size, repository;
  std::string_view whole;  // "llama3.2:1b"
};
constexpr ShortName kShortNames[] = {
#define SHORT_NAME(name, size, repository) {name, size, repository, name ":" size},
#include "app/hub/short_names.inc"
#undef SHORT_NAME
};

bool is_word(std::string_view text, std::string_view also) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [&](unsigned char c) {
    return (c < 0x80 && std::isalnum(c)) || also.find(static_cast<char>(c)) != also.npos;
  });
}

// Owner or name. The cache writes "owner--name", so that neither may have "--".
bool is_part(std::string_view text) {
  return is_word(text, "-_.") && text.size() <= 96 && text.front() != '-' && text.front() != '.' &&
         text.back() != '-' && text.back() != '.' && text.find("--") == text.npos &&
         text.find("..") == text.npos;
}

// A path below the repository that leads nowhere else.
bool is_inner_path(std::string_view path) {
  while (true) {
    const size_t end = std::min(path.find('/'), path.size());
    const std::string_view part = path.substr(0, end);
    if (part.empty() || part == "." || part == "..") return false;
    if (end == path.size()) return true;
    path.remove_prefix(end + 1);
  }
}

// Takes what stands behind the last `separator`; empty where there is none.
std::string take_behind(std::string& text, char separator) {
  const size_t at = text.rfind(separator);
  if (at == std::string::npos) return "";
  std::string behind = text.substr(at + 1);
  text.erase(at);
  return behind;
}

// Returns "owner/name@revision/file" for a web address of the hub, else the text itself.
std::string without_address(std::string_view text) {
  bool address = false;
  for (std::string_view start : {"https://", "http://", "www.", "huggingface.co/", "hf.co/"}) {
    if (!text.starts_with(start)) continue;
    text.remove_prefix(start.size());
    address = true;
  }
  std::string rest(text);
  if (!address) return rest;
  while (rest.ends_with("/")) rest.pop_back();
  rest.erase(std::min(rest.find('?'), rest.size()));
  for (std::string_view page : {"/tree/", "/blob/", "/resolve/"}) {
    const size_t at = rest.find(page);
    if (at != std::string::npos) rest.replace(at, page.size(), "@");
  }
  return rest;
}

}  // namespace

bool is_repository(std::string_view text) {
  const size_t slash = text.find('/');
  return slash != text.npos && is_part(text.substr(0, slash)) && is_part(text.substr(slash + 1));
}

std::optional<HubReference> parse_reference(std::string_view text) {
  HubReference found;
  std::string rest = without_address(text);
  if (rest.find(':') != std::string::npos) {
    found.type = upper(take_behind(rest, ':'));
    if (!is_word(found.type, "-_.")) return {};
    if (found.type == "LATEST") found.type.clear();
  }
  // OWNER/NAME/FILE or OWNER/NAME@REVISION/FILE; FILE may contain folders.
  const size_t at = rest.find('@');
  if (at != std::string::npos) {
    found.revision = rest.substr(at + 1);
    rest.erase(at);
    const size_t slash = found.revision.find('/');
    if (slash != std::string::npos) {
      found.file = found.revision.substr(slash + 1);
      found.revision.erase(slash);
    }
    if (!is_word(found.revision, "-_.") || found.revision.find("..") != std::string::npos)
      return {};
    if (slash != std::string::npos && !is_inner_path(found.file)) return {};
  } else if (size_t slash = rest.find('/'); slash != std::string::npos) {
    slash = rest.find('/', slash + 1);
    if (slash != std::string::npos) {
      found.file = rest.substr(slash + 1);
      rest.erase(slash);
      if (!is_inner_path(found.file)) return {};
    }
  }
  if (!is_repository(rest) && !is_part(rest)) return {};
  found.repository = std::move(rest);
  return found;
}

std::optional<HubReference> parse_short_name(std::string_view text) {
  const size_t colon = text.find(':');
  const std::string name = lower(text.substr(0, colon));
  std::string tag = colon == text.npos ? "" : lower(text.substr(colon + 1));
  if (tag == "latest") tag.clear();
  for (const ShortName& one : kShortNames) {
    if (one.name != name) continue;
    // The tag is a size, a type, or both as in 1b-instruct-q8_0. The first size is the default.
    const bool sized = tag == one.size || tag.starts_with(concat(one.size, "-"));
    const bool other_size =
        std::any_of(std::begin(kShortNames), std::end(kShortNames), [&](const ShortName& other) {
          return other.name == name &&
                 (tag == other.size || tag.starts_with(concat(other.size, "-")));
        });
    if (!sized && other_size) continue;
    HubReference found;
    found.repository = one.repository;
    std::string type = sized ? tag.substr(std::min(tag.size(), one.size.size() + 1)) : tag;
    for (std::string_view kind : {"instruct", "chat", "it"}) {
      if (type == kind) type.clear();
      if (type.starts_with(concat(kind, "-"))) type.erase(0, kind.size() + 1);
    }
    if (!type.empty() && !is_word(type, "-_.")) return {};
    found.type = upper(type);
    return found;
  }
  return {};
}

// Throws if the text is a short name with a size that the name does not have.
void check_size(std::string_view text) {
  const size_t colon = text.find(':');
  if (colon == text.npos) return;
  const std::string name = lower(text.substr(0, colon)), tag = lower(text.substr(colon + 1));
  const std::string size = tag.substr(0, tag.find('-'));
  const bool is_size = size.size() > 1 && (size.back() == 'b' || size.back() == 'm') &&
                       size.find_first_not_of("0123456789.x") == size.size() - 1;
  std::string sizes;
  for (const ShortName& one : kShortNames) {
    if (one.name != name) continue;
    if (one.size == size) return;
    sizes += concat(sizes.empty() ? "" : ", ", one.size);
  }
  if (!is_size || sizes.empty()) return;
  fail(Exit::Usage, "'", printable(text), "': ", name, " has no size ", size, "; it has ", sizes);
}

HubReference remote_reference(std::string_view text) {
  check_size(text);
  if (auto known = parse_short_name(text)) return *known;
  const auto found = parse_reference(text);
  if (found && found->has_owner()) return *found;
  if (!found) {
    fail(Exit::Usage, "'", printable(text),
         "' is no name of the hub; expected OWNER/NAME, OWNER/NAME:TYPE or a short name such as "
         "llama3.2:1b");
  }
  const std::string_view meant = nearest(found->repository, short_names());
  fail(Exit::Usage, "'", printable(text), "': there is no such short name",
       meant.empty() ? "" : concat(", did you mean '", meant, "'?"),
       meant.empty() ? "; give the owner too, as in OWNER/NAME"
                     : " Else give the owner too, as in OWNER/NAME");
}

std::string to_text(const HubReference& reference) {
  std::string text = reference.repository;
  if (!reference.revision.empty()) text += "@" + reference.revision;
  if (!reference.file.empty()) text += "/" + reference.file;
  if (!reference.type.empty()) text += ":" + reference.type;
  return text;
}

std::vector<std::string_view> short_names() {
  std::vector<std::string_view> names;
  std::string_view last;
  for (const ShortName& one : kShortNames) {
    if (one.name != last) names.push_back(last = one.name);
    names.push_back(one.whole);
  }
  return names;
}

std::vector<std::string_view> short_repositories() {
  std::vector<std::string_view> all;
  for (const ShortName& one : kShortNames) all.push_back(one.repository);
  return all;
}

}  // namespace skald
