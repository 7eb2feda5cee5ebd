import java.io.IOException;
import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Scanner;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** A member of a consumer group: Kafka's own client, with either protocol; or a producer. */
public final class Member implements ConsumerRebalanceListener {
    private static final Duration POLL = Duration.ofMillis(200);

    private static volatile boolean leaves = false;

    private final KafkaConsumer<String, String> consumer;
    private final boolean commits;

    private Member(KafkaConsumer<String, String> consumer, boolean commits) {
        this.consumer = consumer;
        this.commits = commits;
    }

    public static void main(String[] arguments) throws Exception {
        String mode = arguments[3];
        Thread commands = new Thread(Member::listen);
        commands.setDaemon(true);
        commands.start();
        if (mode.equals("create")) {
            create(arguments[0], arguments[1]);
            return;
        }
        if (mode.equals("produce")) {
            produce(arguments[0], arguments[1], Integer.parseInt(arguments[2]));
            return;
        }
        boolean byDefault = mode.equals("default");
        Map<String, Object> config = new HashMap<>();
        config.put("bootstrap.servers", arguments[0]);
        config.put("group.id", arguments[2]);
        config.put("auto.offset.reset", "earliest");
        if (!byDefault) {
            config.put("group.protocol", mode);
            config.put("enable.auto.commit", "false");
        }
        if (mode.equals("classic")) {
            config.put("session.timeout.ms", "45000");
            config.put("heartbeat.interval.ms", "500");
        }
        StringDeserializer text = new StringDeserializer();
        try (KafkaConsumer<String, String> consumer =
                new KafkaConsumer<>(Secured.with(config), text, text)) {
            Member member = new Member(consumer, !byDefault);
            consumer.subscribe(List.of(arguments[1]), member);
            // What poll() throws ends this program, as it ends most.
            while (!leaves) {
                member.consume();
            }
        }
    }

    private static void listen() {
        Scanner commands = new Scanner(System.in);
        while (commands.hasNextLine() && !commands.nextLine().equals("leave")) {
            continue;
        }
        leaves = true;
    }

    private void consume() {
        Map<TopicPartition, OffsetAndMetadata> polled = new HashMap<>();
        for (ConsumerRecord<String, String> record : consumer.poll(POLL)) {
            say("record", "\"partition\":%d,\"offset\":%d,\"value\":\"%s\"",
                record.partition(), record.offset(), record.value());
            polled.put(
                new TopicPartition(record.topic(), record.partition()),
                new OffsetAndMetadata(record.offset() + 1));
        }
        if (polled.isEmpty() || !commits) {
            return;
        }
        try {
            consumer.commitSync(polled);
            say("committed", "\"offsets\":{%s}", polled.entrySet().stream()
                .map(each -> "\"%d\":%d".formatted(
                    each.getKey().partition(), each.getValue().offset()))
                .collect(Collectors.joining(",")));
        } catch (KafkaException error) {
            sayError(error);
        }
    }

    /** Creates the topic. */
    private static void create(String bootstrap, String topic) throws Exception {
        try (Admin admin = Admin.create(Secured.with(Map.of("bootstrap.servers", bootstrap)))) {
            admin.createTopics(List.of(new NewTopic(topic, 3, (short) 3))).all().get();
        }
    }

    /** Writes numbers as the library does unless told otherwise. */
    private static void produce(String bootstrap, String topic, int rate)
            throws InterruptedException, IOException {
        StringSerializer text = new StringSerializer();
        Map<String, Object> config = Secured.with(Map.of("bootstrap.servers", bootstrap));
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(config, text, text)) {
            long begin = System.nanoTime();
            for (long number = 0; !leaves; number++) {
                String value = String.valueOf(number);
                producer.send(new ProducerRecord<>(topic, value), (place, error) -> {
                    if (error == null) {
                        say("acknowledged", "\"value\":\"%s\"", value);
                    } else {
                        sayError(error);
                    }
                });
                long due = begin + (number + 1) * 1_000_000_000 / rate;
                Thread.sleep(Math.max(0, (due - System.nanoTime()) / 1_000_000));
            }
        }
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> added) {
        sayAssigned(List.of());
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> revoked) {
        sayAssigned(revoked);
    }

    private void sayAssigned(Collection<TopicPartition> without) {
        say("assigned", "\"partitions\":[%s]", consumer.assignment().stream()
            .filter(each -> !without.contains(each))
            .map(each -> String.valueOf(each.partition()))
            .collect(Collectors.joining(",")));
    }

    private static void sayError(Exception error) {
        say("error", "\"message\":\"%s\"", error.toString().replaceAll("[\"\\\\\\p{Cntrl}]", " "));
    }

    private static void say(String event, String format, Object... values) {
        System.out.println("{\"event\":\"%s\",%s}".formatted(event, format.formatted(values)));
    }
}
