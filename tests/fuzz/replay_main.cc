// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
// Runs a fuzz target without a fuzzing engine: every file of its corpus, then inputs damaged from
// them. Usage: PROGRAM CORPUS COUNT INPUT_FILE. An input that stops the process is written to
// INPUT_FILE.

#include <fcntl.h>
#include <unistd.h>

#include <charconv>
#include <csignal>
#include <cstdio>
#include <string>

#include "support/mutation.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

constexpr std::uint64_t kSeed = 1;

// What the signal handler saves.
struct Current {
  const char* file = nullptr;
  const char* data = nullptr;
  std::size_t size = 0;
};
Current current;

void save_and_die(int signal) {
  const int file = open(current.file, O_WRONLY | O_CREAT | O_TRUNC, 0666);
  const bool saved = file >= 0 && write(file, current.data, current.size) >= 0;
  constexpr std::string_view kNote = "the input is saved\n";
  if (saved && write(STDERR_FILENO, kNote.data(), kNote.size()) < 0) _exit(1);
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

void run(const std::string& input) {
  current.data = input.data();
  current.size = input.size();
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 4) return 2;
  const auto corpus = quadrille::test::read_corpus(arguments[1]);
  if (!corpus || corpus->empty()) return 2;
  const std::string_view amount_text = arguments[2];
  std::uint64_t amount = 0;
  std::from_chars(amount_text.data(), amount_text.data() + amount_text.size(), amount);
  current.file = arguments[3];
  for (const int signal : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL}) {
    std::signal(signal, save_and_die);
  }
  for (const std::string& input : *corpus) run(input);
  for (std::uint64_t i = 0; i < amount; ++i) {
    run(quadrille::test::mutated(*corpus, kSeed, i));
  }
  std::printf("%zu files and %llu inputs made from them\n", corpus->size(),
              static_cast<unsigned long long>(amount));
  return 0;
}
