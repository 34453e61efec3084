// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Quantities with a unit in their type. Counts of bytes are 64-bit and their arithmetic is checked:
// a size that overflows is an error of the caller (QD_CHECK), so code that takes sizes from users
// validates them with `checked_multiply` first.

#include <compare>
#include <cstdint>
#include <optional>
#include <string>

#include "quadrille/base/check.h"

namespace quadrille {

/// a*b, or nothing where it leaves int64.
[[nodiscard]] constexpr std::optional<std::int64_t> checked_multiply(std::int64_t a,
                                                                     std::int64_t b) {
  std::int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}
[[nodiscard]] constexpr std::optional<std::int64_t> checked_add(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) return std::nullopt;
  return sum;
}

/// A number of bytes, never negative by convention of its makers.
class Bytes {
 public:
  constexpr Bytes() = default;
  constexpr explicit Bytes(std::int64_t count) : count_(count) {}
  [[nodiscard]] constexpr std::int64_t count() const { return count_; }

  friend constexpr auto operator<=>(Bytes, Bytes) = default;
  friend constexpr Bytes operator+(Bytes a, Bytes b) {
    const auto sum = checked_add(a.count_, b.count_);
    QD_CHECK(sum.has_value());
    return Bytes(*sum);
  }
  friend constexpr Bytes operator-(Bytes a, Bytes b) { return Bytes(a.count_ - b.count_); }
  friend constexpr Bytes operator*(Bytes a, std::int64_t times) {
    const auto product = checked_multiply(a.count_, times);
    QD_CHECK(product.has_value());
    return Bytes(*product);
  }
  constexpr Bytes& operator+=(Bytes other) { return *this = *this + other; }
  constexpr Bytes& operator-=(Bytes other) { return *this = *this - other; }

 private:
  std::int64_t count_ = 0;
};

constexpr Bytes operator""_KiB(unsigned long long n) {
  return Bytes(static_cast<std::int64_t>(n) << 10);
}
constexpr Bytes operator""_MiB(unsigned long long n) {
  return Bytes(static_cast<std::int64_t>(n) << 20);
}
constexpr Bytes operator""_GiB(unsigned long long n) {
  return Bytes(static_cast<std::int64_t>(n) << 30);
}

/// "17 B", "1.5 KiB", "3.2 GiB".
[[nodiscard]] std::string to_text(Bytes bytes);

/// A duration as arithmetic; monotonic_now() reads the clock.
class Seconds {
 public:
  constexpr Seconds() = default;
  constexpr explicit Seconds(double count) : count_(count) {}
  [[nodiscard]] constexpr double count() const { return count_; }

  friend constexpr auto operator<=>(Seconds, Seconds) = default;
  friend constexpr Seconds operator+(Seconds a, Seconds b) { return Seconds(a.count_ + b.count_); }
  friend constexpr Seconds operator-(Seconds a, Seconds b) { return Seconds(a.count_ - b.count_); }
  friend constexpr Seconds operator*(Seconds a, double times) { return Seconds(a.count_ * times); }
  friend constexpr double operator/(Seconds a, Seconds b) { return a.count_ / b.count_; }
  constexpr Seconds& operator+=(Seconds other) { return *this = *this + other; }

 private:
  double count_ = 0;
};

/// "12.3 ms", "4.1 s", "1 h 02 min".
[[nodiscard]] std::string to_text(Seconds seconds);

/// Monotonic time since an arbitrary start, for differences.
[[nodiscard]] Seconds monotonic_now();

/// `2026-12-01T12:13:14.123Z`.
[[nodiscard]] std::string utc_now_text();

/// Floating-point operations; a double because 16,384 devices reach 10^21 a step.
class Flops {
 public:
  constexpr Flops() = default;
  constexpr explicit Flops(double count) : count_(count) {}
  [[nodiscard]] constexpr double count() const { return count_; }

  friend constexpr auto operator<=>(Flops, Flops) = default;
  friend constexpr Flops operator+(Flops a, Flops b) { return Flops(a.count_ + b.count_); }
  friend constexpr Flops operator*(Flops a, double times) { return Flops(a.count_ * times); }
  constexpr Flops& operator+=(Flops other) { return *this = *this + other; }

 private:
  double count_ = 0;
};

}  // namespace quadrille
