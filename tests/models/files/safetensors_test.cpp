#include "models/files/safetensors.h"

#include <cstring>

#include "tests/catch.h"
#include "tests/error_text.h"
#include "tests/paths.h"
#include "tests/safetensors_writer.h"
#include "tests/temp_folder.h"

using namespace skald;
using test::error_text;
using test::has;
using test::safetensors;
using test::TempFolder;

namespace {

std::string as_is(std::string_view name) { return std::string(name); }

std::string index_json(const std::string& weight_map) {
  return R"({"metadata": {"total_size": 8, "more": [1, {"x": null}]}, "weight_map": {)" +
         weight_map + "}}";
}

const char* kHeader =
    R"({"__metadata__": {"format": "pt"},
        "b": {"dtype": "BF16", "shape": [2, 3], "data_offsets": [16, 28]},
        "a": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]},
        "h": {"data_offsets": [28, 52], "shape": [2, 3, 2], "dtype": "F16"}}   )";

std::string small() {
  std::string data(52, '\0');
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<char>(i);
  return safetensors(kHeader, data);
}

}  // namespace

TEST_CASE("a safetensors file has its tensors as views, in the order of the data") {
  const TempFolder folder;
  const auto path = folder.write("model.safetensors", small());
  for (const auto& named : {path, folder.path()}) {
    const std::shared_ptr<const WeightFile> file = open_safetensors(named, as_is);
    REQUIRE(file->tensors().size() == 3);
    CHECK(file->tensors()[0].name == "a");
    const Tensor& a = *file->find("a");
    CHECK(a.view.type == DType::F32);
    CHECK(a.shape == std::vector<int64_t>{4});
    CHECK(a.view.rows == 1);
    CHECK(a.view.cols == 4);
    const Tensor& b = *file->find("b");
    CHECK(b.view.type == DType::BF16);
    CHECK(b.view.rows == 2);
    CHECK(b.view.cols == 3);
    CHECK(b.view.row_bytes == 6);
    CHECK(b.view.row(1)[0] == std::byte{22});
    CHECK(has(b.file, "model.safetensors"));
    const Tensor& h = *file->find("h");
    CHECK(h.shape == std::vector<int64_t>{2, 3, 2});
    CHECK(h.view.rows == 6);
    CHECK(h.view.row(5)[3] == std::byte{51});
    CHECK(file->bytes() == 52);
  }
}

TEST_CASE("tensors are renamed, and tensors without a new name are ignored, of any type") {
  const TempFolder folder;
  const auto path = folder.write("x.safetensors", safetensors(R"({
      "keep": {"dtype": "F16", "shape": [1], "data_offsets": [0, 2]},
      "inv_freq": {"dtype": "F64", "shape": [2], "data_offsets": [2, 18]},
      "none": {"dtype": "I8", "shape": [0, 7], "data_offsets": [18, 18]},
      "four": {"dtype": "F4", "shape": [3, 2], "data_offsets": [18, 21]}})",
                                                              std::string(21, '\0')));
  const auto rename = [](std::string_view name) {
    return name == "keep" ? std::string("kept") : std::string();
  };
  const auto file = open_safetensors(path, rename);
  REQUIRE(file->tensors().size() == 1);
  CHECK(file->find("kept"));
  CHECK(has(error_text([&] { open_safetensors(path, as_is); }),
            "x.safetensors: tensor 'inv_freq' is F64, and skald reads F32, F16 and BF16"));
  const auto two = folder.write("y.safetensors", small());
  CHECK(has(error_text([&] { open_safetensors(two, [](std::string_view) { return "same"; }); }),
            "y.safetensors: tensor 'same' occurs twice"));
}

TEST_CASE("tensors of packed weights are kept raw where a model asks for them") {
  const TempFolder folder;
  const auto path = folder.write("x.safetensors", safetensors(R"({
      "keep": {"dtype": "F16", "shape": [1], "data_offsets": [0, 2]},
      "packed": {"dtype": "U8", "shape": [2, 3], "data_offsets": [2, 8]}})",
                                                              std::string("ab") + "012345"));
  const SafetensorsFile file(path, as_is, RawTensors::Kept);
  CHECK(file.tensors().size() == 1);
  REQUIRE(file.raw_tensors().size() == 1);
  const RawTensor& raw = file.raw_tensors().front();
  CHECK(raw.name == "packed");
  CHECK(raw.type == "U8");
  CHECK(raw.shape == std::vector<int64_t>{2, 3});
  CHECK(std::string(reinterpret_cast<const char*>(raw.bytes.data()), raw.bytes.size()) == "012345");
  CHECK(has(error_text([&] { refuse_raw(raw); }), "x.safetensors: tensor 'packed' is U8"));
}

