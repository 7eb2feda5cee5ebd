import java.time.Duration;
import java.util.Arrays;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.AbortTransactionSpec;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.FeatureUpdate;
import org.apache.kafka.clients.admin.FinalizedVersionRange;
import org.apache.kafka.clients.admin.ListConfigResourcesOptions;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsSpec;
import org.apache.kafka.clients.admin.ListPartitionReassignmentsOptions;
import org.apache.kafka.clients.admin.ListShareGroupOffsetsSpec;
import org.apache.kafka.clients.admin.ListStreamsGroupOffsetsSpec;
import org.apache.kafka.clients.admin.MemberToRemove;
import org.apache.kafka.clients.admin.NewPartitionReassignment;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RaftVoterEndpoint;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.RemoveMembersFromConsumerGroupOptions;
import org.apache.kafka.clients.admin.ScramCredentialInfo;
import org.apache.kafka.clients.admin.ScramMechanism;
import org.apache.kafka.clients.admin.UserScramCredentialUpsertion;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicCollection;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionReplica;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.metrics.KafkaMetric;
import org.apache.kafka.common.quota.ClientQuotaAlteration;
import org.apache.kafka.common.quota.ClientQuotaEntity;
import org.apache.kafka.common.quota.ClientQuotaFilter;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;

/**
 * Calls every method of Admin, and prints for each its name, a tab, and what came of it.
 *
 * The arguments are bootstrap servers and the name of a topic that does not exist yet.
 */
public class AdminCalls {
    private static final int PATIENCE_S = 20;

    private final Map<String, String> found = new LinkedHashMap<>();

    public static void main(String[] arguments) throws Exception {
        Map<String, Object> settings = Map.of(
            "bootstrap.servers", arguments[0],
            "default.api.timeout.ms", 15_000,
            "request.timeout.ms", 10_000);
        var calls = new AdminCalls();
        var admin = Admin.create(settings);
        calls.topics(admin, arguments[1]);
        calls.places(admin, arguments[1]);
        calls.settings(admin, arguments[1]);
        calls.groups(admin, arguments[1]);
        calls.otherGroups(admin, arguments[1]);
        calls.cluster(admin);
        calls.security(admin);
        calls.transactions(admin, arguments[1]);
        calls.metrics(admin);
        calls.call("deleteTopics", () -> done(
            admin.deleteTopics(TopicCollection.ofTopicNames(List.of(arguments[1]))).all()));
        calls.call("close", () -> {
            admin.close(Duration.ofSeconds(PATIENCE_S));
            return "done";
        });
        calls.found.forEach((name, result) -> System.out.println(name + "\t" + result));
        for (String name : new TreeSet<>(Arrays.stream(Admin.class.getMethods())
                .map(method -> method.getName()).collect(Collectors.toSet()))) {
            if (!calls.found.containsKey(name)) {
                System.out.println(name + "\tnot called");
            }
        }
    }

