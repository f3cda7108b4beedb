#include <limits>

#include "models/files/gguf.h"
#include "tests/catch.h"
#include "tests/error_text.h"
#include "tests/gguf_writer.h"
#include "tests/hostile.h"
#include "tests/temp_folder.h"

using namespace skald;
using test::gguf_string;
using test::GgufWriter;
using test::raw;
using test::TempFolder;

namespace {

// A few KB with every kind of entry that a head can have.
GgufWriter good() {
  GgufWriter w;
  w.text("general.architecture", "llama");
  w.u32("general.alignment", 32);
  w.u32("llama.block_count", 2);
  w.f32("llama.rope.freq_base", 1e4f);
  w.boolean("tokenizer.ggml.add_bos_token", true);
  w.strings("tokenizer.ggml.tokens", {"<unk>", "<s>", "</s>", "a", "b"});
  w.array("tokenizer.ggml.scores", 6, 5, std::string(20, '\0'));
  w.array("tokenizer.ggml.token_type", 5, 5, std::string(20, '\1'));
  w.tensors.push_back({"token_embd.weight", {64, 5}, 8, std::string(340, '\2')});
  w.tensors.push_back({"output_norm.weight", {64}, 0, std::string(256, '\3')});
  w.tensors.push_back({"blk.0.ffn_up_exps.weight", {32, 4, 2}, 2, std::string(144, '\4')});
  return w;
}

// Opens the file and uses everything: every lookup, and every row of every tensor.
void open_and_use(const std::filesystem::path& path) {
  const auto file = open_gguf(path);
  const GgufMetadata& m = file->metadata();
  for (const GgufValue& value : m.values()) {
    value.short_text();
    value.type_text();
    test::error_text([&] { m.uint(value.key); });
    test::error_text([&] { m.number(value.key); });
    test::error_text([&] { m.boolean_or(value.key, true); });
    test::error_text([&] { m.text(value.key); });
    test::error_text([&] { m.strings(value.key); });
    test::error_text([&] { m.floats(value.key); });
    test::error_text([&] { m.ints(value.key); });
  }
  test::decode_all(*file);
}

struct BadFile {
  std::string what;
  std::string bytes;
  std::string message;  // the message must contain this
};

struct BadFiles {
  std::vector<BadFile> list;

