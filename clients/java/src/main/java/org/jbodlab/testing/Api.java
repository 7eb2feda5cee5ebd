package org.jbodlab.testing;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;

/** Requests to the HTTP API of a server. */
final class Api {
    static final ObjectMapper JSON = new ObjectMapper();
    private static final Duration TIMEOUT = Duration.ofMinutes(3);

    private final HttpClient client = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
    private final String base;
    private final String token;

    Api(String url, String token) {
        this.base = url.replaceAll("/+$", "") + "/v1";
        this.token = token;
    }

    /** Returns the answer, null where it has no content. */
    JsonNode call(String method, String path, Object body) {
        try {
            var content = body == null ? "" : JSON.writeValueAsString(body);
            var request = HttpRequest.newBuilder(URI.create(base + path))
                .timeout(TIMEOUT)
                .header("Content-Type", "application/json")
                .method(method, HttpRequest.BodyPublishers.ofString(content));
            if (!token.isEmpty()) {
                request.header("Authorization", "Bearer " + token);
            }
            var answer = client.send(request.build(), HttpResponse.BodyHandlers.ofString());
            var text = answer.body();
            if (answer.statusCode() >= 300) {
                throw new JbodlabException(answer.statusCode(), method + " " + path + ": " + reason(text));
            }
            return text.isEmpty() ? null : JSON.readTree(text);
        } catch (IOException error) {
            throw new JbodlabException(0, method + " " + path + ": no answer: " + error);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
            throw new JbodlabException(0, method + " " + path + " was interrupted");
        }
    }

    private static String reason(String text) {
        try {
            var problem = JSON.readTree(text);
            return problem.path("title").asText() + ": " + problem.path("detail").asText();
        } catch (IOException error) {
            return text;
        }
    }
}
