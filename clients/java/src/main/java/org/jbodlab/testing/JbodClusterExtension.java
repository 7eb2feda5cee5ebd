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
        var owner = owner(context);
        var kept = owner.getStore(KEPT);
        return kept.getOrComputeIfAbsent(KEPT, key -> new Kept(started(owner)), Kept.class).cluster();
    }

    @Override
    public void afterEach(ExtensionContext context) {
        var kept = owner(context).getStore(KEPT).get(KEPT, Kept.class);
        if (kept != null) {
            kept.cluster().heal();
        }
    }

    /** Returns the context of the class that has the annotation; nested classes use its cluster. */
    private static ExtensionContext owner(ExtensionContext context) {
        var found = context;
        while (wanted(found) == null && found.getParent().filter(one -> one.getTestClass().isPresent()).isPresent()) {
            found = found.getParent().get();
        }
        return found;
    }

    private static JbodCluster wanted(ExtensionContext context) {
        return context.getElement().map(one -> one.getAnnotation(JbodCluster.class)).orElse(null);
    }

    private static Jbodlab started(ExtensionContext owner) {
        var wanted = wanted(owner);
        var spec = new Jbodlab.Spec();
        if (wanted != null) {
            spec.set("brokers", wanted.brokers()).set("disks", wanted.disks());
            spec.set("engine", wanted.engine()).set("security", wanted.security());
            spec.set("controllers", wanted.controllers());
            for (var one : wanted.config()) {
                spec.set("config", one);
            }
        }
        return Jbodlab.start(spec);
    }
}