  void raw_bytes(const std::string& what, const std::string& bytes, const std::string& message) {
    list.push_back({what, bytes, message});
  }
  template <class Change>
  void change(const std::string& what, const std::string& message, Change&& change) {
    GgufWriter w = good();
    change(w);
    list.push_back({what, w.file(), message});
  }
};

void add_bad_heads(BadFiles& bad) {
  bad.raw_bytes("one byte", "G", "needs 4 bytes");
  bad.raw_bytes("only the magic", "GGUF", "the version");
  bad.raw_bytes("text", "this is no model at all, it is a text", "expected 'GGUF'");
  bad.raw_bytes("control characters as magic", "\x1b[2J and more", "'\\x1b[2J'");
  bad.change("magic", "expected 'GGUF'", [](auto& w) { w.magic = "GGML"; });
  bad.change("reversed magic", "expected 'GGUF'", [](auto& w) { w.magic = "FUGG"; });
  for (uint32_t version : {0u, 1u, 4u, 0xffffffffu}) {
    bad.change("version", concat("GGUF version ", version, ", "),
               [&](auto& w) { w.version = version; });
  }
  bad.change("big-endian", "big-endian", [](auto& w) { w.version = 3u << 24; });
  for (uint64_t edge : test::kSizeEdges) {
    bad.change(concat(edge, " tensors"), concat("has ", edge, " tensors"),
               [&](auto& w) { w.n_tensors = edge; });
    bad.change(concat(edge, " entries"), concat("has ", edge, " metadata entries"),
               [&](auto& w) { w.n_entries = edge; });
  }
  bad.change("one tensor more", "", [](auto& w) { w.n_tensors = 4; });
  bad.change("one entry more", "", [](auto& w) { w.n_entries = 9; });
  bad.change("one entry less", "", [](auto& w) { w.n_entries = 7; });
}

void add_bad_metadata(BadFiles& bad) {
  for (uint64_t edge : test::kSizeEdges) {
    bad.change(concat("a key of ", edge), concat("needs ", edge, " bytes"),
               [&](auto& w) { w.entries.push_back(raw(edge) + "key" + raw(4) + raw(1)); });
    bad.change(concat("a text of ", edge), concat("needs ", edge, " bytes"),
               [&](auto& w) { w.entry("k", 8, raw(edge) + "text"); });
    for (uint32_t type : {0u, 3u, 6u, 7u, 8u, 10u}) {
      bad.change(concat("an array of ", edge, " of type ", type),
                 concat("has ", edge, " array elements"),
                 [&](auto& w) { w.array("k", type, edge, "12345678"); });
    }
    bad.change(concat("a text of ", edge, " in an array"), concat("needs ", edge, " bytes"),
               [&](auto& w) { w.array("k", 8, 2, gguf_string("a") + raw(edge) + "b"); });
  }
  bad.change("a key of 64 KB", "key of 65536 bytes",
             [](auto& w) { w.u32(std::string(65536, 'k'), 1); });
  bad.change("duplicate key", "'llama.block_count' occurs twice",
             [](auto& w) { w.u32("llama.block_count", 3); });
  for (uint32_t type : {13u, 255u, 0x80000000u, 0xffffffffu}) {
    bad.change("unknown type", concat("unknown type ", type),
               [&](auto& w) { w.entry("k", type, raw(1)); });
    bad.change("unknown array type", concat("unknown type ", type),
               [&](auto& w) { w.array("k", type, 1, raw(1)); });
  }
  bad.change("nested array", "array of arrays",
             [](auto& w) { w.array("k", 9, 1, raw(4) + raw<uint64_t>(1) + raw(7)); });
  bad.change("bool of 2", "bool with the value 2", [](auto& w) { w.entry("k", 7, "\x02"); });
  bad.change("bool of 255 in an array", "bool with the value 255",
             [](auto& w) { w.array("k", 7, 2, "\x01\xff"); });
  for (uint32_t alignment : {0u, 3u, 33u, 1u << 30, 0x80000000u, 0xffffffffu}) {
    bad.change("alignment", concat("general.alignment is ", alignment), [&](auto& w) {
      w.entries.erase(w.entries.begin() + 1);
      w.u32("general.alignment", alignment);
    });
  }
  bad.change("alignment as text", "'general.alignment' is a string", [](auto& w) {
    w.entries.erase(w.entries.begin() + 1);
    w.text("general.alignment", "32");
  });
  bad.change("an empty key", "has a metadata key of 0 bytes, expected 1 to",
             [](auto& w) { w.u32("", 1); });
  bad.change("16-bit alignment", "'general.alignment' is a u16, expected a u32", [](auto& w) {
    w.entries.erase(w.entries.begin() + 1);
    w.u16("general.alignment", 32);
  });
  bad.change("negative alignment", "'general.alignment' is a i32, expected a u32", [](auto& w) {
    w.entries.erase(w.entries.begin() + 1);
    w.i32("general.alignment", -32);
  });
}

void add_bad_tensors(BadFiles& bad) {
  const auto tensor = [&](const std::string& what, const std::string& message, auto&& change) {
    bad.change(what, message, [&](GgufWriter& w) { change(w.tensors[0]); });
  };
  for (uint64_t edge : test::kSizeEdges) {
    tensor(concat("offset ", edge), "", [&](auto& t) { t.offset = edge; });
    tensor(concat("aligned offset ", edge), "but the file has only",
           [&](auto& t) { t.offset = edge / 32 * 32; });
    tensor(concat("dimension ", edge), "", [&](auto& t) { t.dims = {64, edge}; });
    tensor(concat("row of ", edge), "", [&](auto& t) { t.dims = {edge, 1}; });
    tensor(concat("f32 row of ", edge), "", [&](auto& t) { t = {"t", {edge}, 0, ""}; });
    tensor(concat("three of ", edge), "", [&](auto& t) { t.dims = {32, edge, edge}; });
    tensor(concat("f32 of ", edge, " + 1"), "", [&](auto& t) { t = {"t", {4, edge + 1}, 0, ""}; });
  }
  using Dims = std::vector<uint64_t>;
  for (const Dims& dims :
       {Dims{1ull << 32, 1ull << 32}, Dims{1ull << 62, 4}, Dims{1ull << 61, 8},
        Dims{1ull << 31, 1ull << 31, 4}, Dims{1ull << 16, 1 << 16, 1 << 16, 1 << 16},
        Dims{1ull << 32, 1ull << 31}, Dims{0x7fffffffffffffc0, 1}}) {
    for (uint32_t type : {0u, 1u, 8u}) {
      tensor(concat("dimensions that wrap: ", dims[0]), "", [&](auto& t) {
        t.dims = dims;
        t.type = type;
      });
    }
  }
  bad.change("sizes whose sum wraps", "", [](auto& w) {
    w.tensors[0] = {"a", {0x7fffffffffffffc0 / 4}, 0, ""};
    w.tensors[1] = {"b", {0x7fffffffffffffc0 / 4}, 0, "", 0x7fffffffffffffc0};
  });
  for (uint64_t dim : {uint64_t{0}, ~uint64_t{0}, uint64_t{1} << 63}) {
    tensor("dimension below 1", "expected 1 or more", [&](auto& t) { t.dims = {64, dim}; });
  }
  for (uint32_t n_dims : {0u, 5u, 0x7fffffffu, 0xffffffffu}) {
    tensor("number of dimensions", concat("has ", n_dims, " dimensions"),
           [&](auto& t) { t.n_dims = n_dims; });
  }
  tensor("half a block", "rows of 48 elements, expected a multiple of 32", [](auto& t) {
    t.dims = {48, 2};
  });
  for (const DTypeInfo& format : all_dtypes()) {
    if (format.block_elems <= 64 || format.gguf_id == kNoGgufId) continue;
    tensor("a part of a block",
           concat("rows of 64 elements, expected a multiple of ", format.block_elems, " for ",
                  format.name),
           [&](auto& t) { t.type = static_cast<uint32_t>(format.gguf_id); });
    tensor("rows of blocks past the end", "incomplete or damaged", [&](auto& t) {
      t.type = static_cast<uint32_t>(format.gguf_id);
      t.dims = {1 << 20, 1 << 20};
    });
  }
  for (uint32_t type : {4u, 5u, 31u, 32u, 33u, 36u, 37u, 38u}) {
    tensor("removed type", concat("type id ", type, ", removed"), [&](auto& t) { t.type = type; });
  }
  for (uint32_t type : {43u, 1000u, 0x7fffffffu, 0xffffffffu}) {
    tensor("unknown type", concat("unknown type id ", type), [&](auto& t) { t.type = type; });
  }
  tensor("Q8_K", "has type Q8_K, which skald does not read", [](auto& t) { t.type = 15; });
  tensor("I64", "has type I64,", [](auto& t) { t.type = 27; });
  tensor("no name", "a name of 0 bytes", [](auto& t) { t.name = ""; });
  tensor("long name", "a name of 65 bytes", [](auto& t) { t.name = std::string(65, 'x'); });
  tensor("odd offset", "expected a multiple of 32", [](auto& t) { t.offset = 8; });
  tensor("the same name", "'output_norm.weight' occurs twice",
         [](auto& t) { t.name = "output_norm.weight"; });
  tensor("a name that a terminal obeys", "tensor '\\x1b]0;x\\x07'", [](auto& t) {
    t.name = "\x1b]0;x\a";
    t.type = 99;
  });
  bad.change("the same place", "overlap", [](auto& w) { w.tensors[1].offset = 0; });
  bad.change("overlap by a byte", "overlap", [](auto& w) { w.tensors[1].offset = 320; });
  bad.change("one inside another", "overlap", [](auto& w) { w.tensors[2].offset = 128; });
  bad.change("past the end", "incomplete or damaged", [](auto& w) { w.tensors[2].offset = 640; });
  bad.raw_bytes("no data", good().head(), "but the file has only 0 bytes of data");
}

}  // namespace

