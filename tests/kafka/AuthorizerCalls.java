import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.InetAddress;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.internals.PluginMetricsImpl;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.metadata.authorizer.StandardAcl;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.authorizer.AuthorizationResult;

/**
 * Asks the authorizer of Apache Kafka, by lines of words with tabs between:
 * SET super-users allows-without-acls, ACL type name pattern principal host operation permission,
 * ONE principal host operation type name, ANY principal host operation type.
 * Prints a 1 for each ONE and ANY that is allowed, a 0 for each that is not.
 */
public class AuthorizerCalls {
    record Context(KafkaPrincipal principal, InetAddress clientAddress)
            implements AuthorizableRequestContext {
        public String listenerName() {
            return "CLIENTS";
        }

        public SecurityProtocol securityProtocol() {
            return SecurityProtocol.SASL_PLAINTEXT;
        }

        public int requestType() {
            return 0;
        }

        public int requestVersion() {
            return 0;
        }

        public String clientId() {
            return "client";
        }

        public int correlationId() {
            return 0;
        }
    }

    private static StandardAuthorizer authorizer;
    private static Map<Uuid, StandardAcl> acls;
    private static boolean isLoaded;

    public static void main(String[] arguments) throws Exception {
        var lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        var answers = new StringBuilder();
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split("\t", -1);
            switch (words[0]) {
                case "SET" -> begin(words[1], words[2]);
                case "ACL" -> acls.put(new Uuid(7, acls.size() + 1), acl(words));
                default -> answers.append(isAllowed(words) ? '1' : '0');
            }
        }
        System.out.println(answers);
    }

    private static void begin(String superUsers, String allows) {
        authorizer = new StandardAuthorizer();
        // It counts its decisions, and cannot do without.
        authorizer.withPluginMetrics(new PluginMetricsImpl(new Metrics(), Map.of()));
        authorizer.configure(
                Map.of("super.users", superUsers, "allow.everyone.if.no.acl.found", allows));
        acls = new HashMap<>();
        isLoaded = false;
    }

    private static StandardAcl acl(String[] words) {
        return new StandardAcl(
                ResourceType.fromCode(Byte.parseByte(words[1])),
                words[2],
                PatternType.fromCode(Byte.parseByte(words[3])),
                words[4],
                words[5],
                AclOperation.fromCode(Byte.parseByte(words[6])),
                AclPermissionType.fromCode(Byte.parseByte(words[7])));
    }

    private static boolean isAllowed(String[] words) throws Exception {
        if (!isLoaded) {
            authorizer.loadSnapshot(acls);
            authorizer.completeInitialLoad();
            isLoaded = true;
        }
        String[] principal = words[1].split(":", 2);
        var context =
                new Context(
                        new KafkaPrincipal(principal[0], principal[1]),
                        InetAddress.getByName(words[2]));
        var operation = AclOperation.fromCode(Byte.parseByte(words[3]));
        var type = ResourceType.fromCode(Byte.parseByte(words[4]));
        if (words[0].equals("ANY")) {
            return authorizer.authorizeByResourceType(context, operation, type)
                    == AuthorizationResult.ALLOWED;
        }
        var pattern = new ResourcePattern(type, words[5], PatternType.LITERAL);
        var action = new Action(operation, pattern, 1, false, false);
        return authorizer.authorize(context, List.of(action)).get(0) == AuthorizationResult.ALLOWED;
    }
}