TEST_CASE("a wanted tensor without elements is refused, and a scalar is a row of one element") {
  const TempFolder folder;
  const auto empty = folder.write(
      "m.safetensors",
      safetensors(R"({"e": {"dtype": "F32", "shape": [3, 0], "data_offsets": [0, 0]}})", ""));
  CHECK(has(error_text([&] { open_safetensors(empty, as_is); }), "tensor 'e' is empty: [3, 0]"));
  const auto scalar = folder.write(
      "m.safetensors",
      safetensors(R"({"s": {"dtype": "F32", "shape": [], "data_offsets": [0, 4]}})", "1234"));
  const auto file = open_safetensors(scalar, as_is);
  CHECK(file->find("s")->view.cols == 1);
  CHECK(file->find("s")->shape == std::vector<int64_t>{1});
}

TEST_CASE("a safetensors file may have no tensors") {
  const TempFolder folder;
  CHECK(open_safetensors(folder.write("m.safetensors", safetensors("{}", "")), as_is)
            ->tensors()
            .empty());
}

namespace {

std::string one(const std::string& name) {
  return safetensors(
      R"({")" + name + R"(": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}})",
      "\x01\x02\x03\x04");
}

constexpr const char* kIndex = "model.safetensors.index.json";

}  // namespace

TEST_CASE("shards are found through the index, also through symbolic links") {
  const TempFolder blobs, folder;
  std::filesystem::create_symlink(blobs.write("0123abcd", one("a")),
                                  folder.path() / "model-00001-of-00002.safetensors");
  folder.write("model-00002-of-00002.safetensors", one("b"));
  folder.write(kIndex, index_json(R"("a": "model-00001-of-00002.safetensors",
                                     "b": "model-00002-of-00002.safetensors")"));
  const auto file = open_safetensors(folder.path(), as_is);
  REQUIRE(file->tensors().size() == 2);
  CHECK(has(file->find("b")->file, "model-00002-of-00002.safetensors"));
  file->check_whole();
}

TEST_CASE("shards that do not agree with the index are refused") {
  const TempFolder folder;
  const auto message = [&] { return error_text([&] { open_safetensors(folder.path(), as_is); }); };
  CHECK(has(message(), "has neither model.safetensors nor model.safetensors.index.json"));
  folder.write(kIndex, index_json(R"("a": "1.safetensors", "b": "2.safetensors")"));
  folder.write("1.safetensors", one("a"));
  CHECK(has(message(), "2.safetensors: cannot be opened"));
  folder.write("2.safetensors", one("c"));
  CHECK(has(message(), "2.safetensors: tensor 'b' should be here"));
  folder.write("2.safetensors", one("a"));
  CHECK(has(message(), "2.safetensors: tensor 'a' is in 1.safetensors too"));
  folder.write("1.safetensors", one("b"));
  CHECK(has(message(), "1.safetensors: tensor 'a' should be here"));  // exchanged names
}

TEST_CASE("an index that is broken or points out of its folder is refused") {
  const TempFolder folder;
  const auto message = [&](const std::string& json) {
    folder.write(kIndex, json);
    return error_text([&] { open_safetensors(folder.path(), as_is); });
  };
  for (const char* name :
       {"../m.safetensors", "/etc/passwd", "/tmp/m.safetensors", "sub/m.safetensors", "..", ".", "",
        "m.bin", ".safetensors", "m.safetensors\\u0000", "..\\u002fm.safetensors"}) {
    INFO(name);
    CHECK(has(message(index_json(concat("\"a\": \"", name, "\""))), "expected a plain name"));
  }
  CHECK(has(message("[]"), "index is not a JSON object"));
  CHECK(has(message("{}"), "has no weight_map"));
  CHECK(has(message("{"), "not valid JSON"));
  CHECK(has(message(R"({"weight_map": {}} x)"), "not valid JSON"));
  CHECK(has(message(R"({"weight_map": []})"), "an array (weight_map), expected an object"));
  CHECK(has(message(R"({"weight_map": 5})"), "a number (weight_map), expected an object"));
  CHECK(has(message(R"({"weight_map": {"a": null}})"), "null (a), expected a string"));
  CHECK(has(message(R"({"weight_map": {"a": {"b": "c"}}})"), "an object (a), expected a string"));
  CHECK(has(message(R"({"weight_map": {"a": "x.safetensors", "a": "y.safetensors"}})"),
            "names 'a' twice"));
  CHECK(has(message(R"({"weight_map": {}, "weight_map": {}})"), "'weight_map' twice"));
  CHECK(has(message(R"({"metadata": )" + std::string(100000, '[')), "nested more than 32 deep"));
  CHECK(has(message(R"({"weight_map": {"\ud800": "x.safetensors"}})"), "not valid JSON"));
}

TEST_CASE("all shared checkpoints open") {
  if (!test::have_shared("goldens/kq256")) return;
  int folders = 0;
  for (const auto& entry : std::filesystem::directory_iterator(test::shared_dir() / "goldens")) {
    if (!std::filesystem::exists(entry.path() / "model.safetensors")) continue;
    if (entry.path().filename() == "gpt_oss") {  // its experts are MXFP4 in bytes
      CHECK(has(test::error_text([&] { open_safetensors(entry.path(), as_is); }), "is U8"));
      continue;
    }
    CHECK(open_safetensors(entry.path(), as_is)->tensors().size() > 10);
    ++folders;
  }
  CHECK(folders >= 13);
}
