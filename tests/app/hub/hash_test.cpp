#include "app/hub/hash.h"

#include "app/hub/sha256_blocks.h"
#include "tests/catch.h"
#include "tests/sha256.h"

namespace skald::test {
namespace {

std::string sha256(std::string_view text) {
  Hash hash = Hash::sha256();
  hash.add(text);
  return hash.hex();
}

std::string git_blob(std::string_view text) {
  Hash hash = Hash::git_blob(std::ssize(text));
  hash.add(text);
  return hash.hex();
}

TEST_CASE("SHA-256 gives the values of the standard") {
  CHECK(sha256("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(sha256("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(sha256(std::string(1'000'000, 'a')) ==
        "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST_CASE("small files are named as git names them") {
  CHECK(git_blob("") == "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391");
  CHECK(git_blob("hello\n") == "ce013625030ba8dba906f756967f9e9ca394464a");
}

TEST_CASE("a hash does not depend on how the bytes are cut into parts") {
  std::string text;
  for (int i = 0; i < 300; ++i) text += static_cast<char>(i * 7);
  for (size_t size = 0; size < text.size(); ++size) {
    const std::string_view whole = std::string_view(text).substr(0, size);
    Hash hash = Hash::sha256();
    for (size_t at = 0; at < size; at += 37) hash.add(whole.substr(at, 37));
    CHECK(hash.hex() == sha256_hex(whole));
  }
}

TEST_CASE("the CPU's instructions for SHA-256 give what portable code gives") {
  std::array<unsigned char, 64 * 5> bytes;
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<unsigned char>(i * i + 3 * i);
  Sha256State fast = {1, 2, 3, 4, 0xffffffff, 6, 7, 8}, portable = fast;
  sha256_blocks(fast, bytes.data(), 5);
  portable_sha256_blocks(portable, bytes.data(), 5);
  CHECK(fast == portable);
  sha256_blocks(fast, bytes.data(), 0);
  CHECK(fast == portable);
}

TEST_CASE("a hash can be read before its end") {
  Hash hash = Hash::sha256();
  hash.add("ab");
  CHECK(hash.hex() == sha256("ab"));
  hash.add("c");
  CHECK(hash.hex() == sha256("abc"));
}

}  // namespace
}  // namespace skald::test
