#include "engine/schedule/allowed_guesses.h"

#include <memory>
#include <utility>

#include "engine/base/error.h"

namespace skald {
namespace {

std::vector<uint64_t> mask_of(TokenFilter& filter) {
  const std::span<const uint64_t> mask = filter.allowed();
  return {mask.begin(), mask.end()};
}

bool allows(std::span<const uint64_t> mask, int32_t token) {
  const auto word = static_cast<size_t>(token) / 64;
  return mask.empty() || (word < mask.size() && (mask[word] >> (token % 64) & 1) != 0);
}

}  // namespace

AllowedGuesses allowed_guesses(const TokenFilter& filter, std::span<const int32_t> guesses,
                               bool forces) {
  AllowedGuesses kept;
  const std::unique_ptr<TokenFilter> trial = filter.copy();
  if (!trial) return kept;
  try {
    std::vector<uint64_t> mask = mask_of(*trial);
    for (const int32_t guess : guesses) {
      const auto forced = forces ? trial->forced() : std::span<const int32_t>();
      if (forced.empty() && kept.wrong) break;
      const int32_t token = forced.empty() ? guess : forced.front();
      kept.wrong = kept.wrong || token != guess || !allows(mask, token);
      if (forced.empty() && kept.wrong) break;
      trial->accept(token);
      // A row after the last token of a text is of no use.
      if (trial->finished()) break;
      mask = mask_of(*trial);
      kept.tokens.push_back(token);
      kept.masks.push_back(mask);
    }
  } catch (const Error&) {  // no token may follow
  }
  return kept;
}

}  // namespace skald
