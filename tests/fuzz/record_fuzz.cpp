// The input is a file that skald has written and reads again: results, records of a perplexity run,
// saved dialogues and base files. Damage must be noticed. Damage that a checksum does not catch
// must be harmless, so lines are also read with a new checksum.
#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "app/chat/transcript.h"
#include "app/files/json.h"
#include "app/files/sealed_line.h"
#include "app/jobs/earlier_results.h"
#include "app/perplexity/base_file.h"
#include "app/perplexity/log.h"
#include "engine/base/error.h"
#include "tests/fuzz/driver.h"
#include "tests/fuzz/memory_file.h"

namespace {

using namespace skald;

// Every line that is an object, with a checksum of what it says now.
std::string with_new_seals(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string line(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (const size_t seal = line.rfind(",\"checksum\""); seal != std::string::npos) {
      line.resize(seal);
      line += '}';
    }
    out += (line.size() > 2 && line.ends_with('}') ? sealed_line(line) : line) + '\n';
  }
  return out;
}

void read_records(const MemoryFile& file) {
  PplLogReader(
      file.path(), [](const PplHeading& heading) { record_line(heading); },
      [](const PplChunk& chunk) { record_line(chunk); })
      .read();
}

// A compact base file whose head has a checksum of what it says now.
std::string with_new_head(std::string_view text) {
  std::string out(text);
  uint64_t head_bytes = 0;
  if (!text.starts_with(kCompactBase) || text.size() < 16) return out;
  std::memcpy(&head_bytes, text.data() + 8, sizeof head_bytes);
  if (head_bytes > text.size() - 16) return out;
  std::string head = with_new_seals(text.substr(16, head_bytes));
  head.resize(head_bytes, ' ');
  return out.replace(16, head_bytes, head);
}

void read_base(std::string_view text) {
  const MemoryFile file(reinterpret_cast<const uint8_t*>(text.data()), text.size());
  const auto base = open_base_file(file.path());
  if (!base || base->vocab() > 1 << 16) return;
  const std::vector<float> logits(static_cast<size_t>(base->vocab()), 0.5f);
  for (int64_t row = 0; row < 3; ++row) base->compare(row, logits, 0);
}

template <class Read>
void quietly(const Read& read) {
  try {
    read();
  } catch (const Error&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (text.starts_with("SKALDKL") || text.starts_with("_logits_")) {
    quietly([&] { read_base(text); });
    quietly([&] { read_base(with_new_head(text)); });
    return 0;
  }
  quietly([&] { read_transcript(text, "dialogue"); });
  quietly([&] { result_name(text.substr(0, text.find('\n'))); });
  quietly([&] { read_records(MemoryFile(data, size)); });
  const std::string sealed = with_new_seals(text);
  const auto* bytes = reinterpret_cast<const uint8_t*>(sealed.data());
  quietly([&] { read_records(MemoryFile(bytes, sealed.size())); });
  return 0;
}
