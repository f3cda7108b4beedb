#include "models/files/gguf.h"

#include <chrono>
#include <limits>
#include <nlohmann/json.hpp>

#include "engine/base/error.h"
#include "tests/catch.h"
#include "tests/error_text.h"
#include "tests/gguf_writer.h"
#include "tests/paths.h"
#include "tests/sha256.h"
#include "tests/temp_folder.h"

using namespace skald;
using test::error_text;
using test::GgufWriter;
using test::has;
using test::raw;
using test::TempFolder;

namespace {

std::string sha256_of_floats(const TensorView& view) {
  std::vector<float> out(view.rows * view.cols);
  for (int64_t r = 0; r < view.rows; ++r) {
    info(view.type).decode_row(view.row(r), out.data() + r * view.cols, view.cols);
  }
  return test::sha256_hex({reinterpret_cast<const char*>(out.data()), out.size() * sizeof(float)});
}

// Compares NAME.gguf with the hashes in NAME.json. Returns the number of tensors compared.
size_t check_against_goldens(const std::filesystem::path& path) {
  INFO(path.filename().string());
  const auto file = open_gguf(path);
  const auto golden = nlohmann::json::parse(
      test::read_file(std::filesystem::path(path).replace_extension(".json")))["tensors"];
  CHECK(file->tensors().size() == golden.size());
  for (const auto& [name, expected] : golden.items()) {
    INFO(name);
    const Tensor* tensor = file->find(name);
    REQUIRE(tensor);
    if (expected.contains("type")) {
      CHECK(skald::name(tensor->view.type) == expected["type"].get<std::string>());
    }
    CHECK(sha256_of_floats(tensor->view) == expected["sha256_f32le"].get<std::string>());
  }
  return golden.size();
}

size_t check_folder(const std::filesystem::path& folder) {
  size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".gguf") continue;
    CHECK(check_against_goldens(entry.path()) > 10);
    ++files;
  }
  return files;
}

GgufWriter one_of_each_type() {
  GgufWriter w;
  w.entry("u8", 0, raw<uint8_t>(200));
  w.entry("i8", 1, raw<int8_t>(-5));
  w.u16("u16", 60000);
  w.entry("i16", 3, raw<int16_t>(-3000));
  w.u32("u32", 4000000000u);
  w.i32("i32", -7);
  w.f32("f32", 0.5f);
  w.boolean("yes", true);
  w.boolean("no", false);
  w.text("text", "hello \x1b[31m");
  w.entry("u64", 10, raw<uint64_t>(std::numeric_limits<uint64_t>::max()));
  w.entry("i64", 11, raw<int64_t>(1));
  w.entry("f64", 12, raw(0.25));
  w.strings("texts", {"<unk>", "", "a\nb"});
  w.array("floats", 6, 2, raw(1.5f) + raw(-2.0f));
  w.array("doubles", 12, 1, raw(0.125));
  w.array("ints", 5, 3, raw(1) + raw(-2) + raw(3));
  w.array("bytes", 0, 2, raw<uint8_t>(1) + raw<uint8_t>(255));
  w.array("large", 10, 1, raw<uint64_t>(uint64_t{1} << 63));
  w.array("nothing", 8, 0, "");
  return w;
}

GgufWriter small_model() {
  GgufWriter w;
  w.text("general.architecture", "llama");
  w.tensors.push_back({"a", {4, 2}, 0, std::string(32, '\1')});
  w.tensors.push_back({"b", {64, 3, 2}, 8, std::string(6 * 68, '\2')});
  return w;
}

}  // namespace

TEST_CASE("every tensor of the golden GGUF files decodes to the reference's values") {
  CHECK(check_folder(test::data_dir() / "gguf") == 8);
}

TEST_CASE("every tensor of all shared GGUF files decodes to the reference's values") {
  if (!test::have_shared("goldens/gguf")) return;
  CHECK(check_folder(test::shared_dir() / "goldens" / "gguf") >= 12);
  if (!test::have_shared("goldens/gguf-stories")) return;
  CHECK(check_folder(test::shared_dir() / "goldens" / "gguf-stories") == 2);
}