TEST_CASE("every handcrafted bad GGUF is refused with the reason") {
  BadFiles bad;
  add_bad_heads(bad);
  add_bad_metadata(bad);
  add_bad_tensors(bad);
  CHECK(bad.list.size() > 250);
  const TempFolder folder;
  for (const BadFile& file : bad.list) {
    INFO(file.what);
    const auto path = folder.write("bad.gguf", file.bytes);
    const std::string message = test::error_text([&] { open_gguf(path); });
    INFO(message);
    CHECK(test::has(message, "bad.gguf: "));
    CHECK(test::has(message, file.message));
  }
  const auto result = test::open_in_child(static_cast<int>(bad.list.size()), [&](int i) {
    open_and_use(folder.write("bad.gguf", bad.list[i].bytes));
  });
  CHECK(result.loaded == 0);
}

TEST_CASE("a GGUF cut anywhere is refused, unless only the padding at the end is missing") {
  const std::string whole = good().file();
  const size_t used = whole.size() - 16;  // the last tensor has 144 bytes of data and 16 of padding
  const auto result = test::open_cut(whole, open_and_use);
  CHECK(result.loaded == static_cast<int>(whole.size() - used));
}

TEST_CASE("a GGUF with any bit of its head flipped loads or is refused") {
  const std::string whole = good().file();
  const int bits = 8 * static_cast<int>(good().head().size());
  const auto result = test::open_flipped(whole, bits, open_and_use);
  CHECK(result.refused > bits / 3);
}

TEST_CASE("a GGUF with very many small entries needs memory in proportion to its size") {
  GgufWriter w;
  for (int i = 0; i < 60000; ++i) w.entry(std::to_string(i), 0, "x");
  for (int i = 0; i < 8000; ++i) w.tensors.push_back({concat("t", i), {1}, 0, "1234"});
  const std::string bytes = w.file();
  const TempFolder folder;
  const auto path = folder.write("many.gguf", bytes);
  const auto result = test::open_in_child(1, [&](int) { open_and_use(path); });
  CHECK(result.loaded == 1);

  for (int i = 0; i < 6000; ++i) w.entry(concat("more", i), 0, "x");
  const auto too_many = folder.write("many.gguf", w.file());
  CHECK(test::has(test::error_text([&] { open_gguf(too_many); }), "more than the 65536"));
}
