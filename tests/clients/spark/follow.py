"""Copies the committed records of a topic into JSON files, each once, and into another topic.

Called with bootstrap servers, both topics, folder of the files, folder of the checkpoints and a
comma list of the jars of Spark's Kafka source. It prints that it runs, and ends at the end of its
standard input.
"""

from __future__ import annotations

import json
import sys

from pyspark.sql import SparkSession


def main() -> None:
    bootstrap, topic, copies, files, checkpoints, jars = sys.argv[1:]
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
        .option("kafka.isolation.level", "read_committed")
        .option("groupIdPrefix", "follow")
        .load()
    )
    to_files = (
        records.selectExpr("partition", "offset", "CAST(value AS STRING) AS value")
        .writeStream.format("json")
        .option("path", files)
    )
    to_topic = (
        records.select("value")
        .writeStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", copies)
    )
    queries = [
        query.option("checkpointLocation", f"{checkpoints}/{name}")
        .trigger(processingTime="1 second")
        .start()
        for name, query in (("files", to_files), ("topic", to_topic))
    ]
    print(json.dumps({"event": "runs"}), flush=True)
    sys.stdin.read()
    # Nothing is swallowed: what has ended the query ends the program.
    for query in queries:
        query.stop()
        if (failure := query.exception()) is not None:
            raise failure
    spark.stop()


if __name__ == "__main__":
    main()
