package org.jbodlab.testing;

/** A request that the server refused, or a server that cannot be started. */
public final class JbodlabException extends RuntimeException {
    private final int status;

    JbodlabException(int status, String message) {
        super(message);
        this.status = status;
    }

    /** Returns the HTTP status; 0 where no server answered. */
    public int status() {
        return status;
    }
}
