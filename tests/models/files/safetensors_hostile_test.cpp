#include "models/files/safetensors.h"
#include "tests/catch.h"
#include "tests/error_text.h"
#include "tests/hostile.h"
#include "tests/safetensors_writer.h"
#include "tests/temp_folder.h"

using namespace skald;
using test::safetensors;
using test::TempFolder;

namespace {

void open_and_decode(const std::filesystem::path& path) {
  const auto file = open_safetensors(path, [](std::string_view name) { return std::string(name); });
  test::decode_all(*file);
}

// An entry of a header.
std::string entry(const std::string& name, const std::string& dtype, const std::string& shape,
                  const std::string& offsets) {
  return '"' + name + R"(":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" +
         offsets + "}";
}

std::string header(const std::vector<std::string>& entries) {
  std::string out = "{";
  for (const std::string& text : entries) out += concat(out.size() > 1 ? "," : "", text);
  return out + "}";
}

std::string good_safetensors() {
  return safetensors(
      header({R"("__metadata__":{"format":"pt"})", entry("a", "F32", "[2,2]", "[0,16]"),
              entry("b", "BF16", "[8]", "[16,32]"), entry("c", "F16", "[2,2,2]", "[32,48]")}),
      std::string(48, '\1'));
}

struct BadSafetensor {
  std::string what;
  std::string bytes;
  std::string message;
};

// Bad headers, each before 16 bytes of data.
struct BadSafetensors {
  std::vector<BadSafetensor> list;
  void add(const std::string& what, const std::string& json, const std::string& message) {
    list.push_back({what, safetensors(json, std::string(16, '\1')), message});
  }
};

void add_bad_lengths(BadSafetensors& bad) {
  bad.list.push_back({"seven bytes", "1234567", "has only 7 bytes"});
  bad.list.push_back({"a text", "this is a text, no safetensors file", "says that its header has"});
  bad.list.push_back({"no header", safetensors(0, "", ""), "is not a JSON object"});
  for (uint64_t edge : test::kSizeEdges) {
    bad.list.push_back({concat("header of ", edge), safetensors(edge, "{}", ""),
                        concat("header has ", edge, " bytes")});
  }
  for (uint64_t below = 1; below <= 8; ++below) {  // 8 + length wraps around to 0 ... 7
    bad.list.push_back({"header that wraps", safetensors(~uint64_t{0} - below + 1, "{}", ""),
                        "but only 2 follow"});
  }
  bad.list.push_back({"header one too long", safetensors(3, "{}", ""), "but only 2 follow"});
  bad.list.push_back({"header one too short", safetensors(1, "{}", ""), "not valid JSON"});
}

void add_bad_json(BadSafetensors& bad) {
  const std::string fine = entry("a", "F32", "[4]", "[0,16]");
  bad.add("an array", "[]", "is not a JSON object");
  bad.add("a space first", " {}", "is not a JSON object");
  bad.add("a byte order mark", "\xef\xbb\xbf{}", "is not a JSON object");
  bad.add("cut", "{" + fine, "not valid JSON");
  bad.add("two objects", header({fine}) + "{}", "not valid JSON");
  bad.add("bytes after a zero", header({fine}) + std::string(1, '\0') + "x",
          "is not a JSON object");
  bad.add("a comment", "{/**/" + fine + "}", "not valid JSON");
  bad.add("trailing comma", "{" + fine + ",}", "not valid JSON");
  bad.add("nested objects", concat("{\"a\":", std::string(100000, '{')), "not valid JSON");
  std::string deep = "{";
  for (int i = 0; i < 100000; ++i) deep += "\"a\":{";
  bad.add("deeply nested objects", deep,
          "an object (a), expected only dtype, shape and data_offsets");
  bad.add("deeply nested arrays", concat("{\"a\":", std::string(100000, '[')),
          "an array (a), expected an object");
  bad.add("deep shape", header({entry("a", "F32", std::string(100000, '['), "[0,16]")}),
          "an array (a), expected integers from 0");
  bad.add("lone surrogate", header({entry("\\ud800", "F32", "[4]", "[0,16]")}), "not valid JSON");
  bad.add("low surrogate first", header({entry("\\udc00x", "F32", "[4]", "[0,16]")}),
          "not valid JSON");
  bad.add("invalid UTF-8", header({entry("\xff", "F32", "[4]", "[0,16]")}), "not valid JSON");
  bad.add("overlong UTF-8", header({entry("\xc0\xaf", "F32", "[4]", "[0,16]")}), "not valid JSON");
  bad.add("control character", header({entry("a\nb", "F32", "[4]", "[0,16]")}), "not valid JSON");
  bad.add("duplicate tensor", header({fine, fine}), "names 'a' twice");
  bad.add("duplicate tensor, escaped", header({fine, entry("\\u0061", "F32", "[4]", "[0,16]")}),
          "names 'a' twice");
  bad.add("duplicate metadata", header({"\"__metadata__\":{\"x\":\"1\",\"x\":\"2\"}", fine}),
          "the metadata 'x' twice");
  bad.add("two metadata", header({"\"__metadata__\":{}", "\"__metadata__\":{}", fine}),
          "names '__metadata__' twice");
  bad.add("metadata number", header({"\"__metadata__\":{\"x\":1}", fine}),
          "a number (__metadata__), expected a string");
  bad.add("metadata object", header({"\"__metadata__\":{\"x\":{}}", fine}),
          "an object (__metadata__), expected a string");
  bad.add("metadata null", header({"\"__metadata__\":null", fine}),
          "null (__metadata__), expected an object");
  bad.add("a terminal's command as name",
          header({entry("\\u001b]0;x\\u0007", "F99", "[4]", "[0,16]")}),
          "tensor '\\x1b]0;x\\x07' has the unknown type");
  for (const char* value : {"null", "true", "1", "-1", "1.5", "\"x\"", "[]", "[1]"}) {
    bad.add("no object", header({concat("\"a\":", value)}), "(a), expected an object");
  }
}

void add_bad_entries(BadSafetensors& bad) {
  const auto tensor = [&](const std::string& dtype, const std::string& shape,
                          const std::string& offsets, const std::string& message) {
    bad.add(dtype + shape + offsets.substr(0, 100), header({entry("a", dtype, shape, offsets)}),
            message);
  };
  bad.add("no dtype", R"({"a":{"shape":[4],"data_offsets":[0,16]}})", "has no dtype (a)");
  bad.add("no shape", R"({"a":{"dtype":"F32","data_offsets":[0,16]}})", "has no shape (a)");
  bad.add("no offsets", R"({"a":{"dtype":"F32","shape":[4]}})", "has no data_offsets (a)");
  bad.add("nothing", R"({"a":{}})", "has no dtype (a)");
  bad.add("too much", R"({"a":{"dtype":"F32","shape":[4],"data_offsets":[0,16],"x":"y"}})",
          "a string (a), expected only dtype, shape and data_offsets");
  bad.add("dtype twice", R"({"a":{"dtype":"F32","dtype":"F16","shape":[4],"data_offsets":[0,16]}})",
          "'dtype' twice");
  bad.add("shape twice", R"({"a":{"dtype":"F32","shape":[4],"shape":[4],"data_offsets":[0,16]}})",
          "'shape' twice");
  tensor("F33", "[4]", "[0,16]", "unknown type 'F33'");
  tensor("", "[4]", "[0,16]", "unknown type ''");
  tensor("f32", "[4]", "[0,16]", "unknown type 'f32'");
  for (const char* number : {"-1", "4.0", "1e2", "\"4\"", "null", "true", "[[4]]", "{}",
                             "18446744073709551616", "-9223372036854775809", "1e400"}) {
    tensor("F32", concat("[", number, "]"), "[0,16]", "");
    tensor("F32", "[4]", concat("[0,", number, "]"), "");
    tensor("F32", "[4]", concat("[", number, ",16]"), "");
    tensor("F32", number, "[0,16]", "");
  }
  tensor("F32", concat("[", std::string(1000000, '9'), "]"), "[0,16]", "");
  tensor("F32", "[4]", "[]", "has 0 data_offsets");
  tensor("F32", "[4]", "[16]", "has 1 data_offsets");
  tensor("F32", "[4]", "[0,16,16]", "has 3 data_offsets");
  tensor("F32", "[4]", "[16,0]", "has data_offsets [16, 0)");
  tensor("F32", "[4]", "[0,17]", "but there are 16 bytes");
  tensor("F32", "[5]", "[0,20]", "but there are 16 bytes");
  tensor("F32", "[3]", "[4,16]", "starts at byte 4, expected 0");
  tensor("F32", "[3]", "[0,12]", "has 16 bytes of data, but its tensors need 12");
  tensor("F32", "[3]", "[0,16]", "needs 12 bytes, but its data_offsets give 16");
  tensor("F32", "[1000000,1000000]", "[0,16]", "but its data_offsets give 16");
  tensor("F16", "[4]", "[0,16]", "needs 8 bytes");
  tensor("F4", "[3]", "[0,16]", "an impossible number of bytes");
  tensor("F6_E2M3", "[5]", "[0,16]", "an impossible number of bytes");
  tensor("F32", "[4294967296,4294967296]", "[0,16]", "an impossible number of bytes");
  tensor("F32", "[4611686018427387904,4]", "[0,16]", "an impossible number of bytes");
  tensor("F32", "[2305843009213693952,8]", "[0,16]", "an impossible number of bytes");
  tensor("F32", "[1152921504606846980]", "[0,16]", "an impossible number of bytes");
  tensor("U8", "[2305843009213693952,0,8]", "[0,16]", "");
  for (uint64_t edge : test::kSizeEdges) {
    tensor("F32", concat("[", edge, "]"), "[0,16]", "");
    tensor("BF16", concat("[", edge, ",", edge, "]"), "[0,16]", "");
    tensor("F32", "[4]", concat("[0,", edge, "]"), "but there are 16 bytes");
    tensor("F32", "[4]", concat("[", edge, ",16]"), "but there are 16 bytes");
    tensor("F32", "[4]", concat("[", edge, ",", edge, "]"), "");
    tensor("F32", "[4]", concat("[", edge - 16, ",", edge, "]"), "but there are 16 bytes");
  }
  std::string dims = "[1";
  for (int i = 0; i < 64; ++i) dims += ",1";
  tensor("F32", dims + "]", "[0,16]", "more than 64 numbers");
  bad.add("overlap",
          header({entry("a", "F32", "[4]", "[0,16]"), entry("b", "F32", "[1]", "[12,16]")}),
          "tensor 'b' starts at byte 12, expected 16");
  bad.add("the same range",
          header({entry("a", "F32", "[4]", "[0,16]"), entry("b", "F32", "[4]", "[0,16]")}),
          "starts at byte 0");
  bad.add("a hole", header({entry("a", "F32", "[1]", "[0,4]"), entry("b", "F32", "[2]", "[8,16]")}),
          "tensor 'b' starts at byte 8, expected 4");
}

}  // namespace

