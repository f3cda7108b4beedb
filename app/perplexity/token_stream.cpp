#include "app/perplexity/token_stream.h"

#include <algorithm>

#include "app/files/signals.h"
#include "app/perplexity/text_cut.h"
#include "engine/base/error.h"
#include "engine/base/sha256.h"

namespace skald {
namespace {

constexpr int64_t kMostCachedIds = int64_t{16} << 20;

}  // namespace

TokenStream::TokenStream(const TextFile& file, const Tokenizer& tokenizer,
                         const TokenStreamOptions& options,
                         const std::function<bool(int64_t bytes)>& progress)
    : file_(&file), tokenizer_(&tokenizer), options_(options) {
  const bool whole = file.size() <= options.whole_bytes;
  Sha256 hash;
  std::string pending;  // bytes that are read but in no part yet
  int64_t offset = 0;   // of `pending` in the file
  for (int64_t at = 0; at < file.size();) {
    const std::string block = file.read(at, options.part_bytes);
    at += std::ssize(block);
    hash.add(block);
    pending += block;
    const bool last = at == file.size();
    if (last && options.drop_last_newline && pending.ends_with('\n')) pending.pop_back();
    const size_t cut = last ? pending.size() : whole ? 0 : cut_text(pending, tokenizer);
    if (cut > 0) {
      add_part(std::string_view(pending).substr(0, cut), offset);
      offset += static_cast<int64_t>(cut);
      pending.erase(0, cut);
    } else if (!whole && std::ssize(pending) > options.whole_bytes + 2 * options.part_bytes) {
      fail(Exit::Failed, file.name(), ": after byte ", offset,
           ", there is no place where the text can be cut for this tokenizer; split the file");
    }
    if (progress && !progress(at)) fail_interrupted("while reading the text");
  }
  sha256_ = hash.hex();
}

std::vector<int32_t> TokenStream::encode(std::string_view text, size_t part) const {
  EncodeOptions options = inside_text();
  if (part == 0) {
    options.starts_text = true;
    options.add_bos.reset();
    if (!options_.add_bos) options.add_bos = false;
  }
  return tokenizer_->encode(text, options);
}

void TokenStream::add_part(std::string_view text, int64_t offset) {
  file_->check_text(text, offset);
  std::vector<int32_t> ids = encode(text, parts_.size());
  parts_.push_back({offset, static_cast<int64_t>(text.size()), count_});
  count_ += std::ssize(ids);
  if (cached_ids_ + std::ssize(ids) > kMostCachedIds && parts_.size() > 1) return;
  cached_ids_ += std::ssize(ids);
  part_ids_.emplace(parts_.size() - 1, std::move(ids));
}

const std::vector<int32_t>& TokenStream::ids(size_t part) const {
  if (const auto found = part_ids_.find(part); found != part_ids_.end()) return found->second;
  const Part& p = parts_[part];
  std::vector<int32_t> ids = encode(file_->read(p.offset, p.bytes), part);
  const int64_t next = part + 1 < parts_.size() ? parts_[part + 1].first : count_;
  if (std::ssize(ids) != next - p.first) {
    fail(Exit::Failed, file_->name(), ": changed while it was read; run the command again");
  }
  cached_ids_ += std::ssize(ids);
  const auto place = part_ids_.emplace(part, std::move(ids)).first;
  // Texts are read forwards, so the parts before this one are dropped first, then the last ones.
  while (cached_ids_ > kMostCachedIds && part_ids_.size() > 1) {
    const auto out = part_ids_.begin() == place ? std::prev(part_ids_.end()) : part_ids_.begin();
    cached_ids_ -= std::ssize(out->second);
    part_ids_.erase(out);
  }
  return place->second;
}

void TokenStream::read(int64_t first, std::span<int32_t> tokens) const {
  check(first >= 0 && first + std::ssize(tokens) <= count_, "tokens of the text are read");
  const auto after = std::upper_bound(parts_.begin(), parts_.end(), first,
                                      [](int64_t token, const Part& p) { return token < p.first; });
  for (size_t part = static_cast<size_t>(after - parts_.begin()) - 1; !tokens.empty(); ++part) {
    const std::vector<int32_t>& all = ids(part);
    const auto from = std::span(all).subspan(static_cast<size_t>(first - parts_[part].first));
    const size_t count = std::min(from.size(), tokens.size());
    std::copy_n(from.begin(), count, tokens.begin());
    tokens = tokens.subspan(count);
    first += static_cast<int64_t>(count);
  }
}

}  // namespace skald
