// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
// quadrille checkpoint ls | verify | diff

#include <fmt/format.h>

#include "launcher/commands.h"
#include "launcher/terminal.h"
#include "quadrille/base/file.h"
#include "quadrille/checkpoint/checkpoint.h"

namespace quadrille::launcher {
namespace {

/// One row per checkpoint; `path` may be a single one.
Result<std::vector<CheckpointListing>> listings_of(const std::string& path) {
  if (!path_exists(path)) return fail(Code::kNotFound, path + " does not exist");
  return list_checkpoints(path);
}

Json to_json(const CheckpointListing& listing) {
  Json row = Json::object();
  row.set("path", listing.path).set("step", listing.step).set("bytes", listing.bytes.count());
  row.set("damage", listing.damage ? Json(listing.damage->message) : Json());
  return row;
}

void print_listing(const CheckpointListing& listing) {
  print_line(fmt::format("step {:>8}  {:>10}  {}{}", listing.step, to_text(listing.bytes),
                         listing.path,
                         listing.damage ? "  DAMAGED: " + listing.damage->message : ""));
}

void print_rows(const std::vector<CheckpointListing>& rows, bool json) {
  if (json) {
    Json all = Json::array();
    for (const CheckpointListing& row : rows) all.push(to_json(row));
    print_line(write_json(all, 2));
    return;
  }
  for (const CheckpointListing& row : rows) print_listing(row);
  if (rows.empty()) print_line("no checkpoints");
}

}  // namespace

int checkpoint_list_command(const CheckpointOptions& options) {
  const auto rows = listings_of(options.path);
  if (!rows) return report_error(rows.error());
  print_rows(*rows, options.json);
  return 0;
}

int checkpoint_verify_command(const CheckpointOptions& options) {
  auto rows = listings_of(options.path);
  if (!rows) return report_error(rows.error());
  if (rows->empty()) return report_error({Code::kNotFound, "no checkpoint in " + options.path, {}});
  bool sound = true;
  for (CheckpointListing& row : *rows) {
    if (!row.damage) {
      const auto checkpoint = Checkpoint::open(row.path);
      const Result<void> verified = checkpoint ? checkpoint->verify() : fail(checkpoint.error());
      if (!verified) row.damage = verified.error();
    }
    sound = sound && !row.damage;
  }
  print_rows(*rows, options.json);
  if (!options.json) print_line(sound ? "sound: every byte matches its checksum" : "damaged");
  return sound ? 0 : 1;
}

int checkpoint_diff_command(const CheckpointOptions& options) {
  const auto a = resolve_checkpoint(options.path);
  if (!a) return report_error(a.error());
  const auto b = resolve_checkpoint(options.other);
  if (!b) return report_error(b.error());
  const auto difference = diff_checkpoints(*a, *b);
  if (!difference) return report_error(difference.error());
  if (options.json) {
    Json row = Json::object();
    row.set("a", a->path()).set("b", b->path()).set("equal", !difference->has_value());
    row.set("difference", *difference ? Json(**difference) : Json());
    print_line(write_json(row));
  } else {
    print_line(*difference ? **difference : "equal: " + a->path() + " and " + b->path());
  }
  return *difference ? 1 : 0;
}

}  // namespace quadrille::launcher
