package org.apache.kafka.streams.integration.utils;

import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.server.util.MockTime;

/**
 * Stands in for the class of the same name, by which Kafka Streams' integration tests start brokers
 * in their own process: the brokers run already, and `BOOTSTRAP` names them.
 *
 * It has what the tests of `exactly_once_v2` call. Settings of brokers have no effect.
 */
public class EmbeddedKafkaCluster {
    public final MockTime time = new MockTime();

    public EmbeddedKafkaCluster(int brokers) {
        this(brokers, new Properties());
    }

    public EmbeddedKafkaCluster(int brokers, Properties settings) {
    }

    public void start() {
    }

    public void stop() {
        deleteAllTopics();
    }

    public String bootstrapServers() {
        return System.getenv("BOOTSTRAP");
    }

    public void createTopics(String... names) {
        for (String name : names) {
            createTopic(name, 1, 1);
        }
    }

    public void createTopic(String name, int partitions, int replicas) {
        NewTopic topic = new NewTopic(name, Optional.of(partitions), Optional.of((short) replicas));
        ask(admin -> {
            admin.createTopics(List.of(topic)).all().get();
            // Every broker knows it soon.
            while (!names(admin).contains(name)) {
                Thread.sleep(50);
            }
        }, TopicExistsException.class);
    }

    public void deleteTopics(String... names) {
        deleteAll(List.of(names));
    }

    public void deleteAllTopics() {
        ask(admin -> deleteAll(new ArrayList<>(names(admin))), RuntimeException.class);
    }

    /** A setting of streams groups, which is made for classic ones as well. */
    public void setGroupStandbyReplicas(String group, int replicas) {
    }

    private void deleteAll(Collection<String> names) {
        for (String name : names) {
            ask(
                admin -> admin.deleteTopics(List.of(name)).all().get(),
                UnknownTopicOrPartitionException.class
            );
        }
    }

    private static Set<String> names(Admin admin) throws ExecutionException, InterruptedException {
        return admin.listTopics().names().get();
    }

    private void ask(Question question, Class<? extends Throwable> harmless) {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrapServers()))) {
            question.ask(admin);
        } catch (ExecutionException | InterruptedException error) {
            if (!harmless.isInstance(error.getCause())) {
                throw new IllegalStateException(error);
            }
        }
    }

    private interface Question {
        void ask(Admin admin) throws ExecutionException, InterruptedException;
    }
}
