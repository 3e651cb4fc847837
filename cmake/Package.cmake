# What is installed, and what the archives to take along hold.
#
# Components: program (program, device modules, their libraries, configs, licences), mpi (its module; needs the host's
# MPI, so it is installed but never taken along), tests (test programs for the machine that is taken to; archive only).

set(SG_MODULE_DIR lib/stepgauge)
set(SG_LICENCE_DIR share/doc/stepgauge/licences)

# Left to the host: the C library, and the C++ runtime, which a host's other libraries (CUDA's) must share.
set(SG_HOST_LIBRARIES "^ld-linux" "^lib(c|m|dl|rt|pthread|util|resolv|stdc\\+\\+|gcc_s)\\.so")

# DT_RPATH rather than DT_RUNPATH: it also holds for the libraries' own libraries, and comes before LD_LIBRARY_PATH,
# where rented machines keep other builds of the same names.
function(sg_take_libraries_from target path)
  set_target_properties(${target} PROPERTIES INSTALL_RPATH "${path}")
  target_link_options(${target} PRIVATE LINKER:--disable-new-dtags)
endfunction()

# The text of a Debian package's licence, under the library's name, and the package's version for those who want its source.
function(sg_install_licence name package component)
  set(text /usr/share/doc/${package}/copyright)
  if(NOT EXISTS ${text})
    message(STATUS "No licence text of ${name} (${text}): it will be missing in packages")
    return()
  endif()
  file(REAL_PATH ${text} text)
  install(FILES ${text} DESTINATION ${SG_LICENCE_DIR} RENAME ${name}.txt COMPONENT ${component})
endfunction()

# ---- program -----------------------------------------------------------------------------------------------------

install(TARGETS stepgauge RUNTIME_DEPENDENCY_SET program_libraries RUNTIME DESTINATION bin COMPONENT program)
foreach(name cpu cuda)
  if(TARGET sg_module_${name})
    sg_take_libraries_from(sg_module_${name} "$ORIGIN")
    install(TARGETS sg_module_${name} RUNTIME_DEPENDENCY_SET program_libraries
            LIBRARY DESTINATION ${SG_MODULE_DIR} COMPONENT program)
  endif()
endforeach()
install(RUNTIME_DEPENDENCY_SET program_libraries PRE_EXCLUDE_REGEXES ${SG_HOST_LIBRARIES}
        LIBRARY DESTINATION ${SG_MODULE_DIR} COMPONENT program)
install(DIRECTORY configs/ DESTINATION share/stepgauge/configs COMPONENT program)
install(FILES bench/torch_probe.py DESTINATION share/stepgauge COMPONENT program)
install(DIRECTORY bench/peers DESTINATION share/stepgauge COMPONENT program FILES_MATCHING PATTERN "*.py")

install(FILES LICENSE README.md DESTINATION share/doc/stepgauge COMPONENT program)

foreach(library hdf5=libhdf5-dev aec=libaec-dev zlib=zlib1g-dev gsl=libgsl-dev jansson=libjansson-dev
        yaml=libyaml-dev csv=libcsv-dev dnnl=libdnnl2 gomp=libgomp1 opencl=ocl-icd-libopencl1)
  string(REPLACE "=" ";" pair ${library})
  sg_install_licence(${pair} program)
endforeach()
foreach(text GPL-3 LGPL-2.1 LGPL-3 Apache-2.0)
  if(EXISTS /usr/share/common-licenses/${text})
    install(FILES /usr/share/common-licenses/${text} DESTINATION ${SG_LICENCE_DIR} COMPONENT program)
  endif()
endforeach()

if(TARGET sg_module_mpi)
  install(TARGETS sg_module_mpi LIBRARY DESTINATION ${SG_MODULE_DIR} COMPONENT mpi)
endif()

# ---- tests -------------------------------------------------------------------------------------------------------

# Called in the folder of the tests: every test program with one of the labels travels, with cmocka. Their folder lies
# where the program's does, so that they find modules and configs in the same way.
function(sg_package_tests)
  set(programs)
  get_property(tests DIRECTORY PROPERTY TESTS)
  foreach(test ${tests})
    get_property(labels TEST ${test} PROPERTY LABELS)
    get_filename_component(program ${test} NAME)
    foreach(label ${ARGN})
      if(label IN_LIST labels AND TARGET ${program})
        list(APPEND programs ${program})
      endif()
    endforeach()
  endforeach()
  if(NOT programs)
    return()
  endif()
  list(REMOVE_DUPLICATES programs)
  foreach(program ${programs})
    sg_take_libraries_from(${program} "$ORIGIN/../${SG_MODULE_DIR}")
    install(TARGETS ${program} RUNTIME_DEPENDENCY_SET test_libraries
            RUNTIME DESTINATION tests COMPONENT tests EXCLUDE_FROM_ALL)
  endforeach()
  install(RUNTIME_DEPENDENCY_SET test_libraries PRE_EXCLUDE_REGEXES ${SG_HOST_LIBRARIES}
          LIBRARY DESTINATION ${SG_MODULE_DIR} COMPONENT tests EXCLUDE_FROM_ALL)
  sg_install_licence(cmocka libcmocka0 tests)
  add_custom_target(packaged_tests DEPENDS ${programs})
  set_property(GLOBAL PROPERTY SG_PACKAGED_TESTS ${programs})
endfunction()

# ---- archives ----------------------------------------------------------------------------------------------------

function(sg_package_archives)
  set(CPACK_GENERATOR TGZ)
  set(CPACK_PACKAGE_NAME stepgauge)
  set(CPACK_PACKAGE_VENDOR stepgauge)
  set(CPACK_PACKAGE_DIRECTORY ${CMAKE_BINARY_DIR}/package)
  set(CPACK_VERBATIM_VARIABLES ON)
  set(CPACK_STRIP_FILES ON)
  set(CPACK_THREADS 0)
  set(platform ${PROJECT_VERSION}-linux-${CMAKE_SYSTEM_PROCESSOR})
  set(CPACK_PACKAGE_FILE_NAME stepgauge-${platform})
  set(CPACK_ARCHIVE_COMPONENT_INSTALL ON)
  set(CPACK_COMPONENTS_GROUPING IGNORE)
  set(CPACK_COMPONENT_INCLUDE_TOPLEVEL_DIRECTORY ON)
  set(CPACK_ARCHIVE_PROGRAM_FILE_NAME stepgauge-${platform})
  set(CPACK_ARCHIVE_TESTS_FILE_NAME stepgauge-tests-${platform})
  set(CPACK_COMPONENTS_ALL program)
  get_property(tests GLOBAL PROPERTY SG_PACKAGED_TESTS)
  if(tests)
    list(APPEND CPACK_COMPONENTS_ALL tests)
  endif()
  include(CPack)
endfunction()
