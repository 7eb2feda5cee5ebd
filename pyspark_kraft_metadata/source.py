"""The class that Spark registers: it has the name of the format, and imports the rest on use."""

from __future__ import annotations

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

from analytics.source.requirements import FOR_SOURCE, NAME, check_requirements


class DefaultSource(DataSource):
    """The data source `kraft-metadata`; every method but `name` may raise ReplayInputError."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return NAME

    def schema(self) -> StructType | str:
        """Return the columns, the same for every log."""
        return self._source().schema()

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of some directories."""
        return self._source().reader(schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Return the reader that follows the logs in some directories."""
        return self._source().streamReader(schema)

    def _source(self) -> DataSource:
        check_requirements(f"the data source {NAME}", FOR_SOURCE)
        from analytics.source.data_source import KraftMetadataSource

        return KraftMetadataSource(self.options)
