// A file that a command writes beside its result: replaced if it is there, buffered, and every
// failure (a full disk) an Error. finish() must be called: what was not written then is lost.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace skald {

class OutputFile {
 public:
  explicit OutputFile(const std::string& path);  // throws Error(Exit::Usage)
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(std::string_view bytes);
  void flush();
  void finish();

 private:
  std::string name_, pending_;
  int fd_ = -1;
};

}  // namespace skald
