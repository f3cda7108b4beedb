// Importance matrices: what the two kinds of files say, and what of a file is refused.
#include "models/convert/importance.h"

#include <limits>

#include "tests/catch.h"
#include "tests/error_text.h"
#include "tests/gguf_writer.h"
#include "tests/hostile.h"
#include "tests/temp_folder.h"

namespace skald::test {
namespace {

using Floats = std::vector<float>;

std::string raw_floats(const Floats& values) {
  std::string out;
  for (float x : values) out += raw(x);
  return out;
}

void put(GgufWriter& w, const std::string& tensor, uint64_t cols, const Floats& sums,
         const Floats& counts) {
  w.tensors.push_back({tensor + ".in_sum2", {cols, sums.size() / cols}, 0, raw_floats(sums)});
  w.tensors.push_back({tensor + ".counts", {1, counts.size()}, 0, raw_floats(counts)});
}

GgufWriter small_gguf() {
  GgufWriter w;
  w.text("general.type", "imatrix");
  w.strings("imatrix.datasets", {"stories.txt", "more.txt"});
  w.u32("imatrix.chunk_count", 7);
  w.u32("imatrix.chunk_size", 512);
  put(w, "blk.0.attn_q.weight", 4, {4, 8, 0, 2}, {4});
  put(w, "blk.0.ffn_up_exps.weight", 2, {6, 9, 1, 1, 8, 4}, {3, 0, 2});
  return w;
}

std::string old_entry(const std::string& name, int32_t chunks, const Floats& values) {
  return raw(static_cast<int32_t>(name.size())) + name + raw(chunks) +
         raw(static_cast<int32_t>(values.size())) + raw_floats(values);
}

MadeTensor matrix(std::string name, std::vector<int64_t> shape) {
  int64_t rows = 1;
  for (size_t i = 0; i + 1 < shape.size(); ++i) rows *= shape[i];
  MadeTensor tensor{.name = std::move(name), .shape = shape, .type = DType::F16};
  tensor.source = {nullptr, DType::F32, rows, shape.back(), shape.back() * 4};
  return tensor;
}

Floats given(const ImportanceFile& file, MadeTensor tensor) {
  REQUIRE(file.give(tensor));
  return *tensor.importances;
}

struct Files {
  TempFolder folder;
  int count = 0;

