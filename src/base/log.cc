// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/base/log.h"

#include <mutex>
#include <optional>
#include <utility>

#include "quadrille/base/file.h"
#include "quadrille/base/units.h"

namespace quadrille {

// Without a file it drops every line.
struct Logger::State {
  std::mutex mutex;
  std::optional<AppendFile> file;
  LogLevel least = LogLevel::kError;
};

Logger::Logger(std::unique_ptr<State> state) : state_(std::move(state)) {}
Logger::Logger(Logger&&) noexcept = default;
Logger& Logger::operator=(Logger&&) noexcept = default;
Logger::~Logger() = default;

Result<Logger> Logger::to_file(const std::string& path, LogLevel least) {
  QD_ASSIGN_OR_RETURN(AppendFile file, AppendFile::open(path));
  auto state = std::make_unique<State>();
  state->file = std::move(file);
  state->least = least;
  return Logger(std::move(state));
}

Logger Logger::nowhere() { return Logger(std::make_unique<State>()); }

void Logger::write(LogLevel level, std::string_view text) {
  if (!state_ || !state_->file || level < state_->least) return;
  std::string line = utc_now_text() + " " + std::string(kLogLevelText.text(level)) + " ";
  for (const char c : text) {
    line += c;
    if (c == '\n') line += "  | ";  // What continues an event cannot be taken for an event.
  }
  const std::lock_guard lock(state_->mutex);
  // A log that cannot be written must not stop the work that it describes.
  (void)state_->file->append_line(line);
}

}  // namespace quadrille
