package org.jbodlab.testing;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIfEnvironmentVariable;
import org.testcontainers.utility.DockerImageName;

/** Needs a container engine, and the name of the image, which no registry has. */
@EnabledIfEnvironmentVariable(named = "JBODLAB_IMAGE", matches = ".+")
class JbodlabContainerTest {
    @Test
    void aDiskBreaksInTheContainerAndHeals() {
        try (var container = new JbodlabContainer(DockerImageName.parse(System.getenv("JBODLAB_IMAGE")))) {
            container.start();
            assertEquals(3, container.getBootstrapServers().split(",").length);
            assertFalse(container.getBootstrapServers().contains(":9092"));
            var topic = container.cluster().newTopic(1, 3);
            var directory = container.leaderLogDir(topic, 0);
            try (var fault = directory.fails("eio")) {
                fault.waitDetected();
                assertEquals("offline", directory.state());
            }
            container.cluster().waitIsr(topic);
            assertEquals("online", directory.state());
        }
    }
}
