// The input is a hub's answer about a repository, from which files are chosen; or a model's name as
// a user types it.
#include <string>
#include <string_view>
#include <vector>

#include "app/hub/choice.h"
#include "app/hub/reference.h"
#include "app/hub/remote.h"
#include "engine/base/error.h"
#include "tests/fuzz/driver.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace skald;
  const std::string text(reinterpret_cast<const char*>(data), size);
  try {
    if (!text.starts_with('{')) {
      const HubReference reference = remote_reference(text);
      check(is_repository(reference.repository), "a repository has an owner and a name");
      check(("/" + reference.file + "/").find("/../") == std::string::npos,
            "a file stays in its repository");
      to_text(reference);
      return 0;
    }
    const RemoteRepository repository = parse_listing(text, {.repository = "a/b"}, "hub");
    std::vector<std::string> names;
    for (const RemoteFile& file : repository.files) {
      check(("/" + file.name).find("/../") == std::string::npos, "a name stays in its folder");
      names.push_back(file.name);
    }
    folder_files(names);
    const auto models = gguf_models(names);
    for (const GgufModel& model : models) choose_gguf(models, model.type, "a/b");
  } catch (const Error&) {
  }
  return 0;
}
