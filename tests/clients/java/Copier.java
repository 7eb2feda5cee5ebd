import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Scanner;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Copies a topic in transactions that have the consumed offsets in them: Kafka's own client. */
public final class Copier {
    private static final Duration POLL = Duration.ofMillis(100);
    private static final int PARTITIONS = 4;

    private static volatile boolean leaves = false;

    private final String source;
    private final String target;
    private final KafkaConsumer<String, String> consumer;
    private final KafkaProducer<String, String> producer;
    private long number = -1;

    private Copier(
            String source, String target,
            KafkaConsumer<String, String> consumer, KafkaProducer<String, String> producer) {
        this.source = source;
        this.target = target;
        this.consumer = consumer;
        this.producer = producer;
    }

    public static void main(String[] arguments) {
        Thread commands = new Thread(Copier::listen);
        commands.setDaemon(true);
        commands.start();
        StringDeserializer read = new StringDeserializer();
        StringSerializer written = new StringSerializer();
        Map<String, Object> consumes = Map.of(
            "bootstrap.servers", arguments[0],
            "group.id", arguments[3],
            "isolation.level", "read_committed",
            "enable.auto.commit", "false",
            "auto.offset.reset", "earliest",
            "max.poll.records", "20");
        Map<String, Object> produces = Map.of(
            "bootstrap.servers", arguments[0],
            "transactional.id", arguments[3],
            "transaction.timeout.ms", "10000");
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(consumes, read, read);
                KafkaProducer<String, String> producer =
                    new KafkaProducer<>(produces, written, written)) {
            Copier copier = new Copier(arguments[1], arguments[2], consumer, producer);
            producer.initTransactions();
            consumer.subscribe(List.of(arguments[1]));
            while (!leaves) {
                copier.copy();
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

    private void copy() {
        List<ConsumerRecord<String, String>> records = new ArrayList<>();
        consumer.poll(POLL).forEach(records::add);
        if (records.isEmpty()) {
            return;
        }
        number++;
        say("began", ",\"values\":[%s]".formatted(records.stream()
            .map(each -> "\"" + each.value() + "\"").collect(Collectors.joining(","))));
        producer.beginTransaction();
        boolean committed = false;
        try {
            Map<TopicPartition, OffsetAndMetadata> ends = new HashMap<>();
            for (ConsumerRecord<String, String> each : records) {
                int partition = Integer.parseInt(each.value()) % PARTITIONS;
                producer.send(
                    new ProducerRecord<>(target, partition, null, number + ":" + each.value()));
                ends.put(
                    new TopicPartition(source, each.partition()),
                    new OffsetAndMetadata(each.offset() + 1));
            }
            producer.sendOffsetsToTransaction(ends, consumer.groupMetadata());
            if (number % 5 != 4) {
                commit();
                committed = true;
            }
        } catch (KafkaException error) {
            sayError(error);
        }
        if (committed) {
            say("committed", "");
            return;
        }
        // After what is fatal, this throws the same again.
        producer.abortTransaction();
        say("aborted", "");
        Map<TopicPartition, Long> firsts = new HashMap<>();
        records.forEach(each -> firsts.putIfAbsent(
            new TopicPartition(source, each.partition()), each.offset()));
        firsts.forEach(consumer::seek);
    }

    private void commit() {
        while (true) {
            try {
                producer.commitTransaction();
                return;
            } catch (TimeoutException error) {
                sayError(error);
            }
        }
    }

    private void sayError(Exception error) {
        String text = error.toString().replaceAll("[\"\\\\\\p{Cntrl}]", " ");
        say("error", ",\"message\":\"%s\"".formatted(text));
    }

    private void say(String event, String more) {
        System.out.println("{\"event\":\"%s\",\"transaction\":%d%s}".formatted(event, number, more));
    }
}
