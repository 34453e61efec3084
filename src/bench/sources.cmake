# The MPI peer or its twin that says there is none.
if(MPI_C_FOUND)
  list(FILTER QUADRILLE_ROOM_SOURCES EXCLUDE REGEX "/no_mpi\\.cc$")
else()
  list(FILTER QUADRILLE_ROOM_SOURCES EXCLUDE REGEX "/mpi_[a-z_]+\\.cc$")
endif()
