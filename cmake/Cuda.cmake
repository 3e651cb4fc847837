# The cuda module, where nvcc is. cuBLAS, cuDNN and NCCL are opened at run time; the CUDA runtime is linked in.
#
# SG_CUDA_ARCHITECTURES: the default builds what a developer needs to see that everything compiles; packages are built with
# "all", which is everything from Turing (sm_75) to Blackwell (sm_120), and PTX for what comes after.
set(SG_CUDA_ARCHITECTURES "90-real" CACHE STRING "CUDA architectures, or all")
set(SG_CUDA_ALL 75-real 80-real 86-real 89-real 90-real 100-real 120)

if(SG_CUDA STREQUAL "OFF")
  return()
endif()
include(CheckLanguage)
check_language(CUDA)
if(NOT CMAKE_CUDA_COMPILER)
  if(SG_CUDA STREQUAL "ON")
    message(FATAL_ERROR "nvcc is missing: install the CUDA toolkit 13 and put nvcc on the PATH, or set CUDACXX")
  endif()
  message(STATUS "nvcc is missing: the cuda module is not built")
  return()
endif()
if(SG_CUDA_ARCHITECTURES STREQUAL "all")
  set(CMAKE_CUDA_ARCHITECTURES ${SG_CUDA_ALL})
else()
  set(CMAKE_CUDA_ARCHITECTURES ${SG_CUDA_ARCHITECTURES})
endif()
set(CMAKE_CUDA_STANDARD 17)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
enable_language(CUDA)
if(CMAKE_CUDA_COMPILER_VERSION VERSION_LESS 13)
  message(STATUS "CUDA ${CMAKE_CUDA_COMPILER_VERSION} is older than 13: the cuda module is not built")
  return()
endif()
set(CMAKE_CUDA_FLAGS_RELEASE "-O3")

file(GLOB cuda_files CONFIGURE_DEPENDS kernels/cuda/*.c kernels/cuda/*.cu)
add_library(sg_module_cuda MODULE ${cuda_files} kernels/nvidia/libraries.c kernels/op.c kernels/op_check.c kernels/op_text.c kernels/status.c
            kernels/nvidia/libraries.c)
target_include_directories(sg_module_cuda PRIVATE ${CMAKE_SOURCE_DIR})
target_include_directories(sg_module_cuda SYSTEM PRIVATE ${CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES})
target_compile_definitions(sg_module_cuda PRIVATE _GNU_SOURCE SG_VERSION="${PROJECT_VERSION}")
target_compile_options(sg_module_cuda PRIVATE
                       $<$<COMPILE_LANGUAGE:C>:-Wall;-Wextra;-Wpedantic;$<$<BOOL:${SG_WERROR}>:-Werror>>
                       $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra$<$<BOOL:${SG_WERROR}>:,-Werror>>)
set_target_properties(sg_module_cuda PROPERTIES PREFIX "" OUTPUT_NAME stepgauge_cuda CUDA_RUNTIME_LIBRARY Static
                      LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/modules C_VISIBILITY_PRESET hidden
                      CUDA_VISIBILITY_PRESET hidden)
target_link_libraries(sg_module_cuda PRIVATE m ${CMAKE_DL_LIBS})
