"""The Spark data source `kraft-metadata`: metadata logs as rows, in batches and as a stream."""
