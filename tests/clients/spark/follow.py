"""Copies a topic into JSON files with Spark's Kafka source, each record once.

Called with bootstrap servers, topic, folder of the files, folder of the checkpoint and a comma list
of the source's jars. It prints that it runs, and ends at the end of its standard input.
"""

from __future__ import annotations

import json
import sys

from pyspark.sql import SparkSession


def main() -> None:
    bootstrap, topic, files, checkpoint, jars = sys.argv[1:]
    spark = (
        SparkSession.builder.master("local[2]")
        .appName("follow")
        .config("spark.jars", jars)
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    records = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("failOnDataLoss", "true")
        .option("groupIdPrefix", "follow")
        .load()
        .selectExpr("partition", "offset", "CAST(value AS STRING) AS value")
    )
    query = (
        records.writeStream.format("json")
        .option("path", files)
        .option("checkpointLocation", checkpoint)
        .trigger(processingTime="1 second")
        .start()
    )
    print(json.dumps({"event": "runs"}), flush=True)
    sys.stdin.read()
    # Nothing is swallowed: what has ended the query ends the program.
    query.stop()
    if (failure := query.exception()) is not None:
        raise failure
    spark.stop()


if __name__ == "__main__":
    main()
