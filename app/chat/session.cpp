#include "app/chat/session.h"

#include "app/chat/transcript.h"
#include "app/generate/cache_file.h"
#include "engine/base/error.h"
#include "engine/base/printable.h"

namespace skald {

ChatSession::ChatSession(std::filesystem::path path, std::string_view model, Executor& executor)
    : path_(std::move(path)), executor_(executor), key_(cache_key(model, executor)) {}

ChatSession::Resumed ChatSession::resume(Dialogue& dialogue) {
  std::optional<CacheFile> file = CacheFile::open(path_);
  if (!file) return {};
  const std::string name = printable(path_.string());
  if (!file->problem().empty()) {
    fail(Exit::Failed, name, ": ", file->problem(), "; name another file, or move it away");
  }
  if (file->note().empty()) {
    fail(Exit::Failed, name, ": is a prompt's cache, no dialogue; name another file");
  }
  dialogue.replace(read_transcript(file->note(), name));
  Resumed resumed;
  const int64_t cached = std::ssize(file->tokens());
  if (cached == 0) {
    resumed.missing = "it was not saved";
  } else if (file->key() != key_) {
    resumed.missing = "it belongs to another model, other settings or another machine";
  } else if (cached > executor_.context()) {
    resumed.missing = "it is longer than the context";
  } else if (!file->restore(dialogue.session(), cached, executor_)) {
    resumed.missing = "it is damaged";
  } else {
    resumed.cached = cached;
  }
  return resumed;
}

void ChatSession::write(const Dialogue& dialogue, int64_t cached) {
  const std::string messages = transcript(dialogue.messages());
  write_cache_file(path_, dialogue.session(), cached, executor_, {key_, messages});
}

void ChatSession::save_messages(const Dialogue& dialogue) { write(dialogue, 0); }

void ChatSession::save(Dialogue& dialogue) {
  dialogue.trim();
  write(dialogue, dialogue.session().computed());
}

}  // namespace skald
