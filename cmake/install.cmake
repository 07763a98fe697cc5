# cmake --install: the library, its headers, find_package(bertie), pkg-config, and the program. Components are what
# packages are cut by (package.cmake): program, mpi, library, development.
include(CMakePackageConfigHelpers)
install(TARGETS bertie EXPORT bertie-targets
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library NAMELINK_COMPONENT development
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
if(TARGET bertie_mpi)
  install(TARGETS bertie_mpi LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/bertie COMPONENT mpi)
endif()
install(DIRECTORY include/bertie DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development)
install(EXPORT bertie-targets NAMESPACE bertie:: FILE bertie-targets.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/bertie COMPONENT development)
if(BUILD_SHARED_LIBS)
  set(BERTIE_DEPENDENCIES "")
else() # what libbertie.a leaves to be linked
  set(BERTIE_DEPENDENCIES "include(CMakeFindDependencyMacro)
foreach(package fmt Threads ZLIB LibLZMA PkgConfig)
  find_dependency(\${package})
endforeach()
pkg_check_modules(hwy REQUIRED IMPORTED_TARGET libhwy)
pkg_check_modules(zstd REQUIRED IMPORTED_TARGET libzstd)
pkg_check_modules(prometheus REQUIRED IMPORTED_TARGET prometheus-cpp-core)
")
endif()
file(WRITE ${PROJECT_BINARY_DIR}/bertie-config.cmake
     "${BERTIE_DEPENDENCIES}include(\${CMAKE_CURRENT_LIST_DIR}/bertie-targets.cmake)\n")
write_basic_package_version_file(${PROJECT_BINARY_DIR}/bertie-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/bertie-config.cmake ${PROJECT_BINARY_DIR}/bertie-config-version.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/bertie COMPONENT development)
# How far up the prefix is from where bertie.pc lies: libdir may be lib or lib/x86_64-linux-gnu.
file(RELATIVE_PATH BERTIE_PC_TO_PREFIX /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(cmake/bertie.pc.in ${PROJECT_BINARY_DIR}/bertie.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/bertie.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT development)
