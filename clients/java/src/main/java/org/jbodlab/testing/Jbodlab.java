package org.jbodlab.testing;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.UUID;
import java.util.concurrent.TimeUnit;

/** A Kafka-compatible cluster whose disks a test may break, behind the API of {@code jbodlab serve}. */
public final class Jbodlab implements AutoCloseable {
    private static final Duration DETECTED = Duration.ofSeconds(10);
    private static final Duration LED = Duration.ofSeconds(30);
    private static final Duration IN_SYNC = Duration.ofMinutes(1);
    private static final int END_S = 30;

    private final Api api;
    private final Process server;

    private Jbodlab(Api api, Process server) {
        this.api = api;
        this.server = server;
    }

    /** Settings of a cluster by their names, as {@code jbodlab serve --help} lists them. */
    public static final class Spec {
        private final List<String> words = new ArrayList<>();

        /** Sets one; {@code config} may be set several times. Empty values are defaults. */
        public Spec set(String name, Object value) {
            if (!String.valueOf(value).isEmpty()) {
                words.add("--" + name.replace('_', '-') + "=" + value);
            }
            return this;
        }
    }

    /** Starts a cluster by the program in {@code $JBODLAB}, or {@code jbodlab}. */
    public static Jbodlab start(Spec spec) {
        var program = System.getenv().getOrDefault("JBODLAB", "jbodlab");
        // It ends when nobody can write to its input any more, however this process ends.
        var command = new ArrayList<>(List.of(program, "serve", "--output", "json", "--until-input-ends"));
        command.add("--cluster=java-" + UUID.randomUUID());
        command.addAll(spec.words);
        try {
            var said = File.createTempFile("jbodlab", ".err");
            said.deleteOnExit();
            var server = new ProcessBuilder(command).redirectError(said).start();
            var output = new InputStreamReader(server.getInputStream(), StandardCharsets.UTF_8);
            var line = new BufferedReader(output).readLine();
            if (line == null) {
                throw new JbodlabException(0, program + " serve has ended: " + Files.readString(said.toPath()).strip());
            }
            var found = Api.JSON.readTree(line);
            var url = found.get("url").asText().split("#")[0];
            return new Jbodlab(new Api(url, found.get("token").asText()), server);
        } catch (IOException error) {
            throw new JbodlabException(0, "cannot start " + program + ": " + error.getMessage());
        }
    }

    /** Uses the cluster of a server that runs. */
    public static Jbodlab connect(String url, String token) {
        return new Jbodlab(new Api(url, token), null);
    }

    /** Returns the addresses of the brokers, as clients on this machine want them. */
    public String bootstrap() {
        return call("GET", "/cluster").get("bootstrap").asText();
    }

    /** Returns the addresses of the brokers, as clients elsewhere want them. */
    public String advertised() {
        return call("GET", "/cluster").get("advertised").asText();
    }

    /** Returns what a client of Java needs to reach the cluster as a user. */
    public Properties clientConfig(String user) {
        var found = new Properties();
        call("GET", "/client-config?client=java&user=" + encoded(user)).get("config").fields()
            .forEachRemaining(one -> found.put(one.getKey(), one.getValue().asText()));
        return found;
    }

    /** Creates a topic, waits until every partition has a leader, and returns its name. */
    public String newTopic(int partitions, int replicas) {
        return newTopic("test-" + UUID.randomUUID(), partitions, replicas, Map.of());
    }

    /** The same with a name and settings. */
    public String newTopic(String name, int partitions, int replicas, Map<String, String> config) {
        api.call("POST", "/topics",
            Map.of("name", name, "partitions", partitions, "replicas", replicas, "config", config));
        return name;
    }

    /** Returns a broker; the first is 1. */
    public Broker broker(int id) {
        return new Broker(id);
    }

    /** Returns the broker that leads a partition. */
    public Broker leader(String topic, int partition) {
        return broker(partition(topic, partition).get("leader").asInt());
    }

    /** Returns the controllers by rising id. */
    public List<Controller> controllers() {
        var found = new ArrayList<Controller>();
        call("GET", "/controllers").forEach(one -> found.add(new Controller(one.get("id").asInt())));
        return found;
    }

    /** Waits until a controller is active, and returns it. */
    public Controller activeController() {
        await("active", true, LED);
        for (var one : call("GET", "/controllers")) {
            if (one.get("role").asText().equals("active")) {
                return new Controller(one.get("id").asInt());
            }
        }
        throw new JbodlabException(0, "no controller is active");
    }

    /** Returns a log directory of a broker; the first is number 1. */
    public LogDir logDir(int broker, int number) {
        return new LogDir("broker-" + broker + "/" + number);
    }

    /** Returns the log directory from which a partition is led. */
    public LogDir leaderLogDir(String topic, int partition) {
        return logDirOf(topic, partition, true);
    }

    /** Returns the log directory of the first follower of a partition. */
    public LogDir followerLogDir(String topic, int partition) {
        return logDirOf(topic, partition, false);
    }

