import java.util.List;
import java.util.Properties;
import java.util.Scanner;
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
 * Called with bootstrap servers, input topic, output topic, application id, folder of the state and
 * any more settings as `key=value`. It prints its states, and how much of a store came back from the
 * changelog.
 */
public final class WordCount implements StateRestoreListener {
    private static volatile Throwable failure;

    public static void main(String[] arguments) throws InterruptedException {
        Properties config = new Properties();
        config.put("bootstrap.servers", arguments[0]);
        config.put("application.id", arguments[3]);
        config.put("state.dir", arguments[4]);
        config.put("default.key.serde", Serdes.StringSerde.class);
        config.put("default.value.serde", Serdes.StringSerde.class);
        config.put("auto.offset.reset", "earliest");
        config.put("replication.factor", "3");
        config.put("topic.min.insync.replicas", "2");
        config.put("commit.interval.ms", "200");
        config.put("num.stream.threads", "2");
        for (int i = 5; i < arguments.length; i++) {
            String[] setting = arguments[i].split("=", 2);
            config.put(setting[0], setting[1]);
        }
        StreamsBuilder builder = new StreamsBuilder();
        builder.<String, String>stream(arguments[1])
            .flatMapValues(line -> List.of(line.split(" ")))
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
        streams.start();
        Thread commands = new Thread(() -> {
            Scanner lines = new Scanner(System.in);
            while (lines.hasNextLine() && !lines.nextLine().equals("leave")) {
                continue;
            }
            streams.close();
        });
        commands.setDaemon(true);
        commands.start();
        ended.await();
        if (failure != null) {
            failure.printStackTrace();
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
