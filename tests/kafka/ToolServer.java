import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Deque;
import java.util.concurrent.ConcurrentLinkedDeque;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs the main methods of Kafka's command line tools one after another in this process.
 *
 * A request is a line {"main": class, "arguments": [...], "input": text}; the answer to it a line
 * {"code": exit code, "out": text, "err": text}. It ends where its input ends.
 */
public class ToolServer {
    /** Thrown out of a main method that wants to exit. */
    private static class Ended extends Error {
        Ended() {
            super(null, null, false, false);
        }
    }

    /** Where a stream of the process goes now: classes keep the stream that they found first. */
    private static class Captured extends OutputStream {
        private final ByteArrayOutputStream bytes = new ByteArrayOutputStream();

        @Override
        public synchronized void write(int one) {
            bytes.write(one);
        }

        @Override
        public synchronized void write(byte[] some, int start, int length) {
            bytes.write(some, start, length);
        }

        synchronized void clear() {
            bytes.reset();
        }

        synchronized String text() {
            return bytes.toString(StandardCharsets.UTF_8);
        }
    }

    /** What a call left behind; only what happened until the first exit counts. */
    private record Answer(int code, String out, String err) { }

    private static final Captured OUT = new Captured();
    private static final Captured ERR = new Captured();
    /** What the tool leaves for the end of its process: it closes clients there, and prints. */
    private static final Deque<Runnable> HOOKS = new ConcurrentLinkedDeque<>();
    private static Answer first;

    public static void main(String[] arguments) throws Exception {
        var requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        var answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        var json = new ObjectMapper();
        var own = System.err;
        Thread.currentThread().setUncaughtExceptionHandler((t, error) -> error.printStackTrace(own));
        System.setOut(new PrintStream(OUT, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(ERR, true, StandardCharsets.UTF_8));
        Exit.setExitProcedure(ToolServer::end);
        Exit.setHaltProcedure(ToolServer::end);
        Exit.setShutdownHookAdder((name, hook) -> HOOKS.add(hook));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            Answer answer = call(json.readTree(line));
            answers.println(json.writeValueAsString(json.createObjectNode()
                .put("code", answer.code()).put("out", answer.out()).put("err", answer.err())));
        }
        Runtime.getRuntime().halt(0);
    }

    private static Answer call(JsonNode request) throws Exception {
        OUT.clear();
        ERR.clear();
        HOOKS.clear();
        first = null;
        var arguments = new ArrayList<String>();
        request.get("arguments").forEach(one -> arguments.add(one.asText()));
        System.setIn(new ByteArrayInputStream(
            request.get("input").asText().getBytes(StandardCharsets.UTF_8)));
        try {
            Class.forName(request.get("main").asText()).getMethod("main", String[].class)
                .invoke(null, (Object) arguments.toArray(new String[0]));
            finish(0);
        } catch (InvocationTargetException thrown) {
            if (first == null) {
                System.err.print("Exception in thread \"main\" ");
                thrown.getCause().printStackTrace();
                finish(1);
            }
        }
        return first;
    }

    private static void end(int code, String message) {
        finish(code);
        throw new Ended();
    }

    private static void finish(int code) {
        if (first == null) {
            for (Runnable hook = HOOKS.poll(); hook != null; hook = HOOKS.poll()) {
                hook.run();
            }
            first = new Answer(code, OUT.text(), ERR.text());
        }
    }
}
