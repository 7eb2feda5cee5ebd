package org.jbodlab.testing;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Map;
import org.junit.jupiter.api.Test;

@JbodCluster(brokers = 3, disks = 2)
class JbodlabTest {
    @Test
    void aDiskBreaksAndHeals(Jbodlab cluster) {
        assertEquals(3, cluster.bootstrap().split(",").length);
        var topic = cluster.newTopic(2, 3);
        var directory = cluster.leaderLogDir(topic, 0);
        try (var fault = directory.fails("permission")) {
            fault.waitDetected();
            cluster.waitLeaders(topic);
            assertEquals("offline", directory.state());
        }
        cluster.waitIsr(topic);
        assertEquals("online", directory.state());
    }

    @Test
    void aKilledBrokerIsStartedByHeal(Jbodlab cluster) {
        cluster.broker(2).kill();
        cluster.heal();
        cluster.waitSettled();
        assertEquals(cluster.controllers().get(0).id(), cluster.activeController().id());
    }

    @Test
    void aWrongRequestIsRefusedWithTheReason(Jbodlab cluster) {
        var refused = assertThrows(JbodlabException.class,
            () -> cluster.logDir(9, 1).fails("eio", Map.of("for", "20s")));
        assertEquals(404, refused.status());
        assertTrue(refused.getMessage().contains("unknown broker-9"), refused.getMessage());
    }

    @Test
    void clientsOfAnOpenClusterNeedItsAddresses(Jbodlab cluster) {
        assertEquals(cluster.bootstrap(), cluster.clientConfig("alice").get("bootstrap.servers"));
    }
}