    private void topics(Admin admin, String topic) {
        var first = new TopicPartition(topic, 0);
        call("create", () -> "done");
        call("createTopics", () -> get(admin.createTopics(
            List.of(new NewTopic(topic, 1, (short) 3))).replicationFactor(topic)));
        call("createPartitions", () -> done(
            admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(2))).all()));
        call("listTopics", () -> get(admin.listTopics().names()).contains(topic));
        call("describeTopics", () -> {
            var byName = get(admin.describeTopics(List.of(topic)).allTopicNames()).get(topic);
            var ids = TopicCollection.ofTopicIds(List.of(byName.topicId()));
            return get(admin.describeTopics(ids).allTopicIds()).get(byName.topicId()).name()
                .equals(topic);
        });
        call("listOffsets", () ->
            get(admin.listOffsets(Map.of(first, OffsetSpec.latest())).all()).get(first).offset());
        call("deleteRecords", () -> get(admin.deleteRecords(
            Map.of(first, RecordsToDelete.beforeOffset(0))).lowWatermarks().get(first))
            .lowWatermark());
        call("describeProducers", () -> get(admin.describeProducers(List.of(first)).all())
            .get(first).activeProducers().size());
        call("electLeaders", () -> get(admin.electLeaders(
            ElectionType.PREFERRED, Set.of(first)).partitions()).get(first)
            .map(AdminCalls::said).orElse("done"));
    }

    private void places(Admin admin, String topic) throws Exception {
        var first = new TopicPartition(topic, 0);
        List<Integer> brokers = get(admin.describeCluster().nodes()).stream()
            .map(Node::id).sorted().toList();
        var replica = new TopicPartitionReplica(topic, 0, brokers.get(0));
        call("describeLogDirs", () -> get(admin.describeLogDirs(brokers).allDescriptions()).size());
        call("describeReplicaLogDirs", () -> get(admin.describeReplicaLogDirs(List.of(replica))
            .all()).get(replica).getCurrentReplicaLogDir() != null);
        call("alterReplicaLogDirs", () -> {
            String path = get(admin.describeLogDirs(brokers).allDescriptions())
                .get(brokers.get(0)).keySet().iterator().next();
            return done(admin.alterReplicaLogDirs(Map.of(replica, path)).all());
        });
        call("alterPartitionReassignments", () -> done(admin.alterPartitionReassignments(
            Map.of(first, Optional.of(new NewPartitionReassignment(brokers)))).all()));
        call("listPartitionReassignments", () -> get(admin.listPartitionReassignments(
            new ListPartitionReassignmentsOptions()).reassignments()).size() <= 1);
    }

    private void settings(Admin admin, String topic) {
        var resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        var quota = new ClientQuotaEntity(Map.of(ClientQuotaEntity.CLIENT_ID, "nobody"));
        call("incrementalAlterConfigs", () -> done(admin.incrementalAlterConfigs(
            Map.of(resource, List.of(new AlterConfigOp(
                new ConfigEntry("retention.ms", "1000000"), AlterConfigOp.OpType.SET)))).all()));
        call("describeConfigs", () -> get(admin.describeConfigs(List.of(resource)).all())
            .get(resource).get("retention.ms").value());
        call("listConfigResources", () -> get(admin.listConfigResources(
            Set.of(ConfigResource.Type.TOPIC), new ListConfigResourcesOptions()).all())
            .contains(resource));
        call("listClientMetricsResources", () -> size(clientMetrics(admin)));
        for (Double rate : new Double[] {1e6, null}) {
            call("alterClientQuotas", () -> done(admin.alterClientQuotas(
                List.of(new ClientQuotaAlteration(quota, List.of(
                    new ClientQuotaAlteration.Op("producer_byte_rate", rate))))).all()));
        }
        call("describeClientQuotas", () -> size(
            admin.describeClientQuotas(ClientQuotaFilter.all()).entities()) <= 1);
    }

    @SuppressWarnings("removal")
    private static KafkaFuture<? extends Collection<?>> clientMetrics(Admin admin) {
        return admin.listClientMetricsResources().all();
    }

    @SuppressWarnings("removal")
    private static KafkaFuture<? extends Collection<?>> consumerGroups(Admin admin) {
        return admin.listConsumerGroups().all();
    }

    private void groups(Admin admin, String topic) {
        var first = new TopicPartition(topic, 0);
        call("alterConsumerGroupOffsets", () -> done(admin.alterConsumerGroupOffsets(
            "group", Map.of(first, new OffsetAndMetadata(0), new TopicPartition(topic, 1),
                new OffsetAndMetadata(1))).all()));
        call("listConsumerGroupOffsets", () -> get(admin.listConsumerGroupOffsets(
            Map.of("group", new ListConsumerGroupOffsetsSpec())).all()).get("group").get(first)
            .offset());
        call("listGroups", () -> size(admin.listGroups().all()));
        call("listConsumerGroups", () -> size(consumerGroups(admin)));
        call("describeConsumerGroups", () -> get(admin.describeConsumerGroups(
            List.of("group")).all()).get("group").groupState());
        call("describeClassicGroups", () -> get(admin.describeClassicGroups(
            List.of("group")).all()).get("group").state());
        call("removeMembersFromConsumerGroup", () -> done(admin.removeMembersFromConsumerGroup(
            "group", new RemoveMembersFromConsumerGroupOptions(
                Set.of(new MemberToRemove("nobody")))).all()));
        call("deleteConsumerGroupOffsets", () -> done(admin.deleteConsumerGroupOffsets(
            "group", Set.of(first)).all()));
        call("deleteConsumerGroups", () -> done(
            admin.deleteConsumerGroups(List.of("group")).all()));
    }

    private void otherGroups(Admin admin, String topic) {
        var first = new TopicPartition(topic, 0);
        call("describeShareGroups", () -> size(admin.describeShareGroups(List.of("share")).all()));
        call("listShareGroupOffsets", () -> size(admin.listShareGroupOffsets(
            Map.of("share", new ListShareGroupOffsetsSpec())).all()));
        call("alterShareGroupOffsets", () -> done(
            admin.alterShareGroupOffsets("share", Map.of(first, 0L)).all()));
        call("deleteShareGroupOffsets", () -> done(
            admin.deleteShareGroupOffsets("share", Set.of(topic)).all()));
        call("deleteShareGroups", () -> done(admin.deleteShareGroups(List.of("share")).all()));
        call("describeStreamsGroups", () -> size(
            admin.describeStreamsGroups(List.of("streams")).all()));
        call("listStreamsGroupOffsets", () -> size(admin.listStreamsGroupOffsets(
            Map.of("streams", new ListStreamsGroupOffsetsSpec())).all()));
        call("alterStreamsGroupOffsets", () -> done(admin.alterStreamsGroupOffsets(
            "streams", Map.of(first, new OffsetAndMetadata(0))).all()));
        call("deleteStreamsGroupOffsets", () -> done(
            admin.deleteStreamsGroupOffsets("streams", Set.of(first)).all()));
        call("deleteStreamsGroups", () -> done(
            admin.deleteStreamsGroups(List.of("streams")).all()));
    }

    private void cluster(Admin admin) {
        var directory = new Uuid(1, 1);
        call("describeCluster", () -> get(admin.describeCluster().nodes()).size());
        call("describeFeatures", () -> new TreeSet<>(get(
            admin.describeFeatures().featureMetadata()).finalizedFeatures().keySet()));
        call("updateFeatures", () -> {
            FinalizedVersionRange now = get(admin.describeFeatures().featureMetadata())
                .finalizedFeatures().get("metadata.version");
            return done(admin.updateFeatures(Map.of("metadata.version", new FeatureUpdate(
                now.maxVersionLevel(), FeatureUpdate.UpgradeType.UPGRADE))).all());
        });
        call("describeMetadataQuorum", () ->
            get(admin.describeMetadataQuorum().quorumInfo()).voters().size());
        call("unregisterBroker", () -> done(admin.unregisterBroker(7_777).all()));
        call("addRaftVoter", () -> done(admin.addRaftVoter(7_777, directory,
            Set.of(new RaftVoterEndpoint("CONTROLLER", "localhost", 9_093))).all()));
        call("removeRaftVoter", () -> done(admin.removeRaftVoter(7_777, directory).all()));
    }

    private void security(Admin admin) {
        var acl = new AclBinding(
            new ResourcePattern(ResourceType.TOPIC, "*", PatternType.LITERAL),
            new AccessControlEntry("User:x", "*", AclOperation.READ, AclPermissionType.ALLOW));
        call("createAcls", () -> done(admin.createAcls(List.of(acl)).all()));
        call("describeAcls", () -> some(() -> admin.describeAcls(AclBindingFilter.ANY).values()));
        call("deleteAcls", () -> size(admin.deleteAcls(List.of(acl.toFilter())).all()));
        call("alterUserScramCredentials", () -> done(admin.alterUserScramCredentials(List.of(
            new UserScramCredentialUpsertion("x", new ScramCredentialInfo(
                ScramMechanism.SCRAM_SHA_256, 4_096), "secret"))).all()));
        call("describeUserScramCredentials", () -> some(
            () -> admin.describeUserScramCredentials().all()));
        call("createDelegationToken", () -> get(admin.createDelegationToken().delegationToken()));
        call("renewDelegationToken", () -> get(
            admin.renewDelegationToken(new byte[1]).expiryTimestamp()));
        call("expireDelegationToken", () -> get(
            admin.expireDelegationToken(new byte[1]).expiryTimestamp()));
        call("describeDelegationToken", () -> size(
            admin.describeDelegationToken().delegationTokens()));
    }

    private void transactions(Admin admin, String topic) {
        var first = new TopicPartition(topic, 0);
        call("fenceProducers", () -> done(admin.fenceProducers(List.of(topic)).all()));
        call("describeTransactions", () ->
            get(admin.describeTransactions(List.of(topic)).all()).get(topic).state());
        call("listTransactions", () -> get(admin.listTransactions().all()).stream()
            .anyMatch(found -> found.transactionalId().equals(topic)));
        call("abortTransaction", () -> done(
            admin.abortTransaction(new AbortTransactionSpec(first, 1, (short) 1, 1)).all()));
        call("forceTerminateTransaction", () -> done(
            admin.forceTerminateTransaction(topic).result()));
    }

    private void metrics(Admin admin) {
        call("metrics", () -> !admin.metrics().isEmpty());
        var metric = (KafkaMetric) admin.metrics().values().iterator().next();
        call("registerMetricForSubscription", () -> {
            admin.registerMetricForSubscription(metric);
            return "done";
        });
        call("unregisterMetricFromSubscription", () -> {
            admin.unregisterMetricFromSubscription(metric);
            return "done";
        });
        call("clientInstanceId", () -> admin.clientInstanceId(Duration.ofSeconds(2)));
    }

    private void call(String name, Callable<Object> call) {
        String result;
        try {
            result = String.valueOf(call.call());
        } catch (TimeoutException error) {
            result = "no answer";
        } catch (ExecutionException error) {
            result = said(error.getCause());
        } catch (Exception error) {
            result = said(error);
        }
        found.put(name, result);
    }

    private static String said(Throwable error) {
        return error.getClass().getSimpleName() + ": "
            + String.valueOf(error.getMessage()).replaceAll("\\s+", " ");
    }

    private static <T> T get(KafkaFuture<T> future) throws Exception {
        return future.get(PATIENCE_S, TimeUnit.SECONDS);
    }

    private static String done(KafkaFuture<Void> future) throws Exception {
        get(future);
        return "done";
    }

    /** Asks until a broker that has heard of the change answers. */
    private static int some(Supplier<KafkaFuture<?>> ask) throws Exception {
        int found = 0;
        for (int tries = 0; found == 0 && tries < 100; tries++) {
            Thread.sleep(tries == 0 ? 0 : 100);
            found = size(ask.get());
        }
        return found;
    }

    private static int size(KafkaFuture<?> future) throws Exception {
        Object value = get(future);
        return value instanceof Map<?, ?> map ? map.size() : ((Collection<?>) value).size();
    }
}
