// skald ls: lists the models in Hugging Face's cache.
#include <map>
#include <memory>

#include "app/files/json.h"
#include "app/hub/cached_models.h"
#include "app/hub/settings.h"
#include "app/program/command.h"
#include "app/program/commands.h"
#include "app/terminal/output.h"
#include "app/terminal/table.h"
#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "engine/quant/dtype.h"
#include "models/open.h"

namespace skald {
namespace {

struct ListFlags {
  bool json = false;
};

struct Row {
  CachedModel model;
  std::string family, type;
  int64_t context = 0;
  std::string problem;  // why skald cannot open it; empty: it can
};

// The weights' format that takes most bytes.
std::string main_type(const OpenedModel& opened) {
  std::map<std::string_view, int64_t> bytes;
  for (const Tensor& tensor : opened.model.weights->tensors()) {
    bytes[name(tensor.view.type)] += tensor.view.bytes();
  }
  std::string_view best;
  for (const auto& [type, count] : bytes) {
    if (best.empty() || count > bytes[best]) best = type;
  }
  return std::string(best);
}

Row describe(CachedModel model) {
  Row row{std::move(model), "", "", 0, ""};
  row.type = row.model.type;
  try {
    const OpenedModel opened = open_model(row.model.path);
    row.family = opened.family;
    row.context = opened.model.config.context;
    if (row.type.empty()) row.type = main_type(opened);
  } catch (const Error& error) {
    row.problem = error.what();
  }
  return row;
}

Json to_json(const Row& row) {
  Json json = {{"name", row.model.name},
               {"repository", row.model.repository},
               {"commit", row.model.commit},
               {"path", row.model.path.string()},
               {"bytes", row.model.bytes},
               {"type", row.type.empty() ? Json() : Json(row.type)},
               {"family", row.family.empty() ? Json() : Json(row.family)},
               {"context", row.problem.empty() ? Json(row.context) : Json()}};
  if (!row.problem.empty()) json["problem"] = row.problem;
  return json;
}

int list_models(const ListFlags& flags) {
  const std::filesystem::path cache = hub_cache_folder();
  Table table{{"name", "family", "type", "size", "context"}, {}};
  Json models = Json::array(), unfinished = Json::array();
  std::string notes;
  int unreadable = 0;
  for (const CachedRepository& repository : cached_repositories(cache)) {
    for (CachedModel& model : cached_models(repository)) {
      const Row row = describe(std::move(model));
      if (flags.json) models.push_back(to_json(row));
      const bool good = row.problem.empty();
      table.rows.push_back({printable(row.model.name), good ? row.family : "-",
                            row.type.empty() ? "-" : printable(row.type),
                            size_text(row.model.bytes), good ? std::to_string(row.context) : "-"});
      unreadable += good ? 0 : 1;
    }
    if (const int64_t bytes = unfinished_bytes(repository); bytes > 0) {
      unfinished.push_back({{"repository", repository.name()}, {"bytes", bytes}});
      notes += concat("skald: ", printable(repository.name()), ": an unfinished download of ",
                      size_text(bytes), "; 'skald pull' goes on with it, 'skald rm' removes it\n");
    }
  }
  if (flags.json) {
    const Json report = {{"cache", cache.string()}, {"models", models}, {"unfinished", unfinished}};
    StandardOutput().write(dump(report, 2) + "\n");
    return 0;
  }
  if (table.rows.empty()) {
    std::fprintf(stderr, "skald: no models in %s; to get one: skald pull llama3.2:1b\n",
                 printable(cache.string()).c_str());
  } else {
    StandardOutput().write(to_text(table));
  }
  if (unreadable > 0) {
    std::fprintf(stderr, "skald: %d of them cannot be used; 'skald ls --json' says why\n",
                 unreadable);
  }
  std::fputs(notes.c_str(), stderr);
  return 0;
}

}  // namespace

void add_ls(Command& program) {
  Command& command =
      program.add_command("ls",
                          "Lists the models in Hugging Face's cache. 'skald pull' and Hugging "
                          "Face's own tools fill it, "
                          "and -m\n"
                          "accepts the names.",
                          {"skald ls", "skald ls --json | jq -r '.models[] | .path'"});
  auto flags = std::make_shared<ListFlags>();
  command.flag("--json", flags->json, "Print one JSON object").group("Output");
  command.action([=] { return list_models(*flags); });
}

}  // namespace skald