TEST_CASE("every handcrafted bad safetensors file is refused with the reason") {
  BadSafetensors bad;
  add_bad_lengths(bad);
  add_bad_json(bad);
  add_bad_entries(bad);
  CHECK(bad.list.size() > 180);
  const TempFolder folder;
  for (const BadSafetensor& file : bad.list) {
    INFO(file.what.substr(0, 200));
    const auto path = folder.write("bad.safetensors", file.bytes);
    const std::string message = test::error_text([&] { open_and_decode(path); });
    INFO(message);
    CHECK(test::has(message, "bad.safetensors: "));
    CHECK(test::has(message, file.message));
  }
  const auto result = test::open_in_child(static_cast<int>(bad.list.size()), [&](int i) {
    open_and_decode(folder.write("bad.safetensors", bad.list[i].bytes));
  });
  CHECK(result.loaded == 0);
}

TEST_CASE("a safetensors file cut anywhere is refused") {
  const std::string whole = good_safetensors();
  const TempFolder folder;
  CHECK(test::open_cut(whole, open_and_decode).loaded == 0);
  open_and_decode(folder.write("whole.safetensors", whole));
  const auto longer = folder.write("longer.safetensors", whole + "x");
  CHECK(test::error_text([&] { open_and_decode(longer); }) != "");
}

TEST_CASE("a safetensors file with any bit of its header flipped loads or is refused") {
  const std::string whole = good_safetensors();
  const int bits = 8 * static_cast<int>(whole.size() - 48);
  const auto result = test::open_flipped(whole, bits, open_and_decode);
  CHECK(result.refused > bits / 2);
}

TEST_CASE("a header of many small tensors needs memory in proportion to its size") {
  std::vector<std::string> entries;
  entries.reserve(20000);
  for (int i = 0; i < 20000; ++i) {
    entries.push_back(
        entry(std::to_string(i), "F16", "[1]", concat("[", 2 * i, ",", 2 * i + 2, "]")));
  }
  const TempFolder folder;
  const auto path =
      folder.write("m.safetensors", safetensors(header(entries), std::string(40000, '\1')));
  CHECK(test::open_in_child(1, [&](int) { open_and_decode(path); }).loaded == 1);
}
