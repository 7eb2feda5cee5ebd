import java.io.IOException;
import java.io.Reader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.processor.StateRestoreListener;

/**
 * Counts words with Kafka Streams: a repartition topic, a state store, its changelog.
 *
 * Called with a file of settings, the topic of the lines and that of the counts. A word is what
 * letters and digits make. It prints its states, and how much of a store came back from the
 * changelog, one JSON object a line; SIGTERM closes it.
 */
public final class WordCount implements StateRestoreListener {
    private static final Duration CLOSES = Duration.ofSeconds(60);
    private static volatile Throwable failure;

    public static void main(String[] arguments) throws IOException, InterruptedException {
        Properties config = new Properties();
        try (Reader file = Files.newBufferedReader(Path.of(arguments[0]))) {
            config.load(file);
        }
        config.put("default.key.serde", Serdes.StringSerde.class);
        config.put("default.value.serde", Serdes.StringSerde.class);
        config.putIfAbsent("auto.offset.reset", "earliest");
        StreamsBuilder builder = new StreamsBuilder();
        builder.<String, String>stream(arguments[1])
            .flatMapValues(line -> List.of(line.split("\\W+")))
            .filterNot((key, word) -> word.isEmpty())
            .groupBy((key, word) -> word)
            .count(Materialized.as("counts"))
            .toStream()
            .mapValues(String::valueOf)
            .to(arguments[2]);
        CountDownLatch ended = new CountDownLatch(1);
        KafkaStreams streams = new KafkaStreams(builder.build(), config);
        streams.setGlobalStateRestoreListener(new WordCount());
        streams.setUncaughtExceptionHandler(error -> {
            failure = error;
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        streams.setStateListener((now, before) -> {
            say("state", "\"state\":\"%s\"", now);
            if (now == KafkaStreams.State.ERROR || now == KafkaStreams.State.NOT_RUNNING) {
                ended.countDown();
            }
        });
        Runtime.getRuntime().addShutdownHook(new Thread(() -> streams.close(CLOSES)));
        streams.start();
        ended.await();
        if (failure != null) {
            failure.printStackTrace();
            System.err.println(failure);
            System.exit(1);
        }
    }

    @Override
    public void onRestoreStart(TopicPartition partition, String store, long from, long to) {
    }

    @Override
    public void onBatchRestored(TopicPartition partition, String store, long end, long restored) {
    }

    @Override
    public void onRestoreEnd(TopicPartition partition, String store, long restored) {
        say("restored", "\"partition\":%d,\"records\":%d", partition.partition(), restored);
    }

    private static void say(String event, String format, Object... values) {
        System.out.println("{\"event\":\"%s\",%s}".formatted(event, format.formatted(values)));
    }
}
