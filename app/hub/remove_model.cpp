// skald rm: removes models from Hugging Face's cache.
#include <algorithm>
#include <cstdio>
#include <memory>

#include "app/hub/cached_models.h"
#include "app/hub/question.h"
#include "app/hub/settings.h"
#include "app/program/command.h"
#include "app/program/commands.h"
#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "engine/base/size_text.h"

namespace skald {
namespace {

struct RemoveFlags {
  std::string name;
  bool yes = false;
};

struct Found {
  CachedRepository repository;
  HubReference reference;
  std::vector<CachedModel> models;  // to be removed
  bool all = false;                 // the whole repository, with what is unfinished
};

bool is_meant(const CachedModel& model, const Found& found) {
  const HubReference& reference = found.reference;
  if (!reference.revision.empty()) {
    const auto snapshot = found.repository.find_snapshot(reference.revision);
    if (!snapshot || snapshot->filename() != model.commit) return false;
  }
  if (!reference.type.empty() && model.type != reference.type &&
      model.type != "UD-" + reference.type) {
    return false;
  }
  const auto is_file = [&](const std::filesystem::path& file) {
    return file == found.repository.snapshot(model.commit) / reference.file;
  };
  return reference.file.empty() || std::any_of(model.files.begin(), model.files.end(), is_file);
}

std::optional<Found> find(const std::filesystem::path& cache, const HubReference& reference) {
  const auto repository = find_repository(cache, reference.repository);
  if (!repository) return {};
  Found found{*repository, reference, {}, false};
  found.all = reference.type.empty() && reference.file.empty() && reference.revision.empty();
  for (CachedModel& model : cached_models(*repository)) {
    if (is_meant(model, found)) found.models.push_back(std::move(model));
  }
  if (found.models.empty() && !found.all) return {};
  return found;
}

Found find(const std::string& name) {
  const std::filesystem::path cache = hub_cache_folder();
  if (const auto reference = parse_reference(name)) {
    if (auto found = find(cache, *reference)) return *std::move(found);
  }
  if (const auto known = parse_short_name(name)) {
    if (auto found = find(cache, *known)) return *std::move(found);
  }
  std::vector<std::string> names;
  for (const CachedRepository& repository : cached_repositories(cache)) {
    for (const CachedModel& model : cached_models(repository)) names.push_back(model.name);
  }
  const std::string_view meant =
      nearest(name, std::vector<std::string_view>(names.begin(), names.end()));
  fail(Exit::Model, printable(name), ": is not in ", printable(cache.string()),
       meant.empty() ? "; 'skald ls' lists what is there"
                     : concat("; did you mean '", printable(meant), "'?"));
}

int remove_model(const RemoveFlags& flags) {
  if (flags.name.empty()) {
    fail(Exit::Usage, "no model given; usage: skald rm MODEL[:TYPE]; 'skald ls' lists the names");
  }
  const Found found = find(flags.name);
  std::string what;
  for (const CachedModel& model : found.models) {
    what +=
        concat(what.empty() ? "" : ", ", printable(model.name), " (", size_text(model.bytes), ")");
  }
  if (found.all) {
    if (const int64_t bytes = unfinished_bytes(found.repository); bytes > 0 || what.empty()) {
      what += concat(what.empty() ? printable(found.repository.name()) + ", " : ", ",
                     "an unfinished download (", size_text(bytes), ")");
    }
  }
  if (!flags.yes) {
    if (!can_ask()) {
      fail(Exit::Usage, "would remove ", what, "; a script must add -y: skald rm -y ",
           printable(flags.name));
    }
    if (!ask("Remove " + what + "?")) {
      std::fputs("skald: nothing was removed\n", stderr);
      return 0;
    }
  }
  const int64_t freed = found.all ? remove_repository(found.repository)
                                  : remove_models(found.repository, found.models);
  std::fprintf(stderr, "skald: removed %s; %s are free again\n", what.c_str(),
               size_text(freed).c_str());
  return 0;
}

}  // namespace

void add_rm(Command& program) {
  Command& command = program.add_command(
      "rm",
      "Removes a model from Hugging Face's cache. Without TYPE, all that the repository MODEL has "
      "there.\n"
      "Files that another revision or model uses stay.",
      {"skald rm Qwen/Qwen3-8B-GGUF:Q8_0", "skald rm -y llama3.2:1b"});
  auto flags = std::make_shared<RemoveFlags>();
  command.word("name", "MODEL[:TYPE]", flags->name).check(not_empty());
  command
      .flag("-y,--yes", flags->yes, "Remove without a question; needed where stdin is no terminal")
      .group("Output");
  command.action([=] { return remove_model(*flags); });
}

}  // namespace skald