  std::filesystem::path operator()(const std::string& bytes) {
    return folder.write("imatrix" + std::to_string(count++), bytes);
  }
  std::string refused(const std::string& bytes) {
    const std::filesystem::path path = (*this)(bytes);
    const std::string text = error_text([&] { const ImportanceFile file(path); });
    CHECK(has(text, path.string()));
    return text;
  }
  std::string refused(const GgufWriter& w) { return refused(w.file()); }
};

}  // namespace

TEST_CASE("a GGUF's importances are the sums divided by the counts, expert by expert") {
  Files files;
  const ImportanceFile file(files(small_gguf().file()));
  CHECK(file.entries() == 2);
  CHECK(file.chunks() == 7);
  CHECK(file.datasets() == std::vector<std::string>{"stories.txt", "more.txt"});
  CHECK(given(file, matrix("blk.0.attn_q.weight", {3, 4})) == Floats{1, 2, 0, 0.5f});
  const MadeTensor absent = matrix("blk.1.attn_q.weight", {3, 4});
  MadeTensor tensor = absent;
  CHECK_FALSE(file.give(tensor));
  CHECK(tensor.importances_of(2) == nullptr);

  MadeTensor experts = matrix("blk.0.ffn_up_exps.weight", {3, 5, 2});
  REQUIRE(file.give(experts));
  for (int64_t row : {0, 4}) CHECK(experts.importances_of(row)[1] == 3);
  for (int64_t row : {5, 9}) CHECK(experts.importances_of(row)[0] == 0);  // without a count
  for (int64_t row : {10, 14}) CHECK(experts.importances_of(row)[0] == 4);
}

TEST_CASE("an old file's importances are divided by the chunks") {
  Files files;
  const std::string entries = raw(2) + old_entry("a", 2, {2, 4, 6, 8}) + old_entry("bb", 0, {1, 0});
  const ImportanceFile file(files(entries + raw(5) + raw(3) + "txt"));
  CHECK(file.entries() == 2);
  CHECK(file.chunks() == 5);
  CHECK(file.datasets() == std::vector<std::string>{"txt"});
  CHECK(given(file, matrix("a", {3, 4})) == Floats{1, 2, 3, 4});
  CHECK(given(file, matrix("a", {2, 9, 2})) == Floats{1, 2, 3, 4});  // two experts
  CHECK(given(file, matrix("bb", {9, 2})) == Floats{1, 0});
  const ImportanceFile oldest(files(entries));
  CHECK(oldest.chunks() == 0);
  CHECK(oldest.datasets().empty());
}

TEST_CASE("importances of another size are refused by the tensor's name") {
  Files files;
  const ImportanceFile file(files(small_gguf().file()));
  const auto problem = [&](MadeTensor tensor) { return error_text([&] { file.give(tensor); }); };
  const std::string cols = problem(matrix("blk.0.attn_q.weight", {3, 8}));
  CHECK(has(cols, "'blk.0.attn_q.weight' has 4 importances, expected 8"));
  CHECK(has(cols, file.path()));
  CHECK(has(problem(matrix("blk.0.ffn_up_exps.weight", {2, 5, 2})), "for each of 2 experts"));
  CHECK(has(problem(matrix("blk.0.ffn_up_exps.weight", {6, 1})), "has 6 importances, expected 1"));
}

TEST_CASE("damaged importances are refused") {
  Files files;
  GgufWriter w = small_gguf();
  w.entries[0] = gguf_string("general.type") + raw<uint32_t>(8) + gguf_string("model");
  CHECK(has(files.refused(w), "general.type is 'model', expected 'imatrix'"));
  w = small_gguf();
  w.tensors.erase(w.tensors.begin() + 1);
  CHECK(has(files.refused(w), "'blk.0.attn_q.weight.in_sum2' has no counts"));
  w = small_gguf();
  w.tensors.erase(w.tensors.begin());
  CHECK(has(files.refused(w), "'blk.0.attn_q.weight.counts' has no sums"));
  w = small_gguf();
  w.tensors[3] = {"blk.0.ffn_up_exps.weight.counts", {1, 2}, 0, raw_floats({1, 2})};
  CHECK(has(files.refused(w), "sums of 3 experts, and counts of 2"));
  w = small_gguf();
  w.tensors[1].data = raw_floats({-1});
  CHECK(has(files.refused(w), "a count of -1"));
  w = small_gguf();
  w.tensors[0].name = "blk.0.attn_q.weight";
  w.tensors[1].name = "other";
  CHECK(has(files.refused(w), "no sum and no count"));
  w = small_gguf();
  w.tensors[1].type = 1;
  CHECK(has(files.refused(w), "F16, expected F32"));
  w = small_gguf();
  w.tensors.clear();
  CHECK(has(files.refused(w), "holds no importances"));
  for (float bad :
       {-1.0f, std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    w = small_gguf();
    w.tensors[0].data = raw_floats({1, 2, bad, 3});
    CHECK(has(files.refused(w), "tensor 'blk.0.attn_q.weight' has the importance"));
    CHECK(
        has(files.refused(raw(1) + old_entry("a", 1, {1, bad})), "tensor 'a' has the importance"));
  }
  // A sum that a tiny count makes infinite.
  w = small_gguf();
  w.tensors[1].data = raw_floats({1e-44f});
  CHECK(has(files.refused(w), "has the importance inf"));

  const std::string entry = old_entry("a", 1, {1, 2});
  CHECK(has(files.refused("{}{}"), "only 0 bytes follow"));
  CHECK(has(files.refused(raw(0)), "the number of entries is 0"));
  CHECK(has(files.refused(raw(-4) + entry), "the number of entries is -4"));
  CHECK(has(files.refused(raw(2) + entry + entry), "has tensor 'a' twice"));
  CHECK(has(files.refused(raw(1) + raw(900) + "a" + raw(1) + raw(1) + raw(1.0f)), "needs 900"));
  CHECK(has(files.refused(raw(1) + old_entry("a", -1, {1})), "-1 chunks"));
  CHECK(has(files.refused(raw(1) + old_entry("a", 1, {}) + raw(1) + raw(0)), "importances is 0"));
  CHECK(has(files.refused(raw(1) + entry + raw(1)), "the length of the text's name"));
  CHECK(has(files.refused(raw(1) + entry + raw(1) + raw(9) + "txt"), "needs 9"));
  CHECK(has(files.refused(raw(1) + entry + raw(1) + raw(3) + "txtx"), "1 bytes follow"));
  CHECK(has(files.refused(raw(1) + entry + raw(1) + raw(-3)), "-3 bytes"));
}

TEST_CASE("importance files that end early, or have other bytes, load or are refused") {
  Files files;
  const std::string old = raw(1) + old_entry("a", 1, {1, 2}) + raw(1) + raw(3) + "txt";
  for (const std::string& whole : {small_gguf().file(), old}) {
    for (size_t size = 1; size < whole.size(); ++size) {
      const auto path = files.folder.write("cut", whole.substr(0, size));
      loads_or_refuses([&] { const ImportanceFile file(path); });
    }
    for (size_t at = 0; at < whole.size(); ++at) {
      for (const char value : {'\xff', '\x7f', '\0'}) {
        std::string other = whole;
        other[at] = value;
        const auto path = files.folder.write("other", other);
        loads_or_refuses([&] { const ImportanceFile file(path); });
      }
    }
  }
  CHECK_FALSE(loads_or_refuses([&] { const ImportanceFile file(files.folder.path() / "none"); }));
}

}  // namespace skald::test
