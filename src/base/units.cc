// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/base/units.h"

#include <fmt/format.h>

#include <array>
#include <chrono>
#include <cmath>
#include <ctime>

namespace quadrille {

std::string to_text(Bytes bytes) {
  constexpr std::array kUnits{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double amount = static_cast<double>(bytes.count());
  std::size_t unit = 0;
  // 1023.95 would be written as 1024.0, so the next unit starts there.
  while (std::abs(amount) >= 1023.95 && unit + 1 < kUnits.size()) {
    amount /= 1024;
    ++unit;
  }
  if (unit == 0) return fmt::format("{} B", bytes.count());
  return fmt::format("{:.1f} {}", amount, kUnits[unit]);
}

std::string to_text(Seconds seconds) {
  const double count = seconds.count();
  const double size = std::abs(count);
  if (!std::isfinite(count)) return "?";
  if (size == 0) return "0 s";
  if (size < 0.9995e-3) return fmt::format("{:.1f} us", count * 1e6);
  if (size < 0.9995) return fmt::format("{:.1f} ms", count * 1e3);
  if (size < 59.95) return fmt::format("{:.1f} s", count);
  if (size > 1e15) return fmt::format("{:.1e} s", count);
  const std::string_view sign = count < 0 ? "-" : "";
  const auto whole = static_cast<std::int64_t>(std::llround(size));
  if (whole < 3600) return fmt::format("{}{} min {:02} s", sign, whole / 60, whole % 60);
  const std::int64_t minutes = (whole + 30) / 60;
  return fmt::format("{}{} h {:02} min", sign, minutes / 60, minutes % 60);
}

Seconds monotonic_now() {
  const auto since = std::chrono::steady_clock::now().time_since_epoch();
  return Seconds(std::chrono::duration<double>(since).count());
}

std::string utc_now_text() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
  const auto whole = static_cast<std::time_t>(milliseconds / 1000);
  std::tm parts{};
  gmtime_r(&whole, &parts);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", parts.tm_year + 1900,
                     parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec,
                     milliseconds % 1000);
}

}  // namespace quadrille
