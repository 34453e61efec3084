// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0

// Encoding and decoding by one core, in bytes of text a second. QUADRILLE_TOKENIZER names a
// tokenizer (a path, as data.tokenizer does) and QUADRILLE_TEXT a file of text; without them the
// byte tokenizer runs over a made-up text, which says little. `encode_cold` begins each pass with a
// tokenizer that has seen no word, the others keep what they have learnt.

#include <benchmark/benchmark.h>

#include <cstdlib>
#include <memory>
#include <string>

#include "quadrille/base/check.h"
#include "quadrille/base/file.h"
#include "quadrille/data/tokenizer.h"

namespace quadrille {
namespace {

std::string tokenizer_name() {
  const char* name = std::getenv("QUADRILLE_TOKENIZER");
  return name == nullptr ? "bytes" : name;
}

const Tokenizer& tokenizer() {
  static const std::unique_ptr<Tokenizer> made = make_tokenizer(tokenizer_name()).value();
  return *made;
}

const std::string& text() {
  static const std::string read = [] {
    const char* path = std::getenv("QUADRILLE_TEXT");
    if (path != nullptr) return read_text_file(path).value();
    std::string made;
    for (int i = 0; i < 200'000; ++i) made += "word" + std::to_string(i % 5000) + " ";
    return made;
  }();
  return read;
}

void count(benchmark::State& state) {
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations()) *
                          static_cast<std::int64_t>(text().size()));
}

void encode(benchmark::State& state) {
  const EncodeOptions options{.threads = static_cast<int>(state.range(0))};
  for (auto _ : state) benchmark::DoNotOptimize(tokenizer().encode(text(), options).value());
  count(state);
}

void encode_cold(benchmark::State& state) {
  for (auto _ : state) {
    state.PauseTiming();
    const auto fresh = make_tokenizer(tokenizer_name()).value();
    state.ResumeTiming();
    benchmark::DoNotOptimize(fresh->encode(text()).value());
  }
  count(state);
}

void encode_stream(benchmark::State& state) {
  constexpr std::size_t kChunk = std::size_t{1} << 20;
  for (auto _ : state) {
    StreamingEncoder encoder(tokenizer());
    for (std::size_t i = 0; i < text().size(); i += kChunk) {
      benchmark::DoNotOptimize(encoder.feed(std::string_view(text()).substr(i, kChunk)).value());
    }
    benchmark::DoNotOptimize(encoder.finish().value());
  }
  count(state);
}

void decode(benchmark::State& state) {
  const auto ids = tokenizer().encode(text()).value();
  for (auto _ : state) benchmark::DoNotOptimize(tokenizer().decode(ids));
  count(state);
}

BENCHMARK(encode)->ArgName("threads")->Arg(1);
BENCHMARK(encode)->ArgName("threads")->Arg(2)->UseRealTime();
BENCHMARK(encode_cold);
BENCHMARK(encode_stream);
BENCHMARK(decode);

}  // namespace
}  // namespace quadrille