TEST_CASE("a GGUF tensor has its outermost dimension first, and its view flattens the rows") {
  const TempFolder folder;
  const auto file = open_gguf(folder.write("m.gguf", small_model().file()));
  REQUIRE(file->tensors().size() == 2);
  const Tensor& a = *file->find("a");
  CHECK(a.shape == std::vector<int64_t>{2, 4});
  CHECK(a.view.rows == 2);
  CHECK(a.view.cols == 4);
  CHECK(a.view.row_bytes == 16);
  CHECK(a.view.row(1)[15] == std::byte{1});
  const Tensor& b = *file->find("b");
  CHECK(b.shape == std::vector<int64_t>{2, 3, 64});
  CHECK(b.view.type == DType::Q8_0);
  CHECK(b.view.rows == 6);
  CHECK(b.view.cols == 64);
  CHECK(b.view.row(5)[67] == std::byte{2});
  CHECK(has(b.file, "m.gguf"));
  CHECK(file->bytes() == 32 + 6 * 68);
  CHECK(file->version() == 3);
}

TEST_CASE(
    "GGUF version 2, another alignment, gaps between tensors and a file without tensors are "
    "valid") {
  const TempFolder folder;
  GgufWriter w = small_model();
  w.version = 2;
  w.u32("general.alignment", 256);
  w.alignment = 256;
  auto file = open_gguf(folder.write("m.gguf", w.file()));
  CHECK(file->version() == 2);
  CHECK(file->find("b")->view.data[0] == std::byte{2});

  w = small_model();
  w.tensors[1].offset = 96;  // after a hole of 64 bytes
  file = open_gguf(folder.write("m.gguf", w.file() + std::string(64, '\3')));
  CHECK(file->find("b")->view.data[0] == std::byte{2});
  CHECK(file->find("b")->view.row(5)[67] == std::byte{3});

  w.tensors.clear();
  CHECK(open_gguf(folder.write("m.gguf", w.head()))->tensors().empty());  // without padding
}

TEST_CASE("metadata of every type is read in the order of the file") {
  const TempFolder folder;
  const auto file = open_gguf(folder.write("m.gguf", one_of_each_type().file()));
  const GgufMetadata& m = file->metadata();
  CHECK(m.uint("u8") == 200);
  CHECK(m.number("i8") == -5);
  CHECK(m.uint("u16") == 60000);
  CHECK(m.number("i16") == -3000);
  CHECK(m.uint("u32") == 4000000000u);
  CHECK(m.uint("u64") == std::numeric_limits<uint64_t>::max());
  CHECK(m.uint("i64") == 1);
  CHECK(m.number("f32") == 0.5);
  CHECK(m.number("f64") == 0.25);
  CHECK(m.boolean_or("yes", false));
  CHECK(!m.boolean_or("no", true));
  CHECK(m.boolean_or("absent", true));
  CHECK(m.text("text") == "hello \x1b[31m");
  CHECK(m.text_or("absent", "x") == "x");
  CHECK(m.uint_or("absent", 3) == 3);
  CHECK(m.number_or("absent", 1.5) == 1.5);
  CHECK(m.strings("texts") == std::vector<std::string_view>{"<unk>", "", "a\nb"});
  CHECK(m.strings("nothing").empty());
  CHECK(m.floats("floats") == std::vector<float>{1.5f, -2.0f});
  CHECK(m.floats("doubles") == std::vector<float>{0.125f});
  CHECK(m.ints("ints") == std::vector<int64_t>{1, -2, 3});
  CHECK(m.ints("bytes") == std::vector<int64_t>{1, 255});
  CHECK(m.find("absent") == nullptr);
  REQUIRE(m.values().size() == 20);
  CHECK(m.values()[0].key == "u8");
  CHECK(m.values()[19].key == "nothing");
}

