# What is installed, and what the archives to take along hold (docs/take-along.md).
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

# The text of a Debian package's licence, under the library's name.
function(sg_install_licence name package component)
  set(text /usr/share/doc/${package}/copyright)
  if(NOT EXISTS ${text})
    message(STATUS "No licence text of ${name} (${text}): it will be missing in packages")
    return()
  endif()
  file(REAL_PATH ${text} text)
  set_property(GLOBAL APPEND PROPERTY SG_PACKAGES_TAKEN ${package})
  install(FILES ${text} DESTINATION ${SG_LICENCE_DIR} RENAME ${name}.txt COMPONENT ${component} ${ARGN})
endfunction()

# What the archives are made of, and nothing else, is built by the target "packaged".
add_custom_target(packaged DEPENDS stepgauge)
set(CMAKE_SKIP_INSTALL_ALL_DEPENDENCY ON)

# ---- program -----------------------------------------------------------------------------------------------------

install(TARGETS stepgauge RUNTIME_DEPENDENCY_SET program_libraries RUNTIME DESTINATION bin COMPONENT program)
foreach(name cpu cuda image)
  if(TARGET sg_module_${name})
    add_dependencies(packaged sg_module_${name})
    sg_take_libraries_from(sg_module_${name} "$ORIGIN")
    install(TARGETS sg_module_${name} RUNTIME_DEPENDENCY_SET program_libraries
            LIBRARY DESTINATION ${SG_MODULE_DIR} COMPONENT program)
  endif()
endforeach()
# FFmpeg with all that it is built from is a hundred libraries: the video module takes the host's.
if(TARGET sg_module_video)
  add_dependencies(packaged sg_module_video)
  install(TARGETS sg_module_video LIBRARY DESTINATION ${SG_MODULE_DIR} COMPONENT program)
endif()
install(RUNTIME_DEPENDENCY_SET program_libraries PRE_EXCLUDE_REGEXES ${SG_HOST_LIBRARIES}
        LIBRARY DESTINATION ${SG_MODULE_DIR} COMPONENT program)
install(DIRECTORY configs/ DESTINATION share/stepgauge/configs COMPONENT program)
install(FILES bench/torch_probe.py DESTINATION share/stepgauge COMPONENT program)
install(DIRECTORY bench/peers DESTINATION share/stepgauge COMPONENT program FILES_MATCHING PATTERN "*.py")

install(PROGRAMS scripts/gpu.sh DESTINATION share/stepgauge COMPONENT program)
install(FILES LICENSE README.md docs/take-along.md DESTINATION share/doc/stepgauge COMPONENT program)

foreach(library hdf5=libhdf5-dev aec=libaec-dev zlib=zlib1g-dev gsl=libgsl-dev jansson=libjansson-dev
        yaml=libyaml-dev csv=libcsv-dev dnnl=libdnnl2 gomp=libgomp1 opencl=ocl-icd-libopencl1 png=libpng16-16 jpeg=libjpeg62-turbo
        z=zlib1g)
  string(REPLACE "=" ";" pair ${library})
  sg_install_licence(${pair} program)
endforeach()
foreach(text GPL-3 LGPL-2.1 LGPL-3 Apache-2.0)
  if(EXISTS /usr/share/common-licenses/${text})
    install(FILES /usr/share/common-licenses/${text} DESTINATION ${SG_LICENCE_DIR} COMPONENT program)
  endif()
endforeach()

# The CUDA runtime is linked into the cuda module; its licence comes with the toolkit, or with the wheel it was unpacked from.
# Some distributions of the toolkit leave the text out: then the archive says whose terms hold and where they stand.
if(TARGET sg_module_cuda)
  get_filename_component(toolkit ${CMAKE_CUDA_COMPILER} REALPATH)
  get_filename_component(toolkit ${toolkit}/../.. ABSOLUTE)
  file(GLOB texts ${toolkit}/EULA.txt ${toolkit}/dist-info/nvidia_cuda_runtime-*/licenses/License.txt
       /usr/share/doc/cuda-cudart-dev-*/copyright)
  if(NOT texts)
    set(texts ${CMAKE_BINARY_DIR}/cudart.txt)
    file(WRITE ${texts}
      "The module stepgauge_cuda.so contains the CUDA runtime (libcudart_static) of CUDA ${CMAKE_CUDA_COMPILER_VERSION}, a part that\n"
      "NVIDIA's \"End User License Agreement for CUDA Toolkit\" lists as redistributable (Attachment A). The toolkit this\n"
      "archive was built with came without the text; it stands at https://docs.nvidia.com/cuda/eula/ .\n")
  endif()
  list(GET texts 0 text)
  install(FILES ${text} DESTINATION ${SG_LICENCE_DIR} RENAME cudart.txt COMPONENT program)
