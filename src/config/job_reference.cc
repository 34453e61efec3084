// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/config/job_reference.h"

#include "config/job_values.h"

namespace quadrille {
namespace {

using internal::JobField;

// A cell of the table may hold no bar and no line break.
std::string cell(std::string_view text) {
  std::string escaped;
  for (const char c : text) escaped += c == '|' ? std::string("\\|") : std::string(1, c);
  return escaped;
}

std::string default_cell(const JobField& field) {
  if (field.default_text == internal::kRequired) return "*required*";
  if (field.default_text == internal::kRequiredThere) return "*required* where it applies";
  if (!field.default_text.empty()) return std::string(field.default_text);
  if (const auto* kind = std::get_if<internal::BytesKind>(&field.kind)) {
    internal::JobDraft fresh;
    const Bytes bytes = kind->slot(fresh);
    return bytes.count() == 0 ? "`0`" : "`\"" + to_text(bytes) + "\"`";
  }
  const auto value = internal::written_value(field, internal::JobDraft());
  std::string text = value ? "`" + write_json(*value) + "`" : "";
  for (const internal::FamilyDefault& of : field.family_defaults) {
    text +=
        "; `" + std::string(kModelFamilyText.text(of.family)) + "`: `" + write_json(of.value) + "`";
  }
  return text;
}

std::string row(const JobField& field) {
  std::string type = internal::expected_text(field);
  if (!field.unit.empty()) type += " (" + std::string(field.unit) + ")";
  std::string meaning(field.meaning);
  if (!field.scope.text.empty()) meaning += " Only with `" + std::string(field.scope.text) + "`.";
  return "| `" + std::string(field.path) + "` | " + cell(type) + " | " + cell(default_cell(field)) +
         " | " + cell(meaning) + " |\n";
}

constexpr std::string_view kIntroduction = R"(# Job reference

A job is one JSON file; `//` and `/* */` comments are allowed. Every key is listed here; any other
is an error that names the nearest one, and so is a key that stands twice. Only what is marked
*required* has to be given, and one of `training.steps` and `training.tokens`. Whole numbers may be
written like `1e9`, bytes also like `"512 MiB"`. On the command line `--set PATH=VALUE` replaces a
value, for example `--set training.steps=20`.

The target `job-reference` writes this file from the table of fields that the reader uses.
)";

}  // namespace

std::string job_reference_markdown() {
  std::string text(kIntroduction);
  std::string section = "-";
  for (const JobField& field : internal::job_fields()) {
    const std::size_t dot = field.path.find('.');
    const std::string_view group = dot == std::string_view::npos ? "" : field.path.substr(0, dot);
    if (group != section) {
      section = group;
      text += "\n## " + (section.empty() ? std::string("The job") : "`" + section + "`") + "\n\n";
      text += "| key | value | default | meaning |\n|---|---|---|---|\n";
    }
    text += row(field);
  }
  return text;
}

}  // namespace quadrille