    /** Takes something from users of a closed cluster: {@code user-removed}, {@code acl-removed}. */
    public Fault fails(String kind, Map<String, ?> keys) {
        return inject(kind, "cluster", keys);
    }

    /** Undoes every fault, starts what has ended, and waits until all is well. */
    public void heal() {
        call("POST", "/heal");
    }

    /** Waits until every partition of a topic has a leader. */
    public void waitLeaders(String topic) {
        await("leaders", topic, LED);
    }

    /** Waits until every replica of a topic is in sync. */
    public void waitIsr(String topic) {
        await("isr", topic, IN_SYNC);
    }

    /** Waits until brokers serve, directories are online and replicas are in sync. */
    public void waitSettled() {
        await("settled", true, IN_SYNC);
    }

    @Override
    public void close() {
        if (server == null) {
            return;
        }
        server.destroy();
        try {
            if (!server.waitFor(END_S, TimeUnit.SECONDS)) {
                server.destroyForcibly();
            }
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
    }

    /** A log directory of a broker. */
    public final class LogDir {
        private final String place;

        private LogDir(String place) {
            this.place = place;
        }

        /** Returns its name, such as {@code broker-1/2}. */
        public String place() {
            return place;
        }

        /** Returns {@code online}, {@code offline} or {@code unknown}. */
        public String state() {
            return call("GET", "/directories/" + place.replace("broker-", "")).get("state").asText();
        }

        /** Breaks it by a kind of fault. */
        public Fault fails(String kind) {
            return fails(kind, Map.of());
        }

        /** The same with keys of the kind: {@code for}, {@code calls}, {@code delay} and others. */
        public Fault fails(String kind, Map<String, ?> keys) {
            return inject(kind, place, keys);
        }
    }

    /** A broker or a controller. */
    public abstract class Node {
        private final String path;
        private final int id;

        private Node(String kind, int id) {
            this.path = "/" + kind + "/" + id;
            this.id = id;
        }

        /** Returns its {@code node.id}. */
        public int id() {
            return id;
        }

        /** Kills it with SIGKILL. */
        public void kill() {
            call("POST", path + "/kill");
        }

        /** Stops it in order. */
        public void stop() {
            call("POST", path + "/stop");
        }

        /** Starts it where it does not run. */
        public void start() {
            call("POST", path + "/start");
        }

        /** Freezes it with SIGSTOP. */
        public void freeze() {
            call("POST", path + "/freeze");
        }

        /** Lets it go on. */
        public void thaw() {
            call("POST", path + "/thaw");
        }
    }

    /** A broker. */
    public final class Broker extends Node {
        private Broker(int id) {
            super("brokers", id);
        }

        /** Breaks its process, connections or certificate. */
        public Fault fails(String kind, Map<String, ?> keys) {
            return inject(kind, "broker-" + id(), keys);
        }
    }

    /** A controller. */
    public final class Controller extends Node {
        private Controller(int id) {
            super("controllers", id);
        }
    }

    /** A fault that has a proved effect; heals at the end of a {@code try} block. */
    public final class Fault implements AutoCloseable {
        private final JsonNode told;

        private Fault(JsonNode told) {
            this.told = told;
        }

        /** Returns its number. */
        public int id() {
            return told.get("id").asInt();
        }

        /** Returns its place. */
        public String where() {
            return told.get("where").asText();
        }

        /** Returns how many calls, files, processes or requests it broke so far. */
        public int broken() {
            return call("GET", "/faults/" + id()).get("broken").get("count").asInt();
        }

        /** Waits until clients are told that the directory is offline, or the broker is gone. */
        public void waitDetected() {
            await("detected", id(), DETECTED);
        }

        /** Waits until it has broken something. */
        public void waitBroken() {
            await("broken", id(), DETECTED);
        }

        /** Undoes it and brings back what it took; harmless when it is healed already. */
        public void heal() {
            call("DELETE", "/faults/" + id());
        }

        @Override
        public void close() {
            heal();
        }
    }

    private LogDir logDirOf(String topic, int partition, boolean leads) {
        for (var one : partition(topic, partition).get("replicas")) {
            if (one.get("leads").asBoolean() == leads && !one.get("directory").asText().isEmpty()) {
                return new LogDir(one.get("directory").asText());
            }
        }
        throw new JbodlabException(0, topic + "-" + partition + " has no such replica now");
    }

    private JsonNode partition(String topic, int partition) {
        return call("GET", "/topics/" + topic + "/" + partition);
    }

    private Fault inject(String kind, String place, Map<String, ?> keys) {
        Map<String, Object> wanted = new LinkedHashMap<>(keys);
        wanted.putAll(Map.of("kind", kind, "where", place, "even_last_in_sync", true));
        return new Fault(api.call("POST", "/faults", wanted));
    }

    private void await(String what, Object value, Duration timeout) {
        call("GET", "/wait?" + what + "=" + encoded(String.valueOf(value)) + "&timeout=" + timeout.toSeconds() + "s");
    }

    private JsonNode call(String method, String path) {
        return api.call(method, path, null);
    }

    private static String encoded(String text) {
        return URLEncoder.encode(text, StandardCharsets.UTF_8);
    }
}
