// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <climits>

#include "comm/mpi_link.h"
#include "quadrille/base/check.h"

namespace quadrille::internal {
namespace {

Error mpi_error(int code, std::string_view doing) {
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  return Error{Code::kUnavailable, fmt::format("{}: {}", doing, text.data()), {}};
}

}  // namespace

void Transfers::add(MPI_Request request, Rank peer, bool receiving) {
  requests_.push_back(request);
  peers_.push_back(peer);
  receiving_.push_back(receiving ? 1 : 0);
  ++left_;
}

void Transfers::send(std::span<const std::byte> bytes, Rank peer, int tag) {
  QD_CHECK(bytes.size() <= INT_MAX);
  MPI_Request request = MPI_REQUEST_NULL;
  const int code = MPI_Isend(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, peer.value,
                             tag, communicator_, &request);
  if (code == MPI_SUCCESS) return add(request, peer, false);
  if (!error_) error_ = mpi_error(code, fmt::format("cannot send to rank {}", peer.value));
}

void Transfers::receive(std::span<std::byte> bytes, Rank peer, int tag) {
  QD_CHECK(bytes.size() <= INT_MAX);
  MPI_Request request = MPI_REQUEST_NULL;
  const int code = MPI_Irecv(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, peer.value,
                             tag, communicator_, &request);
  if (code == MPI_SUCCESS) return add(request, peer, true);
  if (!error_) error_ = mpi_error(code, fmt::format("cannot receive from rank {}", peer.value));
}

Result<bool> Transfers::poll() {
  if (error_) return fail(*error_);
  if (left_ == 0) return true;
  indices_.resize(requests_.size());
  int finished = 0;
  const int code = MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &finished,
                                indices_.data(), MPI_STATUSES_IGNORE);
  if (code != MPI_SUCCESS) return fail(mpi_error(code, "a message failed"));
  if (finished != MPI_UNDEFINED) left_ -= static_cast<std::size_t>(finished);
  return left_ == 0;
}

std::vector<Rank> Transfers::pending_peers() const {
  std::vector<Rank> pending;
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    if (requests_[i] == MPI_REQUEST_NULL) continue;
    if (std::find(pending.begin(), pending.end(), peers_[i]) == pending.end()) {
      pending.push_back(peers_[i]);
    }
  }
  std::sort(pending.begin(), pending.end());
  return pending;
}

bool Transfers::cancel() {
  bool all = true;
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    if (requests_[i] == MPI_REQUEST_NULL) continue;
    if (receiving_[i] == 0) {
      // What was sent late is read by the peer, never written here.
      MPI_Request_free(&requests_[i]);
      continue;
    }
    int done = 0;
    if (MPI_Cancel(&requests_[i]) != MPI_SUCCESS ||
        MPI_Test(&requests_[i], &done, MPI_STATUS_IGNORE) != MPI_SUCCESS || done == 0) {
      all = false;
    }
  }
  left_ = 0;
  return all;
}

}  // namespace quadrille::internal
