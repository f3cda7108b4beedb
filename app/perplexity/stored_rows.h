// Random access to a base file: a head, then rows of one size. Every read is checked: a file that
// ends too early is an Error.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace skald {

class StoredRows {
 public:
  explicit StoredRows(const std::string& path);
  ~StoredRows();
  StoredRows(const StoredRows&) = delete;
  StoredRows& operator=(const StoredRows&) = delete;

  const std::string& name() const { return name_; }  // fit to print
  int64_t size() const { return size_; }
  void read(int64_t offset, std::span<std::byte> bytes) const;

  template <class Number>
  Number number(int64_t offset) const {
    Number value;
    read(offset, std::as_writable_bytes(std::span(&value, 1)));
    return value;
  }

 private:
  std::string name_;
  int fd_ = -1;
  int64_t size_ = 0;
};

}  // namespace skald
