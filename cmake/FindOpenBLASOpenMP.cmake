# OpenBLASOpenMP::openblas, the OpenMP flavour (Debian's libopenblas-openmp-dev) and no other: the pthread
# flavour brings a second thread pool whose spinning threads fight with OpenMP's for the cores.
find_path(OpenBLASOpenMP_INCLUDE_DIR cblas.h PATH_SUFFIXES openblas-openmp)
find_library(OpenBLASOpenMP_LIBRARY openblas PATH_SUFFIXES openblas-openmp)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(OpenBLASOpenMP
  REQUIRED_VARS OpenBLASOpenMP_LIBRARY OpenBLASOpenMP_INCLUDE_DIR)
if(OpenBLASOpenMP_FOUND AND NOT TARGET OpenBLASOpenMP::openblas)
  add_library(OpenBLASOpenMP::openblas UNKNOWN IMPORTED)
  set_target_properties(OpenBLASOpenMP::openblas PROPERTIES
    IMPORTED_LOCATION "${OpenBLASOpenMP_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${OpenBLASOpenMP_INCLUDE_DIR}")
endif()
mark_as_advanced(OpenBLASOpenMP_INCLUDE_DIR OpenBLASOpenMP_LIBRARY)
