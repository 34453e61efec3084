// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// A rank's log file: one line an event, `<UTC time> <level> <text>`, flushed at each line so that
// the last words of a dying rank are on the disk. Safe to call from several threads. Passed to
// whoever logs; there is no global logger.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "quadrille/base/enum_text.h"
#include "quadrille/base/result.h"

namespace quadrille {

enum class LogLevel : std::uint8_t { kDebug, kInfo, kWarning, kError };
inline constexpr EnumTable<LogLevel, 4> kLogLevelText{{{{LogLevel::kDebug, "debug"},
                                                        {LogLevel::kInfo, "info"},
                                                        {LogLevel::kWarning, "warning"},
                                                        {LogLevel::kError, "error"}}}};

class Logger {
 public:
  /// Appends to the file; creates it if absent.
  [[nodiscard]] static Result<Logger> to_file(const std::string& path,
                                              LogLevel least = LogLevel::kInfo);
  /// Drops every line; for tests and tools.
  [[nodiscard]] static Logger nowhere();
  Logger(Logger&&) noexcept;
  Logger& operator=(Logger&&) noexcept;
  ~Logger();

  void write(LogLevel level, std::string_view text);
  void info(std::string_view text) { write(LogLevel::kInfo, text); }
  void warning(std::string_view text) { write(LogLevel::kWarning, text); }
  void error(std::string_view text) { write(LogLevel::kError, text); }

 private:
  struct State;
  explicit Logger(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace quadrille
