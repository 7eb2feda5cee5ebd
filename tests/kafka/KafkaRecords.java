import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import org.apache.kafka.common.metadata.MetadataJsonConverters;
import org.apache.kafka.common.metadata.MetadataRecordType;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.metadata.MetadataRecordSerde;
import org.apache.kafka.server.common.ApiMessageAndVersion;

/** Reads records as hex, one a line; prints type, version, JSON, and the bytes written again. */
public class KafkaRecords {
    public static void main(String[] arguments) throws Exception {
        var in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        var out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        var serde = new MetadataRecordSerde();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            byte[] bytes = HexFormat.of().parseHex(line);
            try {
                ApiMessageAndVersion read =
                    serde.read(new ByteBufferAccessor(ByteBuffer.wrap(bytes)), bytes.length);
                var cache = new ObjectSerializationCache();
                var target = ByteBuffer.allocate(serde.recordSize(read, cache));
                serde.write(read, cache, new ByteBufferAccessor(target));
                out.println(String.join("\t",
                    MetadataRecordType.fromId(read.message().apiKey()).toString(),
                    String.valueOf(read.version()),
                    MetadataJsonConverters.writeJson(read.message(), read.version()).toString(),
                    HexFormat.of().formatHex(target.array())));
            } catch (Throwable error) {
                out.println("error\t" + error.toString().replace('\n', ' '));
            }
        }
        out.flush();
    }
}
