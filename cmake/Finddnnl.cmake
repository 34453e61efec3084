# DNNL::dnnl from Debian's libdnnl-dev. Its own CMake file asks for the headers of OpenCL, which neither
# we nor that package need.
find_path(dnnl_INCLUDE_DIR oneapi/dnnl/dnnl.hpp)
find_library(dnnl_LIBRARY dnnl)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(dnnl REQUIRED_VARS dnnl_LIBRARY dnnl_INCLUDE_DIR)
if(dnnl_FOUND AND NOT TARGET DNNL::dnnl)
  add_library(DNNL::dnnl UNKNOWN IMPORTED)
  set_target_properties(DNNL::dnnl PROPERTIES IMPORTED_LOCATION "${dnnl_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${dnnl_INCLUDE_DIR}")
endif()
mark_as_advanced(dnnl_INCLUDE_DIR dnnl_LIBRARY)
