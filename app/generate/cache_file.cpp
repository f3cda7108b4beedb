#include "app/generate/cache_file.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "app/files/atomic_file.h"
#include "app/program/version.h"
#include "engine/base/error.h"
#include "engine/base/printable.h"

namespace skald {
namespace {

namespace fs = std::filesystem;

static_assert(std::endian::native == std::endian::little, "files are written as memory holds them");

constexpr std::string_view kMagic = "skaldkv", kVersion = "1", kStateVersion = "2";
constexpr uint64_t kBefore = 16;           // magic and size of the head
constexpr uint64_t kMostHead = 1 << 30;    // a context of 200 million tokens
constexpr uint64_t kHeadFields = 32 + 24;  // key and three numbers

// Much faster than a disk. Finds damage, not malice.
uint64_t checksum(std::span<const std::byte> bytes) {
  uint64_t sum = bytes.size();
  while (!bytes.empty()) {
    uint64_t word = 0;
    const size_t count = std::min(bytes.size(), sizeof word);
    std::memcpy(&word, bytes.data(), count);
    sum = std::rotl(sum ^ word, 29) * 0x9e3779b97f4a7c15;
    bytes = bytes.subspan(count);
  }
  return sum ^ sum >> 32;
}

template <class T>
void append(std::string& to, std::span<const T> values) {
  to.append(reinterpret_cast<const char*>(values.data()), values.size_bytes());
}

void append_number(std::string& to, uint64_t number) {
  append(to, std::span<const uint64_t>(&number, 1));
}

template <class T>
void take(std::string_view& from, std::span<T> values) {
  if (!values.empty()) std::memcpy(values.data(), from.data(), values.size_bytes());
  from.remove_prefix(values.size_bytes());
}

uint64_t take_number(std::string_view& from) {
  uint64_t number = 0;
  take(from, std::span<uint64_t>(&number, 1));
  return number;
}

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

}  // namespace

Sha256::Digest cache_key(std::string_view model, const Executor& executor) {
  Sha256 key;
  key.add_field("skald cache").add_field(version()).add_field(model);
  key.add_field(executor.page_format()).add_number(static_cast<uint64_t>(executor.page_bytes()));
  // The cache holds rotated keys. In some models the context chooses the frequencies.
  for (const RopeSpec& rope : executor.program().ropes) {
    if (!rope.by_context) continue;
    key.add_field({reinterpret_cast<const char*>(rope.inv_freq.data()),
                   rope.inv_freq.size() * sizeof(float)});
  }
  return key.digest();
}

void write_cache_file(const fs::path& path, const Session& session, int64_t length,
                      const Executor& executor, const CacheNote& note) {
  check(length >= 0 && length <= session.computed(), "what is saved is computed");
  length = session.savable(length);
  std::vector<std::byte> page(static_cast<size_t>(executor.page_bytes())), state;
  // Reads every page twice, for checksums and to write, so that memory holds no copy of the cache.
  std::vector<uint64_t> sums;
  for (int64_t i = 0; i < pages_for(length); ++i) {
    session.read_page(i, page);
    sums.push_back(checksum(page));
  }
  if (executor.state_bytes() > 0 && length > 0) {
    state.resize(static_cast<size_t>(executor.state_bytes()));
    session.read_state(length, state);
    sums.push_back(checksum(state));
  }
  std::string head;
  append(head, std::span<const uint8_t>(note.key));
  append_number(head, page.size());
  if (!state.empty()) append_number(head, state.size());
  append_number(head, static_cast<uint64_t>(length));
  append_number(head, note.note.size());
  append(head, std::span(session.tokens()).first(static_cast<size_t>(length)));
  append(head, std::span<const uint64_t>(sums));
  head += note.note;

  std::string before(kMagic);
  before += state.empty() ? kVersion : kStateVersion;
  append_number(before, head.size());
  std::string after;
  append_number(after, checksum(bytes_of(head)));
  AtomicFile file(path);
  for (const std::string* part : {&before, &head, &after}) file.write(*part);
  for (int64_t i = 0; i < pages_for(length); ++i) {
    session.read_page(i, page);
    file.write(page);
  }
  file.write(state);
  file.commit();
}

std::optional<CacheFile> CacheFile::open(const fs::path& path) {
  const std::string name = printable(path.string());
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found) return {};
  if (!fs::is_regular_file(status)) fail(Exit::Failed, name, ": is no regular file");
  const uint64_t size = fs::file_size(path, error);
  if (error) fail(Exit::Failed, name, ": cannot be read: ", error.message());
  if (size == 0) return {};
  CacheFile file;
  file.in_.open(path, std::ios::binary);
  if (!file.in_) fail(Exit::Failed, name, ": cannot be opened: ", std::strerror(errno));
  file.problem_ = file.read(path, size);
  if (!file.problem_.empty()) file.tokens_.clear(), file.note_.clear();
  return file;
}

