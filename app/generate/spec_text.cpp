#include "app/generate/spec_text.h"

#include "app/files/text_file.h"
#include "engine/base/error.h"
#include "engine/base/size_text.h"

namespace skald {
namespace {

// The index of so large a text takes less than 1 GiB.
constexpr int64_t kMostTextBytes = int64_t{64} << 20;

}  // namespace

std::shared_ptr<const NgramText> read_spec_text(const GuessFlags& flags,
                                                const Tokenizer* tokenizer) {
  if (flags.text.empty() || !flags.by_ngram()) return nullptr;
  if (flags.text == "-") fail(Exit::Usage, "--spec-text: takes a file, and not stdin");
  if (!tokenizer) {
    fail(Exit::Usage, "--spec-text: the model has no tokenizer that could read the file");
  }
  const TextFile file(flags.text);
  if (file.size() > kMostTextBytes) {
    fail(Exit::Usage, "--spec-text ", file.name(), ": has ", size_text(file.size()),
         ", and at most ", size_text(kMostTextBytes), " are searched; name a part of it");
  }
  const std::string text = file.read(0, file.size());
  file.check_text(text, 0);
  EncodeOptions options;
  options.add_bos = options.add_eos = false;
  return std::make_shared<NgramText>(tokenizer->encode(text, options));
}

}  // namespace skald
