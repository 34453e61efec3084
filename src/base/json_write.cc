// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <charconv>
#include <cmath>

#include "base/utf8.h"
#include "quadrille/base/json.h"

namespace quadrille {
namespace {

void write_string(std::string& out, std::string_view text) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  out += '"';
  for (std::size_t i = 0; i < text.size();) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (c >= 0x80) {
      // What is not UTF-8 (a file name, say) becomes the replacement character: the text stays
      // JSON.
      const std::size_t length = internal::utf8_length(text.substr(i));
      out += length == 0 ? std::string_view("\xEF\xBF\xBD") : text.substr(i, length);
      i += length == 0 ? 1 : length;
      continue;
    }
    ++i;
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      default:
        if (c < 0x20 || c == 0x7F) {
          out += "\\u00";
          out += kDigits[c >> 4];
          out += kDigits[c & 15];
        } else {
          out += static_cast<char>(c);
        }
    }
  }
  out += '"';
}

void write_real(std::string& out, double value) {
  if (!std::isfinite(value)) {
    out += "null";
    return;
  }
  std::array<char, 32> text;
  const auto [end, error] = std::to_chars(text.data(), text.data() + text.size(), value);
  const std::string_view digits(text.data(), static_cast<std::size_t>(end - text.data()));
  out += digits;
  // A real stays a real when it is read back.
  if (digits.find_first_of(".e") == std::string_view::npos) out += ".0";
}

bool is_flat(const Json& array) {
  for (const Json& element : array.elements()) {
    if (element.is_array() || element.is_object()) return false;
  }
  return true;
}

class Writer {
 public:
  explicit Writer(int indent) : indent_(indent) {}

  void write(const Json& value) {
    switch (value.kind()) {
      case Json::Kind::kNull:
        out_ += "null";
        break;
      case Json::Kind::kBool:
        out_ += value.as_bool() ? "true" : "false";
        break;
      case Json::Kind::kInteger:
        out_ += std::to_string(value.as_integer());
        break;
      case Json::Kind::kReal:
        write_real(out_, value.as_number());
        break;
      case Json::Kind::kString:
        write_string(out_, value.as_string());
        break;
      case Json::Kind::kArray:
        write_array(value);
        break;
      case Json::Kind::kObject:
        write_object(value);
        break;
    }
  }

  [[nodiscard]] std::string take() { return std::move(out_); }

 private:
  void write_array(const Json& value) {
    const bool one_line = indent_ == 0 || is_flat(value);
    out_ += '[';
    ++depth_;
    for (std::size_t i = 0; i < value.elements().size(); ++i) {
      if (i > 0) out_ += one_line && indent_ > 0 ? ", " : ",";
      if (!one_line) new_line();
      write(value.elements()[i]);
    }
    --depth_;
    if (!one_line) new_line();
    out_ += ']';
  }

  void write_object(const Json& value) {
    out_ += '{';
    ++depth_;
    bool first = true;
    for (const auto& [key, member] : value.members()) {
      if (!first) out_ += ',';
      first = false;
      if (indent_ > 0) new_line();
      write_string(out_, key);
      out_ += indent_ > 0 ? ": " : ":";
      write(member);
    }
    --depth_;
    if (indent_ > 0 && !first) new_line();
    out_ += '}';
  }

  void new_line() {
    out_ += '\n';
    out_.append(static_cast<std::size_t>(depth_ * indent_), ' ');
  }

  int indent_;
  int depth_ = 0;
  std::string out_;
};

}  // namespace

std::string write_json(const Json& value, int indent) {
  Writer writer(indent);
  writer.write(value);
  return writer.take();
}

}  // namespace quadrille
