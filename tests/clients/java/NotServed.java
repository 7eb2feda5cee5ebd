import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.serialization.StringDeserializer;

/** Asks for a share group, which is not served, as an application that knows nothing of that. */
public final class NotServed {
    public static void main(String[] arguments) {
        Map<String, Object> config =
            Map.of("bootstrap.servers", arguments[0], "group.id", "not-served");
        StringDeserializer text = new StringDeserializer();
        try (var consumer = new KafkaShareConsumer<>(config, text, text)) {
            consumer.subscribe(List.of(arguments[1]));
            while (consumer.poll(Duration.ofMillis(200)).isEmpty()) {
                continue;
            }
        }
    }
}