std::string CacheFile::read(const fs::path& path, uint64_t size) {
  std::string before(std::min(size, kBefore), '\0');
  in_.read(before.data(), std::ssize(before));
  if (!in_ || !before.starts_with(kMagic)) {
    fail(Exit::Failed, printable(path.string()),
         ": is not one of skald's cache files and will not be replaced; name another file");
  }
  constexpr const char* kShort = "is cut short";
  if (before.size() < kBefore) return kShort;
  const std::string version = before.substr(kMagic.size(), 1);
  if (version != kVersion && version != kStateVersion) return "is of another version of skald";
  std::string_view rest = std::string_view(before).substr(8);
  const uint64_t head_bytes = take_number(rest);
  if (head_bytes > kMostHead) return "is damaged";
  if (head_bytes + kBefore + 8 > size) return kShort;
  std::string head(head_bytes, '\0'), sum(8, '\0');
  in_.read(head.data(), std::ssize(head));
  in_.read(sum.data(), std::ssize(sum));
  std::string_view sum_view = sum;
  if (!in_ || take_number(sum_view) != checksum(bytes_of(head)) ||
      !parse_head(head, version == kStateVersion)) {
    return "is damaged";
  }
  pages_at_ = kBefore + head_bytes + 8;
  if (state_bytes_ > size - pages_at_) return kShort;
  const uint64_t pages = sums_.size() - (state_bytes_ > 0);
  if (page_bytes_ > 0 && (size - pages_at_ - state_bytes_) / page_bytes_ < pages) return kShort;
  return "";
}

bool CacheFile::parse_head(std::string_view head, bool has_state) {
  if (head.size() < kHeadFields + (has_state ? sizeof(uint64_t) : 0)) return false;
  take(head, std::span<uint8_t>(key_));
  page_bytes_ = take_number(head);
  if (has_state) state_bytes_ = take_number(head);
  const uint64_t tokens = take_number(head), note_bytes = take_number(head);
  if (tokens > head.size() / sizeof(int32_t)) return false;
  const uint64_t pages = static_cast<uint64_t>(pages_for(static_cast<int64_t>(tokens)));
  const uint64_t sums = pages + (state_bytes_ > 0);
  const uint64_t lists = tokens * sizeof(int32_t) + sums * sizeof(uint64_t);
  if (lists > head.size() || head.size() - lists != note_bytes) return false;
  tokens_.resize(tokens);
  sums_.resize(sums);
  take(head, std::span<int32_t>(tokens_));
  take(head, std::span<uint64_t>(sums_));
  note_ = head;
  return true;
}

int64_t CacheFile::restorable(int64_t length) const {
  length = std::min(length, std::ssize(tokens_));
  return state_bytes_ == 0 || length == std::ssize(tokens_) ? length : 0;
}

bool CacheFile::restore(Session& session, int64_t length, const Executor& executor) {
  check(length == restorable(length), "what is restored is in the file");
  if (page_bytes_ != static_cast<uint64_t>(executor.page_bytes())) return false;
  const auto states = static_cast<uint64_t>(executor.state_bytes());
  if (length > 0 && state_bytes_ != states) return false;
  struct Damaged {};
  const auto load = [&](int64_t index, std::span<std::byte> bytes) {
    in_.clear();
    in_.seekg(static_cast<std::streamoff>(pages_at_ + static_cast<uint64_t>(index) * page_bytes_));
    in_.read(reinterpret_cast<char*>(bytes.data()), std::ssize(bytes));
    if (!in_ || checksum(bytes) != sums_[static_cast<size_t>(index)]) throw Damaged{};
  };
  try {
    session.restore(std::span(tokens_).first(static_cast<size_t>(length)), load);
  } catch (const Damaged&) {
    return false;
  }
  return true;
}

}  // namespace skald
