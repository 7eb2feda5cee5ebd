package org.jbodlab.testing;

import com.github.dockerjava.api.command.InspectContainerResponse;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.UUID;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.testcontainers.containers.GenericContainer;
import org.testcontainers.containers.wait.strategy.Wait;
import org.testcontainers.images.builder.Transferable;
import org.testcontainers.utility.DockerImageName;

/**
 * A whole cluster in one container.
 *
 * <p>Clients reach its brokers by the mapped ports, which are known only once the container runs:
 * its command waits for a script that is written then.
 */
public final class JbodlabContainer extends GenericContainer<JbodlabContainer> {
    private static final Duration START = Duration.ofMinutes(3);
    private static final int API = 8080;
    private static final int FIRST = 9092;
    private static final String SCRIPT = "/tmp/start.sh";

    private final String token = UUID.randomUUID().toString();
    private int brokers = 3;

    /** Takes an image such as {@code jbodlab}. */
    public JbodlabContainer(DockerImageName image) {
        super(image);
        withEnv("JBODLAB_TOKEN", token);
        withCreateContainerCmdModifier(command -> command.withEntrypoint("sh"));
        withCommand("-c", "while [ ! -f " + SCRIPT + " ]; do sleep 0.05; done; exec sh " + SCRIPT);
        waitingFor(Wait.forHttp("/v1/health").forPort(API).withStartupTimeout(START));
        withBrokers(brokers);
    }

    /** Sets the number of brokers. */
    public JbodlabContainer withBrokers(int count) {
        brokers = count;
        withExposedPorts(IntStream.rangeClosed(0, count)
            .mapToObj(one -> one == 0 ? API : FIRST + one - 1).toArray(Integer[]::new));
        return this;
    }

    @Override
    protected void containerIsStarting(InspectContainerResponse info) {
        var advertised = IntStream.range(FIRST, FIRST + brokers)
            .mapToObj(port -> getHost() + ":" + getMappedPort(port) + "=" + port)
            .collect(Collectors.joining(","));
        var words = "exec tini -- jbodlab serve --kind folder --listen 0.0.0.0:" + API + " --brokers " + brokers
            + " --advertise " + advertised + "\n";
        copyFileToContainer(Transferable.of(words.getBytes(StandardCharsets.UTF_8), 0755), SCRIPT);
    }

    /** Returns the cluster. */
    public Jbodlab cluster() {
        return Jbodlab.connect("http://" + getHost() + ":" + getMappedPort(API), token);
    }

    /** Returns the addresses of the brokers, as clients outside want them. */
    public String getBootstrapServers() {
        return cluster().advertised();
    }

    /** Returns the log directory from which a partition is led. */
    public Jbodlab.LogDir leaderLogDir(String topic, int partition) {
        return cluster().leaderLogDir(topic, partition);
    }
}
