// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "comm/mpi_reference.h"

#include <fmt/format.h>
#include <mpi.h>

#include <cstring>
#include <vector>

#include "comm/collective_cases.h"
#include "quadrille/device/device.h"
#include "quadrille/memory/pool.h"
#include "quadrille/mesh/placement.h"

namespace quadrille::testing {
namespace {

MPI_Datatype mpi_type(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return MPI_FLOAT;
    case DType::kF64:
      return MPI_DOUBLE;
    case DType::kI32:
      return MPI_INT32_T;
    case DType::kU8:
      return MPI_UINT8_T;
    case DType::kBF16:
      return MPI_UINT16_T;
  }
  return MPI_DATATYPE_NULL;
}

/// One tensor, and the same values as MPI sees them.
class Pair {
 public:
  Pair(World& world, Stream& stream, TensorView tensor)
      : world_(world), stream_(stream), tensor_(tensor), expected_(bytes_of(tensor).size()) {}

  Result<void> compare_all() {
    if (tensor_.dtype() == DType::kF32) {
      QD_RETURN_IF_ERROR(all_reduce());
      QD_RETURN_IF_ERROR(reduce_scatter());
    }
    QD_RETURN_IF_ERROR(all_gather());
    return broadcast(Rank{world_.size() - 1});
  }

 private:
  static std::vector<std::byte> bytes_of(const TensorView& tensor) {
    return std::vector<std::byte>(static_cast<std::size_t>(tensor.bytes().count()));
  }
  void fill() {
    const std::int64_t elements = tensor_.elements();
    if (tensor_.dtype() == DType::kF32) {
      for (std::int64_t i = 0; i < elements; ++i) {
        const auto value = static_cast<float>((i * 7 + 13 * world_.rank().value) % 1009 - 500);
        std::memcpy(expected_.data() + i * 4, &value, 4);
      }
    } else {
      for (std::size_t i = 0; i < expected_.size(); ++i) {
        expected_[i] =
            static_cast<std::byte>(i * 31 + 7 * static_cast<std::size_t>(world_.rank().value + 1));
      }
    }
    stream_.upload(expected_, tensor_);
  }
  void find_extents() {
    counts_.clear();
    firsts_.clear();
    for (int r = 0; r < world_.size(); ++r) {
      const Extent extent = shard_extent(tensor_.elements(), r, world_.size());
      counts_.push_back(static_cast<int>(extent.length));
      firsts_.push_back(static_cast<int>(extent.first));
    }
  }
  /// Bytes [first, first + length) of what the collective left against what MPI did.
  Result<void> compare(std::string_view operation, Extent elements) {
    const std::int64_t width = element_bytes(tensor_.dtype());
    auto found = bytes_of(tensor_);
    stream_.download(tensor_, found);
    QD_RETURN_IF_ERROR(stream_.synchronize());
    const auto first = static_cast<std::size_t>(elements.first * width);
    const auto length = static_cast<std::size_t>(elements.length * width);
    if (length == 0 || std::memcmp(found.data() + first, expected_.data() + first, length) == 0) {
      return {};
    }
    return fail(Code::kCorrupt, fmt::format("{} of {} {} differs from MPI's", operation,
                                            tensor_.elements(), kDTypeText.text(tensor_.dtype())));
  }
  [[nodiscard]] int count() const { return static_cast<int>(tensor_.elements()); }

  Result<void> all_reduce() {
    fill();
    CollectiveScope scope = world_.whole().open("beside MPI");
    QD_RETURN_IF_ERROR(world_.whole().all_reduce(scope, stream_, tensor_));
    MPI_Allreduce(MPI_IN_PLACE, expected_.data(), count(), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    return compare("all_reduce", Extent{0, tensor_.elements()});
  }
  Result<void> reduce_scatter() {
    fill();
    find_extents();
    CollectiveScope scope = world_.whole().open("beside MPI");
    QD_RETURN_IF_ERROR(world_.whole().reduce_scatter(scope, stream_, tensor_));
    const std::vector<std::byte> all = expected_;
    const Extent mine = shard_extent(tensor_.elements(), world_.rank().value, world_.size());
    MPI_Reduce_scatter(all.data(), expected_.data() + mine.first * 4, counts_.data(), MPI_FLOAT,
                       MPI_SUM, MPI_COMM_WORLD);
    return compare("reduce_scatter", mine);
  }
  Result<void> all_gather() {
    fill();
    find_extents();
    CollectiveScope scope = world_.whole().open("beside MPI");
    QD_RETURN_IF_ERROR(world_.whole().all_gather(scope, stream_, tensor_));
    MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, expected_.data(), counts_.data(),
                   firsts_.data(), mpi_type(tensor_.dtype()), MPI_COMM_WORLD);
    return compare("all_gather", Extent{0, tensor_.elements()});
  }
  Result<void> broadcast(Rank root) {
    fill();
    CollectiveScope scope = world_.whole().open("beside MPI");
    QD_RETURN_IF_ERROR(world_.whole().broadcast(scope, stream_, tensor_, root));
    MPI_Bcast(expected_.data(), count(), mpi_type(tensor_.dtype()), root.value, MPI_COMM_WORLD);
    return compare("broadcast", Extent{0, tensor_.elements()});
  }

  World& world_;
  Stream& stream_;
  TensorView tensor_;
  std::vector<std::byte> expected_;
  std::vector<int> counts_;
  std::vector<int> firsts_;
};

}  // namespace

Result<void> check_against_mpi(World& world) {
  constexpr std::int64_t kShift = 8;  // bytes: off the cache line, another for each rank
  auto device = make_host_device();
  auto stream = device->make_stream();
  QD_ASSIGN_OR_RETURN(auto pool, Pool::create({device.get(), Bytes(0), "test"}));
  for (const std::int64_t elements : case_sizes()) {
    for (const DType dtype : {DType::kF32, DType::kF64, DType::kI32, DType::kU8, DType::kBF16}) {
      const Bytes bytes(elements * element_bytes(dtype) + kShift * world.size());
      QD_ASSIGN_OR_RETURN(const Lease lease,
                          world.whole().lease(*pool, bytes, MemoryTag::kGradient, "tensor"));
      for (const Bytes offset : {Bytes(0), Bytes(kShift * world.rank().value)}) {
        Pair pair(world, *stream, lease.view_at(offset, dtype, Shape{elements}));
        QD_RETURN_IF_ERROR(pair.compare_all());
      }
    }
  }
  return {};
}

}  // namespace quadrille::testing
