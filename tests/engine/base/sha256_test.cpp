#include "engine/base/sha256.h"

#include "tests/catch.h"
#include "tests/sha256.h"

namespace skald {
namespace {

TEST_CASE("SHA-256 gives the digests of the standard's examples") {
  CHECK(sha256_hex("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(sha256_hex("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(sha256_hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq") ==
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  CHECK(
      sha256_hex("abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopq"
                 "klmnopqrlmnopqrsmnopqrstnopqrstu") ==
      "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1");
}

TEST_CASE("SHA-256 of a million letters does not depend on the size of the pieces added") {
  const std::string letters(1000, 'a');
  for (const size_t piece : {1, 63, 64, 65, 127, 999}) {
    Sha256 hash;
    const std::string all(1000000, 'a');
    for (size_t at = 0; at < all.size(); at += piece) {
      hash.add(std::string_view(all).substr(at, piece));
    }
    CHECK(hash.hex() == "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  }
}

TEST_CASE("SHA-256 agrees with another implementation at every length from 0 to 199") {
  std::string text;
  for (int length = 0; length < 200; ++length) {
    CHECK(sha256_hex(text) == test::sha256_hex(text));
    text += static_cast<char>(length * 37);
  }
}

TEST_CASE("more bytes may be added after a digest was read") {
  Sha256 hash;
  hash.add("ab");
  CHECK(hash.hex() == sha256_hex("ab"));
  CHECK(hash.add("c").hex() == sha256_hex("abc"));
}

TEST_CASE("the border between two fields changes the digest") {
  CHECK(Sha256().add_field("ab").add_field("c").hex() !=
        Sha256().add_field("a").add_field("bc").hex());
  CHECK(Sha256().add_number(0x0807060504030201).hex() ==
        sha256_hex("\x01\x02\x03\x04\x05\x06\x07\x08"));
}

}  // namespace
}  // namespace skald
