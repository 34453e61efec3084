// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "launcher/manual.h"

#include <fmt/format.h>

#include "quadrille/base/text.h"
#include "quadrille/base/version.h"

namespace quadrille::launcher {
namespace {

/// Words in which roff sees nothing of its own: no escapes, no requests at a line's start.
std::string roff(std::string_view words) {
  std::string escaped;
  for (const char c : words) {
    if (c == '\\') {
      escaped += "\\e";
    } else if (c == '-') {
      escaped += "\\-";
    } else if ((c == '.' || c == '\'') && (escaped.empty() || escaped.back() == '\n')) {
      escaped += "\\&";
      escaped += c;
    } else {
      escaped += c;
    }
  }
  return escaped;
}

void add_options(const CommandText& command, std::string& page) {
  for (const OptionText& option : command.options) {
    page += fmt::format(
        ".TP\n\\fB{}\\fR{}\n{}{}\n", roff(option.names),
        option.value.empty() ? "" : " \\fI" + roff(option.value) + "\\fR", roff(option.what),
        option.otherwise.empty() ? "" : " (default: " + roff(option.otherwise) + ")");
  }
}

void add_command(const CommandText& command, const std::string& path, std::string& page) {
  page += fmt::format(".SS {}\n{}.\n", roff(path), roff(command.what));
  add_options(command, page);
  for (const CommandText& child : command.commands) {
    add_command(child, path + " " + child.name, page);
  }
  page += fmt::format(".PP\n.nf\n{}\n.fi\n", roff(command.footer));
}

/// Everything that may follow `command`: its commands and its options, one word each.
std::string words_after(const CommandText& command) {
  std::vector<std::string> words;
  for (const CommandText& child : command.commands) words.push_back(child.name);
  for (const OptionText& option : command.options) {
    for (const std::string& name : split(option.names, ',')) {
      if (name.starts_with("-")) words.push_back(name);
    }
  }
  return join(words, " ");
}

}  // namespace

std::string manual_page(const CommandText& program) {
  std::string page =
      fmt::format(".TH QUADRILLE 1 \"\" \"Quadrille {}\"\n", build_version().version);
  page += ".SH NAME\nquadrille \\- train transformers over many ranks\n";
  page += ".SH SYNOPSIS\n\\fBquadrille\\fR \\fICOMMAND\\fR [\\fIOPTIONS\\fR]\n";
  page += ".SH DESCRIPTION\n" + roff(program.what) + "\n";
  page += ".SH COMMANDS\n";
  for (const CommandText& command : program.commands) add_command(command, command.name, page);
  page += ".SH OPTIONS\n";
  add_options(program, page);
  page += ".SH NOTES\n.nf\n" + roff(program.footer) + "\n.fi\n";
  return page;
}

std::string bash_completion(const CommandText& program) {
  std::string cases;
  for (const CommandText& command : program.commands) {
    cases += fmt::format("    {}) words='{}' ;;\n", command.name, words_after(command));
  }
  return fmt::format(R"(_quadrille() {{
  local words current=${{COMP_WORDS[COMP_CWORD]}}
  case ${{COMP_WORDS[1]}} in
{0}    *) words='{1}' ;;
  esac
  [[ $COMP_CWORD == 1 ]] && words='{1}'
  COMPREPLY=($(compgen -W "$words" -- "$current"))
  [[ $COMP_CWORD == 1 || $current == -* ]] || COMPREPLY+=($(compgen -f -- "$current"))
}}
complete -o filenames -F _quadrille quadrille
)",
                     cases, words_after(program));
}

}  // namespace quadrille::launcher
