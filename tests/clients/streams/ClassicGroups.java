import org.junit.jupiter.api.extension.ConditionEvaluationResult;
import org.junit.jupiter.api.extension.ExecutionCondition;
import org.junit.jupiter.api.extension.ExtensionContext;

/** Leaves out what tests do with groups of the protocol of KIP-1071, which brokers do not serve. */
public final class ClassicGroups implements ExecutionCondition {
    @Override
    public ConditionEvaluationResult evaluateExecutionCondition(ExtensionContext context) {
        return context.getDisplayName().matches("\\[\\d+\\].*\\bstreams\\b.*")
            ? ConditionEvaluationResult.disabled("streams groups are not served")
            : ConditionEvaluationResult.enabled("");
    }
}
