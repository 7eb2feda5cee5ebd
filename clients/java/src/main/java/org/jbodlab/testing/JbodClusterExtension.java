package org.jbodlab.testing;

import org.junit.jupiter.api.extension.AfterEachCallback;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.jupiter.api.extension.ParameterContext;
import org.junit.jupiter.api.extension.ParameterResolver;

/** Starts and ends the cluster of {@link JbodCluster}. */
public final class JbodClusterExtension implements ParameterResolver, AfterEachCallback {
    private static final ExtensionContext.Namespace KEPT =
        ExtensionContext.Namespace.create(JbodClusterExtension.class);

    private record Kept(Jbodlab cluster) implements ExtensionContext.Store.CloseableResource {
        @Override
        public void close() {
            cluster.close();
        }
    }

    @Override
    public boolean supportsParameter(ParameterContext parameter, ExtensionContext context) {
        return parameter.getParameter().getType() == Jbodlab.class;
    }

    @Override
    public Object resolveParameter(ParameterContext parameter, ExtensionContext context) {
        var type = context.getRequiredTestClass();
        var store = context.getRoot().getStore(KEPT);
        return store.getOrComputeIfAbsent(type, key -> new Kept(started(type)), Kept.class).cluster();
    }

    @Override
    public void afterEach(ExtensionContext context) {
        var kept = context.getRoot().getStore(KEPT).get(context.getRequiredTestClass(), Kept.class);
        if (kept != null) {
            kept.cluster().heal();
        }
    }

    private static Jbodlab started(Class<?> type) {
        var wanted = type.getAnnotation(JbodCluster.class);
        var spec = new Jbodlab.Spec();
        if (wanted != null) {
            spec.set("brokers", wanted.brokers()).set("disks", wanted.disks());
            spec.set("engine", wanted.engine()).set("security", wanted.security());
            if (wanted.controllers() > 1) {
                spec.set("controllers", wanted.controllers());
            }
            for (var one : wanted.config()) {
                spec.set("config", one);
            }
        }
        return Jbodlab.start(spec);
    }
}
