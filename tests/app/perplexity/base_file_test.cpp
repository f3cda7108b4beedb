#include "app/perplexity/base_file.h"

#include <cmath>
#include <cstring>

#include "app/files/sealed_line.h"
#include "engine/base/rng.h"
#include "tests/catch.h"
#include "tests/error_text.h"
#include "tests/temp_folder.h"

namespace skald::test {
namespace {

constexpr size_t kVocab = 301;

std::vector<float> row(uint64_t seed, double spread) {
  std::vector<float> logits(kVocab);
  for (size_t i = 0; i < kVocab; ++i) {
    logits[i] = static_cast<float>(spread * (uniform(seed, 5, static_cast<int64_t>(i)) - 0.5));
  }
  return logits;
}

PplHeading heading() {
  PplHeading h;
  h.settings = parse_protocol("gptq:8");
  h.chunks = 3;
  h.text_tokens = 24;
  h.corpus_hash = "c";
  h.tokenizer_hash = "t";
  h.model = {"base.gguf", "h", "F32", "F16", "cpu"};
  return h;
}

TEST_CASE("llama.cpp's file of logits read back agrees to 16 bits") {
  TempFolder folder;
  const std::string path = (folder.path() / "base.kld").string();
  std::vector<int32_t> ids(3 * 8);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(i * 11 % kVocab);
  const auto writer = write_llama_logits(path, 8, kVocab, ids);
  for (uint64_t r = 0; r < 9; ++r) writer->write(row(r, 20), 0);  // 3 chunks of 8 - 1 - 4 rows
  writer->finish();
  CHECK(std::filesystem::file_size(path) == 20 + 4 * 24 + 9 * 2 * (302 + 4));

  const auto reader = open_base_file(path);
  REQUIRE(reader);
  CHECK(reader->vocab() == kVocab);
  CHECK(reader->context() == 8);
  CHECK(reader->chunks() == 3);
  CHECK(std::equal(ids.begin(), ids.end(), reader->ids().begin(), reader->ids().end()));
  for (uint64_t r = 0; r < 9; ++r) {
    const std::vector<float> base = row(r, 20), other = row(r + 100, 20);
    const RowComparison expected = compare_rows(other, base, 42);
    const StoredComparison found = reader->compare(static_cast<int64_t>(r), other, 42);
    CHECK(found.row.score.logprob == expected.score.logprob);
    CHECK(found.row.divergence == Approx(expected.divergence).margin(1e-3));
    CHECK(found.row.base.top == expected.base.top);
    if (expected.base.logprob > -14) {
      CHECK(found.row.base.logprob == Approx(expected.base.logprob).margin(3e-4));
    }
  }
}

TEST_CASE("a row of llama.cpp's file has the layout that llama-perplexity reads") {
  TempFolder folder;
  const std::string path = (folder.path() / "base.kld").string();
  const std::vector<int32_t> ids = {1, 2, 0};
  const auto writer = write_llama_logits(path, 3, 3, ids);
  const std::vector<float> logits = {0, 2, -40};
  writer->write(logits, 0);
  writer->finish();
  const std::string bytes = read_file(path);
  REQUIRE(bytes.size() == 8 + 12 + 12 + 2 * (4 + 4));
  CHECK(bytes.substr(0, 8) == "_logits_");
  int32_t head[6];
  std::memcpy(head, bytes.data() + 8, sizeof head);
  CHECK(std::vector<int32_t>(head, head + 6) == std::vector<int32_t>{3, 3, 1, 1, 2, 0});
  float scale[2];
  uint16_t steps[4];
  std::memcpy(scale, bytes.data() + 32, sizeof scale);
  std::memcpy(steps, bytes.data() + 40, sizeof steps);
  // The range is 16 below the best logit; lower logits become its lowest value.
  CHECK(scale[0] == Approx(16 / 65535.0));
  CHECK(scale[1] == Approx(-16 - std::log(1 + std::exp(-2.0))));
  CHECK(steps[1] == 65535);
  CHECK(steps[2] == 0);
  CHECK(steps[0] == std::lround(14 / 16.0 * 65535));
}

TEST_CASE(
    "the true divergence lies between a compact base's divergence and that divergence plus its "
    "slack") {
  TempFolder folder;
  for (const int top : {1, 10, 100, 300, 301, 1000}) {
    for (const double spread : {4.0, 30.0}) {
      CAPTURE(top, spread);
      const std::string path = (folder.path() / "base.skl").string();
      const auto writer = write_compact_base(path, heading(), {0, 3, kVocab}, top);
      for (uint64_t r = 0; r < 21; ++r) writer->write(row(r, spread), static_cast<int32_t>(r));
      writer->finish();
      const auto reader = open_base_file(path);
      REQUIRE(reader);
      CHECK(reader->vocab() == kVocab);
      CHECK(heading_difference(*reader->heading(), heading()).empty());
      for (uint64_t r = 0; r < 21; ++r) {
        const int32_t target = static_cast<int32_t>(r);
        const std::vector<float> other = row(r + 50, spread);
        const RowComparison expected = compare_rows(other, row(r, spread), target);
        const StoredComparison found = reader->compare(static_cast<int64_t>(r), other, target);
        CHECK(found.row.divergence <= expected.divergence + 1e-5);
        CHECK(found.row.divergence + found.slack >= expected.divergence - 1e-5);
        CHECK(found.row.base.logprob == Approx(expected.base.logprob).margin(1e-5));
        CHECK(found.row.base.entropy == Approx(expected.base.entropy).margin(1e-4));
        CHECK(found.row.base.top == expected.base.top);
        if (top >= 301) CHECK(found.slack == 0);
        if (top >= 300 && spread > 10) CHECK(found.slack < 1e-6);
      }
    }
  }
}

TEST_CASE("a damaged base file is an Error, never a crash") {
  TempFolder folder;
  const std::string path = (folder.path() / "base").string();
  const std::vector<int32_t> ids(24);
  const auto llama = write_llama_logits(path, 8, kVocab, ids);
  for (uint64_t r = 0; r < 9; ++r) llama->write(row(r, 20), 0);
  llama->finish();
  const std::string whole = read_file(path);
  const auto opening = [&](const std::string& bytes) {
    folder.write("base", bytes);
    return error_text([&] { open_base_file(path); }, Exit::Failed);
  };
  for (const size_t size : {8u, 12u, 20u, 60u, 500u})
    CHECK(!opening(whole.substr(0, size)).empty());
  CHECK(has(opening(whole.substr(0, whole.size() - 1)), "too few for 3 chunks"));
  for (const size_t at : {8u, 12u, 16u}) {
    for (const int32_t number : {-1, 0, 1 << 30, INT32_MAX, INT32_MIN}) {
      std::string bytes = whole;
      std::memcpy(bytes.data() + at, &number, sizeof number);
      CHECK(!opening(bytes).empty());
    }
  }
  std::string huge = whole;  // 4.6e18 ids
  const int32_t most = INT32_MAX;
  for (const size_t at : {8u, 16u}) std::memcpy(huge.data() + at, &most, sizeof most);
  CHECK(has(opening(huge), "too few for 2147483647 chunks"));
  const auto compact = write_compact_base(path, heading(), {0, 3, kVocab}, 10);
  compact->write(row(1, 20), 0);
  compact->finish();
  const std::string small = read_file(path);
  for (size_t size = 8; size + 10 * 8 + 12 + 16 < small.size(); size += 7) {
    CHECK(!opening(small.substr(0, size)).empty());
  }
  const auto compared = [&](const std::string& bytes) {
    folder.write("base", bytes);
    return error_text([&] { open_base_file(path)->compare(0, row(2, 20), 0); }, Exit::Failed);
  };
  for (size_t at = 0; at < small.size(); ++at) {  // one bit at any place
    std::string bytes = small;
    bytes[at] = static_cast<char>(bytes[at] ^ 1 << at % 8);
    if (at >= 8) CHECK(!compared(bytes).empty());
    if (at == 7) CHECK(has(opening(bytes), "another version of skald"));
  }
  std::string length = small;
  length[14] = '\x7f';
  CHECK(has(opening(length), "damaged"));
  // A checksum that fits does not make an impossible number possible.
  std::string head = small.substr(
      16, static_cast<unsigned char>(small[8]) + 256u * static_cast<unsigned char>(small[9]));
  head.replace(head.find("\"vocab\":301"), 11, "\"vocab\":2000000001");
  head.replace(head.find("\"top\":10"), 8, "\"top\":2000000000");
  head = sealed_line(head.substr(0, head.rfind(",\"checksum\"")) + "}");
  uint64_t head_bytes = head.size();
  std::string sealed = small.substr(0, 8) + std::string(8, '\0') + head;
  std::memcpy(sealed.data() + 8, &head_bytes, sizeof head_bytes);
  CHECK(has(opening(sealed), "damaged"));
  folder.write("base", small);
  const auto reader = open_base_file(path);
  CHECK(has(error_text([&] { reader->compare(1, row(2, 20), 0); }, Exit::Failed), "ends at byte"));
  folder.write("base", "some other file");
  CHECK(!open_base_file(path));
}

}  // namespace
}  // namespace skald::test
