import java.util.Map;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

/** Commits the record `kept` and aborts the record `dropped`, each in a transaction. */
public final class Transactional {
    public static void main(String[] arguments) throws Exception {
        Map<String, Object> config =
            Map.of("bootstrap.servers", arguments[0], "transactional.id", arguments[2]);
        StringSerializer text = new StringSerializer();
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(config, text, text)) {
            producer.initTransactions();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(arguments[1], "dropped")).get();
            producer.abortTransaction();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(arguments[1], "kept"));
            producer.commitTransaction();
        }
    }
}
