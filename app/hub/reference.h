// How a user names a model of the hub: OWNER/NAME or a short name such as llama3.2, then optionally
// @REVISION, /FILE and :TYPE. Also a web address of the hub: https://huggingface.co/OWNER/NAME.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace skald {

struct HubReference {
  std::string repository;  // "owner/name"; "name" alone as long as the owner is not known
  std::string revision;    // a branch, tag or commit; empty: main
  std::string file;        // one file of the repository; empty: what the model needs
  std::string type;        // "Q4_K_M", in capitals; empty: by rule (choice.h)

  bool has_owner() const { return repository.find('/') != std::string::npos; }
};

// Empty if `text` cannot name a model of the hub, for instance because it is a path. Does not
// replace short names.
std::optional<HubReference> parse_reference(std::string_view text);

// The reference with the owner and repository of ollama's short name, as in llama3.2,
// llama3.2:1b or qwen3:8b-q8_0. Empty if the table has no such name.
std::optional<HubReference> parse_short_name(std::string_view text);

// parse_short_name(), else parse_reference(). Throws Error(Exit::Usage) where neither gives an
// owner and a name.
HubReference remote_reference(std::string_view text);

// Returns "owner/name@revision/file:TYPE", which parse_reference() reads.
std::string to_text(const HubReference& reference);

std::vector<std::string_view> short_names();         // "llama3.2:1b", the default size first
std::vector<std::string_view> short_repositories();  // that the short names stand for

bool is_repository(std::string_view text);  // "owner/name" as the hub allows it

}  // namespace skald
