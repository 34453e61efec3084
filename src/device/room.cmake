# hwloc reads the topology, OpenMP is the pool that a rank is given, Highway names the instruction set
# that our kernels dispatch to.
target_link_libraries(${target} PRIVATE hwloc::hwloc OpenMP::OpenMP_CXX hwy::hwy fmt::fmt)
