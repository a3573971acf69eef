"""Problems as data: ingest, difficulty bands, variants, curriculum and the rendered prompt."""
