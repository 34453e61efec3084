# PCRE2 splits texts into words; SentencePiece encodes by its models, where it was found.
target_link_libraries(${target} PRIVATE fmt::fmt PCRE2::pcre2 Threads::Threads)
if(SentencePiece_FOUND)
  target_link_libraries(${target} PRIVATE SentencePiece::sentencepiece)
endif()