TEST_CASE("a metadata value prints on one line, shortened and with control characters escaped") {
  const TempFolder folder;
  GgufWriter w = one_of_each_type();
  w.text("long", std::string(1000, 'x'));
  w.array("many", 4, 500, std::string(2000, '\0'));
  const auto file = open_gguf(folder.write("m.gguf", w.file()));
  const auto shown = [&](std::string_view key) { return file->metadata().find(key)->short_text(); };
  CHECK(shown("u8") == "200");
  CHECK(shown("i8") == "-5");
  CHECK(shown("f32") == "0.5");
  CHECK(shown("yes") == "true");
  CHECK(shown("text") == "\"hello \\x1b[31m\"");
  CHECK(shown("texts") == "[\"<unk>\", \"\", \"a\\x0ab\"]");
  CHECK(shown("ints") == "[1, -2, 3]");
  CHECK(shown("nothing") == "[]");
  CHECK(shown("long") == '"' + std::string(72, 'x') + "...\"");
  CHECK(shown("many").size() < 100);
  CHECK(file->metadata().find("texts")->type_text() == "array of 3 strings");
  CHECK(file->metadata().find("u8")->type_text() == "u8");
}

TEST_CASE("a lookup of the wrong type or of a missing key is an error that says so") {
  const TempFolder folder;
  const auto file = open_gguf(folder.write("m.gguf", one_of_each_type().file()));
  const GgufMetadata& m = file->metadata();
  CHECK(has(error_text([&] { m.uint("absent"); }), "m.gguf: metadata key 'absent' is missing"));
  CHECK(
      has(error_text([&] { m.uint("text"); }), "'text' is a string \"hello \\x1b[31m\", expected"));
  CHECK(has(error_text([&] { m.uint("i32"); }), "not negative"));
  CHECK(has(error_text([&] { m.uint("f32"); }), "expected an integer"));
  CHECK(has(error_text([&] { m.uint("yes"); }), "expected an integer"));
  CHECK(has(error_text([&] { m.uint_or("ints", 1); }), "an array of 3 i32s, expected an integer"));
  CHECK(has(error_text([&] { m.number("ints"); }), "expected a number"));
  CHECK(has(error_text([&] { m.number_or("text", 1); }), "expected a number"));
  CHECK(has(error_text([&] { m.boolean_or("u8", true); }), "expected a bool"));
  CHECK(has(error_text([&] { m.text("u8"); }), "expected a string"));
  CHECK(has(error_text([&] { m.text_or("texts", ""); }), "expected a string"));
  CHECK(has(error_text([&] { m.ints("large"); }), "expected integers below 2^63"));
}

TEST_CASE("an array of the wrong element type is refused") {
  const TempFolder folder;
  const size_t kBytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 8, 0, 8, 8, 8};
  GgufWriter w;
  for (uint32_t type = 0; type < 13; ++type) {
    if (type != 9) w.array(concat("k", type), type, 2, std::string(2 * kBytes[type], '\0'));
  }
  const auto file = open_gguf(folder.write("m.gguf", w.file()));
  const GgufMetadata& m = file->metadata();
  for (uint32_t type = 0; type < 13; ++type) {
    if (type == 9) continue;
    const std::string key = concat("k", type);
    const bool is_float = type == 6 || type == 12;
    const bool is_integer = !is_float && type != 7 && type != 8;
    CHECK(error_text([&] { m.strings(key); }).empty() == (type == 8));
    CHECK(error_text([&] { m.floats(key); }).empty() == is_float);
    CHECK(error_text([&] { m.ints(key); }).empty() == is_integer);
  }
}

namespace {

// Part `no` of `count`, with the named tensors.
GgufWriter part(uint16_t no, uint16_t count, int total, std::vector<std::string> names) {
  GgufWriter w;
  if (no == 0) w.text("general.architecture", "llama");
  w.u16("split.no", no);
  w.u16("split.count", count);
  w.i32("split.tensors.count", total);
  for (const std::string& name : names) {
    w.tensors.push_back({name, {8}, 0, std::string(32, static_cast<char>(no + 1))});
  }
  return w;
}

}  // namespace

