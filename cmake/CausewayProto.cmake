# causeway_proto(NAME file.proto...): a static library with the generated messages, kept apart from
# causeway_options because generated code does not meet our warnings. Include as "folder/file.pb.h".
function(causeway_proto name)
  add_library(${name} STATIC ${ARGN})
  # Generated files use the same names, and are not for clang-tidy.
  set_target_properties(${name} PROPERTIES UNITY_BUILD OFF CXX_CLANG_TIDY "")
  target_compile_features(${name} PUBLIC cxx_std_20)
  target_include_directories(${name} SYSTEM PUBLIC ${PROJECT_BINARY_DIR}
                             PRIVATE ${CMAKE_CURRENT_BINARY_DIR})
  target_link_libraries(${name} PUBLIC protobuf::libprotobuf)
  if(CAUSEWAY_SANITIZE)
    target_compile_options(${name} PRIVATE -fsanitize=${CAUSEWAY_SANITIZE})
  endif()
  protobuf_generate(TARGET ${name} LANGUAGE cpp PROTOC_OUT_DIR ${CMAKE_CURRENT_BINARY_DIR})
endfunction()
