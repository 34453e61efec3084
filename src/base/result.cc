// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/base/result.h"

#include <cerrno>
#include <system_error>

namespace quadrille {

std::string_view to_text(Code code) {
  switch (code) {
    case Code::kInvalid:
      return "invalid";
    case Code::kNotFound:
      return "not found";
    case Code::kExhausted:
      return "exhausted";
    case Code::kUnavailable:
      return "unavailable";
    case Code::kTimeout:
      return "timeout";
    case Code::kCorrupt:
      return "corrupt";
    case Code::kAborted:
      return "aborted";
    case Code::kInternal:
      return "internal";
  }
  return "?";
}

std::string Diagnostic::to_text() const {
  std::string text = file;
  if (line > 0) text += ":" + std::to_string(line);
  if (!text.empty()) text += ": ";
  if (!path.empty()) text += path + ": ";
  text += wrong;
  if (!right.empty()) text += "; expected " + right;
  return text;
}

std::string Error::to_text() const {
  std::string text = message;
  for (const Diagnostic& diagnostic : diagnostics) text += "\n" + diagnostic.to_text();
  return text;
}

Error with_context(Error error, std::string_view doing) {
  error.message = std::string(doing) + ": " + error.message;
  return error;
}

Error errno_error(std::string_view doing, int error_number) {
  Error error;
  switch (error_number) {
    case ENOSPC:
    case EDQUOT:
    case ENOMEM:
      error.code = Code::kExhausted;
      break;
    case ENOENT:
      error.code = Code::kNotFound;
      break;
    default:
      error.code = Code::kInternal;
      break;
  }
  // std::error_code's message is strerror without its shared buffer.
  error.message =
      std::string(doing) + ": " + std::error_code(error_number, std::generic_category()).message();
  return error;
}

}  // namespace quadrille
