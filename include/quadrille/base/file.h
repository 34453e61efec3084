// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Files, with the rule "commit last": what is written becomes visible whole, by one atomic rename
// after its bytes and its folder have reached the disk, or not at all.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "quadrille/base/result.h"
#include "quadrille/base/units.h"

namespace quadrille {

/// A read-only mapping of a whole file, larger than memory if it must be. Moving keeps addresses.
class MappedFile {
 public:
  [[nodiscard]] static Result<MappedFile> open(const std::string& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  /// Empty for an empty file.
  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  MappedFile() = default;
  std::span<const std::byte> bytes_;
  std::string path_;
};

/// Writes `path` by way of a temporary neighbour: write, fsync, rename, fsync of the folder.
/// Errors: kExhausted when the disk is full; `path` is then untouched and the neighbour removed.
[[nodiscard]] Result<void> write_file_atomically(const std::string& path, std::string_view content);

[[nodiscard]] Result<std::string> read_text_file(const std::string& path);

/// Creates the folder and its parents; fine if it exists.
[[nodiscard]] Result<void> make_folders(const std::string& path);
[[nodiscard]] Result<void> sync_folder(const std::string& path);
/// Renames and makes the rename durable (fsync of the target's folder).
[[nodiscard]] Result<void> rename_durably(const std::string& from, const std::string& to);
[[nodiscard]] Result<void> remove_tree(const std::string& path);
[[nodiscard]] bool path_exists(const std::string& path);
/// Names (not paths) in the folder, sorted, without "." and "..".
[[nodiscard]] Result<std::vector<std::string>> list_folder(const std::string& path);
/// What a process of this user may still write there.
[[nodiscard]] Result<Bytes> free_space(const std::string& path);

/// Appends to a file and counts on nothing but write(2): whole lines survive a kill -9 of the
/// writer.
class AppendFile {
 public:
  /// Opens for appending; creates it if absent.
  [[nodiscard]] static Result<AppendFile> open(const std::string& path);
  AppendFile(AppendFile&& other) noexcept;
  AppendFile& operator=(AppendFile&& other) noexcept;
  ~AppendFile();

  /// One write(2) of `text` and a newline.
  [[nodiscard]] Result<void> append_line(std::string_view text);
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  AppendFile() = default;
  int descriptor_ = -1;
  std::string path_;
};

}  // namespace quadrille
