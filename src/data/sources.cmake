# SentencePiece or its twin that says there is none.
if(SentencePiece_FOUND)
  list(FILTER QUADRILLE_ROOM_SOURCES EXCLUDE REGEX "/no_sentencepiece\\.cc$")
else()
  list(FILTER QUADRILLE_ROOM_SOURCES EXCLUDE REGEX "/sentencepiece_tokenizer\\.cc$")
endif()
