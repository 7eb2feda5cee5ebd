package com.example.orders;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse.BodyHandlers;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import org.jbodlab.testing.JbodCluster;
import org.jbodlab.testing.Jbodlab;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.springframework.boot.builder.SpringApplicationBuilder;
import org.springframework.context.ConfigurableApplicationContext;

/** Fate of orders when a disk or a controller dies; the application is reached as its users reach it. */
@JbodCluster(brokers = 3, disks = 2, controllers = 3, config = "min.insync.replicas=2")
class OrdersTest {
    private final HttpClient http = HttpClient.newHttpClient();
    private ConfigurableApplicationContext application;
    private String topic;

    @BeforeEach
    void start(Jbodlab cluster) {
        topic = cluster.newTopic(3, 3);
        application = new SpringApplicationBuilder(OrdersApplication.class).run(
            "--server.port=0", "--orders.topic=" + topic,
            "--spring.kafka.bootstrap-servers=" + cluster.bootstrap());
    }

    @AfterEach
    void end() {
        application.close();
    }

    @Test
    void noOrderIsLostOrTakenTwiceWhenTheDiskOfTheLeaderBreaks(Jbodlab cluster) throws Exception {
        var placed = placedWhile(() -> {
            cluster.leaderLogDir(topic, 0).fails("eio").waitDetected();
            cluster.waitLeaders(topic);
        });

        assertEquals(placed, taken());
    }

    @Test
    void ordersGoOnWhenTheActiveControllerIsKilled(Jbodlab cluster) throws Exception {
        var killed = cluster.activeController();

        var placed = placedWhile(() -> {
            killed.kill();
            // Only an active controller elects the next leader of the partition.
            cluster.leaderLogDir(topic, 0).fails("eio").waitDetected();
            cluster.waitLeaders(topic);
        });

        assertEquals(placed, taken());
        assertNotEquals(killed.id(), cluster.activeController().id());
    }

    @Test
    void aBasketIsTakenAsAWholeOrNotAtAll(Jbodlab cluster) throws Exception {
        assertEquals(200, post("/baskets/a,b"));
        assertEquals(402, post("/baskets/c,unpaid"));
        cluster.leaderLogDir(topic, 0).fails("eio").waitDetected();
        assertEquals(200, post("/baskets/d,e"));

        assertEquals(List.of("a", "b", "d", "e"), taken());
        var written = application.getBean(Orders.class).all("read_uncommitted");
        assertEquals(List.of("a", "b", "c", "d", "e", "unpaid"), written);
    }

    /** Places orders one after another while an act is carried out, and returns their numbers. */
    private List<String> placedWhile(Runnable act) throws Exception {
        var acted = CompletableFuture.runAsync(act);
        var numbers = new ArrayList<String>();
        for (var after = 0; after < 20; after += acted.isDone() ? 1 : 0) {
            var number = String.format("order-%06d", numbers.size());
            assertEquals(200, post("/orders/" + number), number);
            numbers.add(number);
        }
        acted.get();
        return numbers;
    }

    private int post(String path) throws Exception {
        return http.send(to(path).POST(BodyPublishers.noBody()).build(), BodyHandlers.discarding()).statusCode();
    }

    private List<?> taken() throws Exception {
        var answer = http.send(to("/orders").build(), BodyHandlers.ofString()).body();
        return new ObjectMapper().readValue(answer, List.class);
    }

    private HttpRequest.Builder to(String path) {
        var port = application.getEnvironment().getProperty("local.server.port");
        return HttpRequest.newBuilder(URI.create("http://127.0.0.1:" + port + path));
    }
}