endif()

# Parquet: what scripts/setup.sh unpacked of PyPI's wheel, when it could. Its library finds libgomp in ../carquet.libs .
set(carquet ${CMAKE_SOURCE_DIR}/build/carquet)
install(FILES ${carquet}/carquet/libcarquet.so DESTINATION ${SG_MODULE_DIR}/carquet/carquet COMPONENT program OPTIONAL)
install(DIRECTORY ${carquet}/carquet.libs DESTINATION ${SG_MODULE_DIR}/carquet COMPONENT program OPTIONAL)
install(FILES ${carquet}/carquet-0.7.2.dist-info/licenses/LICENSE DESTINATION ${SG_LICENCE_DIR} RENAME carquet.txt
        COMPONENT program OPTIONAL)

# Which versions the archive holds, for those who want their sources.
get_property(packages GLOBAL PROPERTY SG_PACKAGES_TAKEN)
if(packages)
  execute_process(COMMAND dpkg-query -W "-f=\${source:Package} \${source:Version}\\n" ${packages}
                  OUTPUT_VARIABLE sources ERROR_QUIET)
  file(WRITE ${CMAKE_BINARY_DIR}/sources.txt "Debian source packages of the libraries inside (https://snapshot.debian.org):\n${sources}")
  install(FILES ${CMAKE_BINARY_DIR}/sources.txt DESTINATION ${SG_LICENCE_DIR} COMPONENT program)
endif()

if(TARGET sg_module_mpi)
  install(TARGETS sg_module_mpi LIBRARY DESTINATION ${SG_MODULE_DIR} COMPONENT mpi)
endif()

# ---- tests -------------------------------------------------------------------------------------------------------

# Called in the folder of the tests: every test program with one of the labels travels, with cmocka and with a list of the
# programs of each label (tests/<label>.txt). Their folder lies where the program's does, so that they find modules and
# configs in the same way.
function(sg_package_tests)
  get_property(tests DIRECTORY PROPERTY TESTS)
  set(programs)
  foreach(label ${ARGN})
    set(listed)
    foreach(test ${tests})
      get_property(labels TEST ${test} PROPERTY LABELS)
      get_filename_component(program ${test} NAME)
      if(label IN_LIST labels AND TARGET ${program})
        list(APPEND listed ${program})
      endif()
    endforeach()
    list(REMOVE_DUPLICATES listed)
    list(APPEND programs ${listed})
    string(REGEX REPLACE "([^;]+);?" "\\1\n" lines "${listed}")
    file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/${label}.txt "${lines}")
    install(FILES ${CMAKE_CURRENT_BINARY_DIR}/${label}.txt DESTINATION tests COMPONENT tests EXCLUDE_FROM_ALL)
  endforeach()
  list(REMOVE_DUPLICATES programs)
  foreach(program ${programs})
    add_dependencies(packaged ${program})
    sg_take_libraries_from(${program} "$ORIGIN/../${SG_MODULE_DIR}")
    install(TARGETS ${program} RUNTIME_DEPENDENCY_SET test_libraries
            RUNTIME DESTINATION tests COMPONENT tests EXCLUDE_FROM_ALL)
  endforeach()
  install(RUNTIME_DEPENDENCY_SET test_libraries PRE_EXCLUDE_REGEXES ${SG_HOST_LIBRARIES}
          LIBRARY DESTINATION ${SG_MODULE_DIR} COMPONENT tests EXCLUDE_FROM_ALL)
  sg_install_licence(cmocka libcmocka0 tests EXCLUDE_FROM_ALL)
endfunction()

# ---- archives ----------------------------------------------------------------------------------------------------

function(sg_package_archives)
  set(CPACK_GENERATOR TGZ)
  set(CPACK_PACKAGE_NAME stepgauge)
  set(CPACK_PACKAGE_VENDOR stepgauge)
  set(CPACK_PACKAGE_DIRECTORY ${CMAKE_BINARY_DIR}/archives)
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
  if(SG_TESTS)
    list(APPEND CPACK_COMPONENTS_ALL tests)
  endif()
  include(CPack)
endfunction()
