// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "plan/row_text.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>

namespace quadrille::internal {
namespace {

/// The number that ends before `end`, spaces between allowed; 0 where there is none.
double number_before(std::string_view text, std::size_t end) {
  while (end > 0 && text[end - 1] == ' ') --end;
  std::size_t begin = end;
  while (begin > 0 && std::isdigit(static_cast<unsigned char>(text[begin - 1])) != 0) --begin;
  constexpr std::size_t kDigitsMost = 7;
  if (begin == end || end - begin > kDigitsMost) return 0;
  return std::strtod(std::string(text.substr(begin, end - begin)).c_str(), nullptr);
}

/// One adapter kind of a list: count times rate.
void add_adapters(std::string_view part, NetworkText& network) {
  constexpr double kGiga = 1e9;
  constexpr double kOmniPathGigabits = 100;
  const std::size_t times = part.find("x ");
  const double count = times == std::string_view::npos ? 0 : number_before(part, times);
  const std::size_t unit = part.find("gb");
  double rate = unit == std::string_view::npos ? 0 : number_before(part, unit);
  if (rate == 0 && count > 0 && part.find("omni-path") != std::string_view::npos) {
    rate = kOmniPathGigabits;
  }
  if (part.find("per gpu") != std::string_view::npos) {
    network.device_bits = std::max(network.device_bits, rate * kGiga);
  } else if (count > 0 || part.find("node") != std::string_view::npos) {
    network.node_bits = std::max(network.node_bits, std::max(1.0, count) * rate * kGiga);
  }
}

std::string_view fabric_of(std::string_view text) {
  const auto says = [&](std::string_view word) {
    return text.find(word) != std::string_view::npos;
  };
  if (says("omni-path")) return "omnipath";
  if (says("infiniband") || says(" ib ") || says("connectx")) return "infiniband";
  if (says("roce") || says("rdma")) return "roce";
  if (says("efa")) return "efa";
  if (says("ethernet")) return "ethernet";
  return "";
}

}  // namespace

std::string lowered(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](char c) {
    return static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  });
  return lower;
}

bool has_word(std::string_view text, std::string_view word) {
  return lowered(text).find(word) != std::string::npos;
}

NetworkText network_from(std::string_view text) {
  const std::string lower = lowered(text);
  NetworkText network{.fabric = fabric_of(lower)};
  std::string_view rest = lower;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find_first_of(",;+"), rest.size());
    add_adapters(rest.substr(0, end), network);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return network;
}

}  // namespace quadrille::internal
