#include "app/hub/blob_writer.h"

#include "tests/catch.h"
#include "tests/error_text.h"
#include "tests/sha256.h"
#include "tests/temp_folder.h"

namespace skald::test {
namespace {

namespace fs = std::filesystem;

const std::string kContent = "0123456789abcdefghijklmnopqrstuvwxyz";

struct Blob {
  TempFolder folder;
  CachedRepository cached{folder.path(), "acme/tiny"};
  RemoteFile file{"x.gguf", std::ssize(kContent), sha256_hex(kContent), sha256_hex(kContent)};

  Blob() { cached.make_folders(); }

  BlobWriter writer(bool stop = false) const {
    return BlobWriter(cached, file, *FileLock::try_take(cached.lock(file.etag)),
                      [stop] { return stop; });
  }
  fs::path incomplete() const { return cached.incomplete(file.etag); }
  static std::string part(size_t first, size_t end) { return kContent.substr(first, end - first); }
};

TEST_CASE("parts may come in any order, and the file holds only first bytes") {
  const Blob blob;
  BlobWriter writer = blob.writer();
  writer.put(10, Blob::part(10, 20));
  CHECK(read_file(blob.incomplete()) == "");
  writer.put(0, Blob::part(0, 10));
  CHECK(read_file(blob.incomplete()) == Blob::part(0, 20));
  writer.put(30, Blob::part(30, 36));
  CHECK(writer.written() == 20);
  CHECK(!writer.has_all());
  writer.put(20, Blob::part(20, 30));
  CHECK(writer.has_all());
  CHECK(writer.finish() == BlobWriter::Check::Good);
  CHECK(read_file(blob.cached.blob(blob.file.etag)) == kContent);
  CHECK(!fs::exists(blob.incomplete()));
}

TEST_CASE("parts that overlap, or come twice, count once") {
  const Blob blob;
  BlobWriter writer = blob.writer();
  writer.put(0, Blob::part(0, 12));
  writer.put(0, Blob::part(0, 12));
  writer.put(5, Blob::part(5, 20));
  writer.put(25, Blob::part(25, 36));
  writer.put(18, Blob::part(18, 30));
  CHECK(writer.has_all());
  CHECK(writer.finish() == BlobWriter::Check::Good);
  CHECK(read_file(blob.cached.blob(blob.file.etag)) == kContent);
}

TEST_CASE("the hash covers the bytes of an earlier download") {
  const Blob blob;
  put_file(blob.incomplete(), Blob::part(0, 30));
  {
    BlobWriter writer = blob.writer();
    CHECK(writer.written() == 30);
    writer.put(30, Blob::part(30, 36));
    CHECK(writer.finish() == BlobWriter::Check::Good);
  }
  put_file(blob.incomplete(), "wrong bytes of an earlier download");
  BlobWriter writer = blob.writer();
  writer.put(writer.written(), std::string(kContent.size() - 34, 'x'));
  CHECK(writer.finish() == BlobWriter::Check::Again);
  CHECK(writer.written() == 0);
  writer.put(0, std::string(kContent.size(), 'x'));
  CHECK(
      has(error_text([&] { writer.finish(); }), "x.gguf: what arrived is not what the hub lists"));
  CHECK(!fs::exists(blob.incomplete()));
}

TEST_CASE("reading what an earlier download left can be stopped") {
  const Blob blob;
  put_file(blob.incomplete(), Blob::part(0, 30));
  CHECK_THROWS_AS(blob.writer(true), HttpFailure);
  CHECK(read_file(blob.incomplete()) == Blob::part(0, 30));
}

}  // namespace
}  // namespace skald::test
