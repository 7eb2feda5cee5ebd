import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;

/** Adds the property file that `SECURED_PROPERTIES` names to a client's settings. */
final class Secured {
    private Secured() {}

    static Map<String, Object> with(Map<String, Object> config) throws IOException {
        Map<String, Object> found = new HashMap<>(config);
        String path = System.getenv("SECURED_PROPERTIES");
        if (path != null) {
            Properties properties = new Properties();
            properties.load(Files.newBufferedReader(Path.of(path)));
            properties.forEach((key, value) -> found.put((String) key, value));
        }
        return found;
    }
}
