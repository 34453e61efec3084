// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0

// events.jsonl.

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <thread>

#include "quadrille/observe/run_record.h"

namespace quadrille {
namespace {

/// Where the file's last whole line ends. Errors: as pread.
Result<off_t> end_of_whole_lines(int descriptor, off_t size) {
  char block[4096];
  for (off_t end = size; end > 0;) {
    const off_t start =
        end > static_cast<off_t>(sizeof block) ? end - static_cast<off_t>(sizeof block) : 0;
    const ssize_t count = pread(descriptor, block, static_cast<std::size_t>(end - start), start);
    if (count < 0) return fail(errno_error("cannot read the event log", errno));
    const std::string_view text(block, static_cast<std::size_t>(count));
    const std::size_t newline = text.rfind('\n');
    if (newline != std::string_view::npos) return start + static_cast<off_t>(newline) + 1;
    end = start;
  }
  return off_t{0};
}

/// Removes the part of a line that a killed writer left. Other processes of the run may be writing:
/// what still grows is no torn line.
Result<void> cut_torn_line(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (descriptor < 0) return fail(errno_error("cannot open \"" + path + "\"", errno));
  struct stat before {};
  struct stat after {};
  fstat(descriptor, &before);
  auto end = end_of_whole_lines(descriptor, before.st_size);
  if (end && *end < before.st_size) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    fstat(descriptor, &after);
    if (after.st_size == before.st_size && ftruncate(descriptor, *end) != 0) {
      end = fail(errno_error("cannot cut the torn line of \"" + path + "\"", errno));
    }
  }
  ::close(descriptor);
  QD_RETURN_IF_ERROR(end);
  return {};
}

}  // namespace

Result<EventLog> EventLog::open(const std::string& path) {
  QD_ASSIGN_OR_RETURN(AppendFile file, AppendFile::open(path));
  QD_RETURN_IF_ERROR(cut_torn_line(path));
  return EventLog(std::move(file));
}

EventLog EventLog::nowhere() { return EventLog(std::nullopt); }

void EventLog::record(std::string_view kind, int rank, Json fields) {
  if (!file_) return;
  Json row = Json::object();
  row.set("time", utc_now_text()).set("kind", kind).set("rank", rank);
  for (const auto& [key, value] : fields.members()) row.set(key, value);
  // One write(2) to a file opened for appending: lines of several threads do not mix.
  (void)file_->append_line(write_json(row));
}

}  // namespace quadrille
