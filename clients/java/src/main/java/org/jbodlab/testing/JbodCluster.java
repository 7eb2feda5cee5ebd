package org.jbodlab.testing;

import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;
import org.junit.jupiter.api.extension.ExtendWith;

/**
 * Gives a test class a cluster: a parameter of type {@link Jbodlab} gets it. It starts before the
 * first test of the class, is healed after each, and ends after the last.
 */
@Target(ElementType.TYPE)
@Retention(RetentionPolicy.RUNTIME)
@ExtendWith(JbodClusterExtension.class)
public @interface JbodCluster {
    /** Number of brokers. */
    int brokers() default 3;

    /** Number of log directories of each broker. */
    int disks() default 2;

    /** Number of controllers. */
    int controllers() default 1;

    /** Engine of the nodes, such as {@code kafka:4.3.1}; empty for jbodlab's own servers. */
    String engine() default "";

    /** One of {@code ssl}, {@code mtls}, {@code sasl_ssl}; empty for an open cluster. */
    String security() default "";

    /** Kafka's settings of all nodes, as {@code key=value}. */
    String[] config() default {};
}
