#include "app/embed/npy.h"

#include "app/embed/result.h"
#include "app/files/atomic_file.h"
#include "app/files/json.h"
#include "app/files/jsonl_reader.h"
#include "app/files/signals.h"
#include "engine/base/error.h"

namespace skald {

std::string npy_header(int64_t rows, int64_t cols) {
  constexpr size_t kBytes = 128;
  constexpr char kMagic[] = "\x93NUMPY\x01";  // and the 0 of version 1.0
  const std::string shape =
      concat("{'descr': '<f4', 'fortran_order': False, 'shape': (", rows, ", ", cols, "), }");
  std::string header(kMagic, sizeof kMagic);
  const size_t rest = kBytes - header.size() - 2;
  header += static_cast<char>(rest & 255);
  header += static_cast<char>(rest >> 8);
  header += shape;
  header.resize(kBytes - 1, ' ');
  return header + "\n";
}

int64_t write_npy(const std::string& results, const std::string& npy, int64_t cols) {
  AtomicFile file(npy, {.mode = 0666, .replace = false});
  file.write(npy_header(0, cols));
  int64_t rows = 0;
  const auto add = [&](const Json& text) {
    const std::vector<float> vector =
        vector_of_base64(text.is_string() ? text.get<std::string>() : "");
    if (std::ssize(vector) != cols) {
      fail(Exit::Failed, results, ": expected vectors of ", cols, " numbers, found one of ",
           vector.size(), "; remove the file and begin again");
    }
    file.write(std::as_bytes(std::span(vector)));
    ++rows;
  };
  JsonlReader reader(results);
  JsonlLine line;
  while (reader.next(line)) {
    const Json result = parse_json_or_null(line.text);
    const bool several = result.is_object() && result.contains("embeddings");
    if (several) {
      for (const Json& one : result["embeddings"]) add(one);
    } else {
      add(result.is_object() ? result.value("embedding", Json()) : Json());
    }
  }
  if (interrupted_by()) fail_interrupted("while writing the .npy; --resume goes on");
  const std::string header = npy_header(rows, cols);
  file.write(0, std::as_bytes(std::span(header)));
  file.commit();
  return rows;
}

}  // namespace skald
