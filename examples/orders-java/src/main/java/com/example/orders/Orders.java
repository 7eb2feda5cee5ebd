package com.example.orders;

import jakarta.annotation.PreDestroy;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.TopicPartition;
import org.springframework.beans.factory.annotation.Value;
import org.springframework.kafka.core.ConsumerFactory;
import org.springframework.kafka.core.KafkaTemplate;
import org.springframework.kafka.core.ProducerFactory;
import org.springframework.stereotype.Service;

/** The orders of one topic. */
@Service
public class Orders {
    private static final Duration DEADLINE = Duration.ofSeconds(20);

    private final KafkaTemplate<String, String> single;
    private final KafkaTemplate<String, String> baskets;
    private final ConsumerFactory<String, String> readers;
    private final String topic;

    /** The basket is not paid. */
    public static class NotPaid extends RuntimeException {
    }

    public Orders(
            KafkaTemplate<String, String> single,
            ProducerFactory<String, String> producers,
            ConsumerFactory<String, String> readers,
            @Value("${orders.topic}") String topic) {
        this.single = single;
        this.baskets = new KafkaTemplate<>(
            producers, Map.of(ProducerConfig.TRANSACTIONAL_ID_CONFIG, "baskets-of-" + topic + "-"));
        this.readers = readers;
        this.topic = topic;
    }

    @PreDestroy
    void close() {
        baskets.destroy();
    }

    /** Takes an order. */
    public void take(String number) {
        single.send(topic, number, number).join();
    }

    /** Takes all orders of a basket or none, in a transaction; throws NotPaid. */
    public void takeBasket(List<String> numbers) {
        baskets.executeInTransaction(kafka -> {
            var sent = numbers.stream().map(number -> kafka.send(topic, number, number)).toList();
            sent.forEach(one -> one.join());
            if (numbers.contains("unpaid")) {
                throw new NotPaid();
            }
            return sent;
        });
    }

    /** Returns the orders that are in the topic now, sorted. */
    public List<String> all(String isolation) {
        var settings = new Properties();
        settings.put(ConsumerConfig.ISOLATION_LEVEL_CONFIG, isolation);
        try (var reader = readers.createConsumer(null, null, null, settings)) {
            var partitions = reader.partitionsFor(topic).stream()
                .map(one -> new TopicPartition(topic, one.partition())).toList();
            reader.assign(partitions);
            reader.seekToBeginning(partitions);
            var ends = reader.endOffsets(partitions);
            var found = new ArrayList<String>();
            var late = Instant.now().plus(DEADLINE);
            while (partitions.stream().anyMatch(one -> reader.position(one) < ends.get(one))) {
                if (Instant.now().isAfter(late)) {
                    throw new IllegalStateException("the topic cannot be read in time");
                }
                reader.poll(Duration.ofMillis(200)).forEach(record -> found.add(record.value()));
            }
            found.sort(null);
            return found;
        }
    }
}
