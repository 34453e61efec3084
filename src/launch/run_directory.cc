// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/launch/run_directory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>
#include <filesystem>

#include "launch/descriptor.h"
#include "launch/random_text.h"
#include "quadrille/base/file.h"
#include "quadrille/base/units.h"

namespace quadrille {
namespace {

using internal::Descriptor;

constexpr Seconds kRanksWait(5);

std::string launcher_lock_path(const RunPaths& paths) { return paths.directory + "/.launcher"; }
std::string rank_lock_path(const RunPaths& paths) { return paths.directory + "/.ranks"; }

Result<Descriptor> open_lock(const std::string& path) {
  Descriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (!file.is_open()) return fail(errno_error("cannot open \"" + path + "\"", errno));
  return file;
}

/// Nothing where another process holds it.
Result<bool> try_lock(const Descriptor& file, int kind) {
  if (::flock(file.get(), kind | LOCK_NB) == 0) return true;
  if (errno == EWOULDBLOCK) return false;
  return fail(errno_error("cannot lock the run directory", errno));
}

Result<Descriptor> lock_for_launcher(const RunPaths& paths) {
  const std::string path = launcher_lock_path(paths);
  QD_ASSIGN_OR_RETURN(Descriptor file, open_lock(path));
  QD_ASSIGN_OR_RETURN(const bool locked, try_lock(file, LOCK_EX));
  if (!locked) {
    const auto holder = read_text_file(path);
    return fail(Code::kInvalid,
                fmt::format("\"{}\" is in use by another launch (pid {})", paths.directory,
                            holder && !holder->empty() ? *holder : "unknown"));
  }
  const std::string pid = std::to_string(::getpid());
  if (::ftruncate(file.get(), 0) != 0 ||
      ::pwrite(file.get(), pid.data(), pid.size(), 0) != static_cast<ssize_t>(pid.size())) {
    return fail(errno_error("cannot write \"" + path + "\"", errno));
  }
  return file;
}

/// A launcher that was killed leaves ranks that need a moment to notice.
Result<void> wait_for_former_ranks(const RunPaths& paths) {
  QD_ASSIGN_OR_RETURN(const Descriptor file, open_lock(rank_lock_path(paths)));
  const Seconds deadline = monotonic_now() + kRanksWait;
  while (true) {
    QD_ASSIGN_OR_RETURN(const bool locked, try_lock(file, LOCK_EX));
    if (locked) return {};
    if (monotonic_now() >= deadline) {
      return fail(Code::kUnavailable,
                  fmt::format("ranks of an earlier launch still run in \"{}\"", paths.directory));
    }
    ::usleep(20'000);
  }
}

/// Best effort by design: a run is whole without the link.
void point_latest_at(const std::filesystem::path& directory) {
  const std::filesystem::path parent = directory.parent_path();
  if (parent.filename() != "runs") return;
  const std::filesystem::path link = parent / "latest";
  std::error_code error;
  const auto status = std::filesystem::symlink_status(link, error);
  const bool free = status.type() == std::filesystem::file_type::not_found ||
                    status.type() == std::filesystem::file_type::symlink;
  if (!free) return;
  const std::filesystem::path aside = parent / fmt::format(".latest-{}", ::getpid());
  std::filesystem::create_directory_symlink(directory.filename(), aside, error);
  if (error) return;
  std::filesystem::rename(aside, link, error);
  if (error) std::filesystem::remove(aside, error);
}

std::string without_trailing_slashes(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

}  // namespace

std::string RunPaths::rank_log(Rank rank) const {
  return fmt::format("{}/rank-{:04}.log", logs(), rank.value);
}

std::string RunPaths::rank_profile(Rank rank) const {
  return fmt::format("{}/rank-{:04}.profile.json", logs(), rank.value);
}

std::string default_run_directory(std::string_view job_name) {
  std::string name;
  for (const char letter : job_name) {
    const auto byte = static_cast<unsigned char>(letter);
    const bool plain = byte >= 0x80 || std::isalnum(byte) != 0 || letter == '_' || letter == '.';
    name += plain ? letter : '-';
  }
  if (name.empty() || name.front() == '.') name.insert(0, "run");
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  ::gmtime_r(&now, &utc);
  char time_text[32];
  const std::size_t length = std::strftime(time_text, sizeof time_text, "%Y%m%dT%H%M%SZ", &utc);
  return fmt::format("runs/{}-{}", name, std::string_view(time_text, length));
}

Result<RunDirectory> RunDirectory::open(const std::string& path) {
  if (path.empty()) return fail(Code::kInvalid, "the run directory has an empty name");
  RunDirectory made;
  made.paths_.directory = without_trailing_slashes(path);
  QD_RETURN_IF_ERROR(make_folders(made.paths_.directory));
  QD_ASSIGN_OR_RETURN(Descriptor lock, lock_for_launcher(made.paths_));
  made.lock_ = lock.release();
  QD_RETURN_IF_ERROR(wait_for_former_ranks(made.paths_));
  QD_RETURN_IF_ERROR(make_folders(made.paths_.logs()));
  QD_RETURN_IF_ERROR(make_folders(made.paths_.checkpoints()));
  made.existed_ = path_exists(made.paths_.job());
  QD_ASSIGN_OR_RETURN(made.run_id_, internal::random_hex(6));
  std::error_code error;
  point_latest_at(std::filesystem::absolute(made.paths_.directory, error));
  return made;
}

RunDirectory::RunDirectory(RunDirectory&& other) noexcept
    : paths_(std::move(other.paths_)),
      run_id_(std::move(other.run_id_)),
      existed_(other.existed_),
      lock_(std::exchange(other.lock_, -1)) {}

RunDirectory& RunDirectory::operator=(RunDirectory&& other) noexcept {
  std::swap(paths_, other.paths_);
  std::swap(run_id_, other.run_id_);
  std::swap(existed_, other.existed_);
  std::swap(lock_, other.lock_);
  return *this;
}

RunDirectory::~RunDirectory() {
  if (lock_ >= 0) ::close(lock_);
}

Result<RankLock> RankLock::take(const RunPaths& paths) {
  if (!path_exists(paths.directory)) {
    return fail(Code::kNotFound, fmt::format("no run directory \"{}\"", paths.directory));
  }
  QD_ASSIGN_OR_RETURN(Descriptor file, open_lock(rank_lock_path(paths)));
  QD_ASSIGN_OR_RETURN(const bool locked, try_lock(file, LOCK_SH));
  if (!locked) {
    return fail(Code::kUnavailable,
                fmt::format("another launch is taking over \"{}\"", paths.directory));
  }
  RankLock lock;
  lock.lock_ = file.release();
  return lock;
}

RankLock::RankLock(RankLock&& other) noexcept : lock_(std::exchange(other.lock_, -1)) {}

RankLock& RankLock::operator=(RankLock&& other) noexcept {
  std::swap(lock_, other.lock_);
  return *this;
}

RankLock::~RankLock() {
  if (lock_ >= 0) ::close(lock_);
}

}  // namespace quadrille
