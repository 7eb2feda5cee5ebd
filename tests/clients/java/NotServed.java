import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Asks for what may not be served, as an application does that knows nothing of that. */
public final class NotServed {
    public static void main(String[] arguments) {
        Map<String, Object> config = new HashMap<>(Map.of("bootstrap.servers", arguments[0]));
        if (arguments[2].equals("transactions")) {
            config.put("transactional.id", "not-served");
            StringSerializer text = new StringSerializer();
            try (KafkaProducer<String, String> producer = new KafkaProducer<>(config, text, text)) {
                producer.initTransactions();
            }
        } else {
            config.put("group.id", "not-served");
            StringDeserializer text = new StringDeserializer();
            try (var consumer = new KafkaShareConsumer<>(config, text, text)) {
                consumer.subscribe(List.of(arguments[1]));
                while (consumer.poll(Duration.ofMillis(200)).isEmpty()) {
                    continue;
                }
            }
        }
    }
}