TEST_CASE("any part of a split GGUF opens all parts") {
  const TempFolder folder;
  folder.write("m-00001-of-00003.gguf", part(0, 3, 3, {}).file());
  folder.write("m-00002-of-00003.gguf", part(1, 3, 3, {"a", "b"}).file());
  folder.write("m-00003-of-00003.gguf", part(2, 3, 3, {"c"}).file());
  for (int named = 1; named <= 3; ++named) {
    const auto file = open_gguf(folder.path() / concat("m-0000", named, "-of-00003.gguf"));
    REQUIRE(file->tensors().size() == 3);
    CHECK(file->metadata().text("general.architecture") == "llama");
    CHECK(file->find("b")->view.data[0] == std::byte{2});
    CHECK(file->find("c")->view.data[0] == std::byte{3});
    CHECK(has(file->find("c")->file, "m-00003-of-00003.gguf"));
  }
}

TEST_CASE("parts that do not belong together are refused") {
  const TempFolder folder;
  const auto open = [&](const char* name) {
    return error_text([&] { open_gguf(folder.path() / name); });
  };
  const auto first = folder.write("m-00001-of-00002.gguf", part(0, 2, 2, {"a"}).file());
  CHECK(has(open("m-00001-of-00002.gguf"), "m-00002-of-00002.gguf: cannot be opened"));
  folder.write("m-00002-of-00002.gguf", part(0, 2, 2, {"b"}).file());
  CHECK(has(open("m-00001-of-00002.gguf"), "part 1 of 2, expected 2 of 2"));
  folder.write("m-00002-of-00002.gguf", part(1, 3, 2, {"b"}).file());
  CHECK(has(open("m-00001-of-00002.gguf"), "part 2 of 3, expected 2 of 2"));
  folder.write("m-00002-of-00002.gguf", part(1, 2, 2, {"a"}).file());
  CHECK(has(open("m-00001-of-00002.gguf"), "tensor 'a' occurs twice"));
  folder.write("m-00002-of-00002.gguf", part(1, 2, 2, {"b", "c"}).file());
  CHECK(has(open("m-00001-of-00002.gguf"), "3 tensors, expected 2"));
  folder.write("m-00002-of-00002.gguf", small_model().file());
  CHECK(has(open("m-00001-of-00002.gguf"), "'split.no' is missing"));
  folder.write("renamed.gguf", test::read_file(first));
  CHECK(has(open("renamed.gguf"), "one of 2 parts"));
  folder.write("m-00001-of-00009.gguf", test::read_file(first));
  CHECK(has(open("m-00001-of-00009.gguf"), "one of 2 parts"));
}

TEST_CASE("a whole GGUF may have a name like that of a part") {
  const TempFolder folder;
  CHECK(open_gguf(folder.write("m-00001-of-00002.gguf", small_model().file()))->tensors().size() ==
        2);
}

TEST_CASE("a GGUF of 16 GB with 128000 tokens opens without reading its data") {
  GgufWriter w;
  std::vector<std::string> pieces;
  for (int i = 0; i < 128000; ++i) pieces.push_back(concat("piece", i));
  w.strings("tokenizer.ggml.tokens", pieces);
  w.array("tokenizer.ggml.scores", 6, 128000, std::string(4 * 128000, '\0'));
  constexpr uint64_t kRows = 6500, kTensors = 300;
  for (uint64_t i = 0; i < kTensors; ++i) {
    w.tensors.push_back({concat("blk.", i), {4096, kRows}, 1, "", i * kRows * 8192});
  }
  const TempFolder folder;
  const std::string head = w.file();
  const auto path = folder.write("m.gguf", head);
  std::error_code error;
  std::filesystem::resize_file(path, head.size() + kTensors * kRows * 8192,
                               error);  // sparse: uses no disk
  if (error) return;                    // a file system without such files
  const auto start = std::chrono::steady_clock::now();
  const auto file = open_gguf(path);
  const std::chrono::duration<double, std::milli> opened = std::chrono::steady_clock::now() - start;
  CHECK(file->bytes() > 15'000'000'000);
  CHECK(file->metadata().strings("tokenizer.ggml.tokens").back() == "piece127999");
  // Takes about 1 ms; the bound allows for sanitizers and busy machines.
  CHECK(opened.count() < 500);
}
