// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "data/added_tokens.h"

#include <algorithm>
#include <utility>

#include "quadrille/base/check.h"

namespace quadrille::internal {

AddedTokens::AddedTokens(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  std::stable_sort(tokens_.begin(), tokens_.end(),
                   [](const auto& a, const auto& b) { return a.text.size() > b.text.size(); });
  for (const AddedToken& token : tokens_) {
    QD_CHECK(!token.text.empty());
    begins_[static_cast<unsigned char>(token.text[0])] = true;
  }
}

std::optional<AddedTokens::Found> AddedTokens::find(std::string_view text, std::size_t from) const {
  if (tokens_.empty()) return std::nullopt;
  for (std::size_t i = from; i < text.size(); ++i) {
    if (!begins_[static_cast<unsigned char>(text[i])]) continue;
    for (const AddedToken& token : tokens_) {
      if (text.substr(i).starts_with(token.text)) {
        return Found{i, i + token.text.size(), token.id};
      }
    }
  }
  return std::nullopt;
}

std::size_t AddedTokens::unfinished(std::string_view text) const {
  if (tokens_.empty()) return text.size();
  const std::size_t most = std::min(text.size(), tokens_[0].text.size() - 1);
  for (std::size_t i = text.size() - most; i < text.size(); ++i) {
    const std::string_view end = text.substr(i);
    for (const AddedToken& token : tokens_) {
      if (token.text.size() <= end.size()) break;
      if (token.text.starts_with(end)) return i;
    }
  }
  return text.size();
}

Result<EncodedFront> encode_around(
    const AddedTokens& added, const TextPart& part,
    const std::function<Result<EncodedFront>(const TextPart&)>& encode) {
  EncodedFront all;
  bool first = part.first;
  while (true) {
    const std::string_view rest = part.text.substr(all.bytes);
    const std::size_t certain = part.last ? rest.size() : added.unfinished(rest);
    const auto found = added.find(rest, 0);
    const bool ends = !found || found->begin >= certain;
    QD_ASSIGN_OR_RETURN(const EncodedFront front,
                        encode({.text = rest.substr(0, ends ? certain : found->begin),
                                .first = first,
                                .last = part.last || !ends}));
    all.ids.insert(all.ids.end(), front.ids.begin(), front.ids.end());
    all.bytes += front.bytes;
    if (ends) return all;
    all.ids.push_back(found->id);
    all.bytes += found->end - found->begin;
    first = true;
  }
}

}  // namespace quadrille::internal
