// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "data/token_sidecar.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "quadrille/base/file.h"
#include "quadrille/base/hash.h"
#include "quadrille/base/json.h"
#include "quadrille/base/text.h"

namespace quadrille::internal {
namespace {

constexpr std::string_view kFormat = "quadrille token sidecar";
constexpr std::int64_t kVersion = 1;

tl::unexpected<Error> wrong(const std::string& path, std::string_view what) {
  return fail(Code::kInvalid,
              fmt::format("\"{}\" {}; expected a sidecar that `quadrille data prepare` wrote: "
                          "prepare the data again, or remove this file",
                          path, what));
}

/// Whole numbers and texts of one object; remembers the first key that is absent or odd.
class Reader {
 public:
  explicit Reader(const Json& json) : json_(json) {}

  std::int64_t number(std::string_view key, std::int64_t least, std::int64_t most) {
    const Json* value = json_.find(key);
    const bool good = value != nullptr && value->is_integer() && value->as_integer() >= least &&
                      value->as_integer() <= most;
    if (!good) note(key);
    return good ? value->as_integer() : least;
  }
  std::string text(std::string_view key) {
    const Json* value = json_.find(key);
    if (value != nullptr && value->is_string()) return value->as_string();
    note(key);
    return {};
  }
  const std::vector<Json>& list(std::string_view key) {
    static const std::vector<Json> kNone;
    const Json* value = json_.find(key);
    if (value != nullptr && value->is_array()) return value->elements();
    note(key);
    return kNone;
  }
  void note(std::string_view key) {
    if (wrong_.empty()) wrong_ = key;
  }
  [[nodiscard]] const std::string& first_wrong() const { return wrong_; }

 private:
  const Json& json_;
  std::string wrong_;
};

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kMostId = std::numeric_limits<std::int32_t>::max();

void read_tokenizer(const Json* json, TokenizerRecord& tokenizer, Reader& outer) {
  const Json none;
  Reader reader(json == nullptr ? none : *json);
  tokenizer.name = reader.text("name");
  tokenizer.hash = reader.text("hash");
  tokenizer.vocabulary = reader.number("vocabulary", 1, kMostId + 1);
  const Json* end = json == nullptr ? nullptr : json->find("end_of_text");
  if (end != nullptr && !end->is_null()) {
    tokenizer.end_of_text = static_cast<std::int32_t>(reader.number("end_of_text", 0, kMostId));
  }
  if (!reader.first_wrong().empty()) outer.note("tokenizer." + reader.first_wrong());
}

}  // namespace

std::string sidecar_path(const std::string& data_path) { return data_path + ".json"; }

std::string fingerprint_of(std::span<const std::byte> bytes) {
  constexpr std::size_t kBlock = 4096;
  constexpr std::size_t kBlocks = 256;
  Hasher hasher;
  const std::uint64_t length = bytes.size();
  hasher.add(std::as_bytes(std::span(&length, 1)));
  if (bytes.size() <= kBlock * kBlocks) {
    hasher.add(bytes);
  } else {
    const std::size_t last = bytes.size() - kBlock;
    for (std::size_t i = 0; i < kBlocks; ++i) {
      // In this order nothing overflows below 2^64 / 256 bytes.
      hasher.add(bytes.subspan(last / (kBlocks - 1) * i + last % (kBlocks - 1) * i / (kBlocks - 1),
                               kBlock));
    }
  }
  return hash_text(hasher.digest());
}

std::string write_sidecar(const TokenSidecar& sidecar) {
  Json tokenizer = Json::object();
  tokenizer.set("name", sidecar.tokenizer.name)
      .set("hash", sidecar.tokenizer.hash)
      .set("vocabulary", sidecar.tokenizer.vocabulary)
      .set("end_of_text", sidecar.tokenizer.end_of_text
                              ? Json(std::int64_t{*sidecar.tokenizer.end_of_text})
                              : Json());
  Json sources = Json::array();
  for (const std::string& source : sidecar.sources) sources.push(source);
  Json starts = Json::array();
  for (const std::int64_t start : sidecar.document_starts) starts.push(start);
  Json json = Json::object();
  json.set("format", kFormat)
      .set("version", kVersion)
      .set("bytes", sidecar.bytes)
      .set("fingerprint", sidecar.fingerprint)
      .set("hash", sidecar.hash)
      .set("tokens", sidecar.tokens)
      .set("documents", sidecar.documents)
      .set("largest_id", sidecar.largest_id)
      .set("tokenizer", std::move(tokenizer))
      .set("sources", std::move(sources))
      .set("document_starts", std::move(starts));
  return write_json(json) + "\n";
}

Result<TokenSidecar> parse_sidecar(std::string_view text, const std::string& path) {
  auto json = parse_json(text, {.file = path});
  if (!json) return fail(json.error());
  Reader reader(*json);
  if (reader.text("format") != kFormat) return wrong(path, "does not say what it is");
  const std::int64_t version = reader.number("version", 1, kMost);
  if (version > kVersion) return wrong(path, fmt::format("is of version {}", version));
  TokenSidecar sidecar;
  sidecar.bytes = reader.number("bytes", 0, kMost);
  sidecar.fingerprint = reader.text("fingerprint");
  sidecar.hash = reader.text("hash");
  sidecar.tokens = reader.number("tokens", 0, kMost);
  sidecar.documents = reader.number("documents", 0, kMost);
  sidecar.largest_id = reader.number("largest_id", -1, kMostId);
  read_tokenizer(json->find("tokenizer"), sidecar.tokenizer, reader);
  for (const Json& source : reader.list("sources")) {
    if (!source.is_string()) reader.note("sources");
    sidecar.sources.push_back(source.is_string() ? source.as_string() : std::string());
  }
  std::int64_t last = 0;
  for (const Json& start : reader.list("document_starts")) {
    const bool good =
        start.is_integer() && start.as_integer() >= last && start.as_integer() <= sidecar.tokens;
    if (!good) reader.note("document_starts");
    last = good ? start.as_integer() : last;
    sidecar.document_starts.push_back(last);
  }
  if (reader.first_wrong().empty()) return sidecar;
  return wrong(path, fmt::format("has no usable \"{}\"", reader.first_wrong()));
}

Result<std::optional<TokenSidecar>> read_sidecar(const std::string& data_path,
                                                 std::span<const std::byte> bytes) {
  const std::string path = sidecar_path(data_path);
  if (!path_exists(path)) return std::nullopt;
  QD_ASSIGN_OR_RETURN(const std::string text, read_text_file(path));
  QD_ASSIGN_OR_RETURN(TokenSidecar sidecar, parse_sidecar(text, path));
  const auto length = static_cast<std::int64_t>(bytes.size());
  if (sidecar.bytes != length) {
    return wrong(path, fmt::format("was written for {} bytes, but \"{}\" has {}",
                                   grouped(sidecar.bytes), data_path, grouped(length)));
  }
  if (sidecar.fingerprint != fingerprint_of(bytes)) {
    return wrong(path, fmt::format("was written for other tokens than \"{}\" has", data_path));
  }
  return sidecar;
}

}  // namespace quadrille::internal
