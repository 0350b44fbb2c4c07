import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.Map;
import java.util.WeakHashMap;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.AttributeSet;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.execution.datasources.v2.python.PythonTable;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import scala.collection.Iterator;
import scala.collection.immutable.List;
import scala.collection.immutable.Nil$;
import scala.runtime.AbstractFunction1;

/**
 * An optimizer's rule: a batch read of a Python source has the columns that its query uses. `query_columns.py` compiles
 * it in the driver with Janino, which knows neither lambdas nor the types of generics.
 *
 * The rows of the source must not depend on its columns, except on those in `always`.
 */
public class QueryColumns extends Rule {
    private static final String SETTING = "spark.kafkawire.queryColumns";
    private static final String FILTERS = "spark.sql.python.filterPushdown.enabled";

    private final String source;
    private final String always;
    /** The tables with fewer columns that were made of a table: Spark plans a table once. */
    private final Map narrowed = Collections.synchronizedMap(new WeakHashMap());

    private QueryColumns(String source, String always) {
        this.source = source;
        this.always = always;
    }

    /** Adds the rule to a session, unless it is there; it applies to the queries that are planned from now on. */
    public static void inject(SparkSession session, String source, String always) {
        final QueryColumns rule = new QueryColumns(source, always);
        for (Iterator rules = session.extensions().buildOptimizerRules(session).iterator(); rules.hasNext(); ) {
            if (rules.next().getClass().getName().equals(rule.getClass().getName())) {
                return;
            }
        }
        session.extensions().injectOptimizerRule(new AbstractFunction1() {
            public Object apply(Object ofSession) {
                return rule;
            }
        });
    }

    public TreeNode apply(TreeNode plan) {
        String setting = this.conf().getConfString(SETTING, "true");
        if ("false".equalsIgnoreCase(setting)) {
            return plan;
        }
        if (!"true".equalsIgnoreCase(setting)) {
            throw new IllegalArgumentException(SETTING + " is neither true nor false: " + setting);
        }
        try {
            return this.below(plan, null);
        } catch (RuntimeException error) {
            return this.unchanged(plan, error);
        } catch (LinkageError error) {
            return this.unchanged(plan, error);
        }
    }

    /** A plan with all columns gives the same rows. */
    private TreeNode unchanged(TreeNode plan, Throwable error) {
        this.log().warn("kafkawire: a query reads all columns of its source", error);
        return plan;
    }

    /**
     * A part of a plan.
     *
     * @param wanted the columns that are used of it; null: all.
     */
    private TreeNode below(TreeNode plan, AttributeSet wanted) {
        if (plan instanceof DataSourceV2Relation) {
            return wanted == null ? plan : this.of((DataSourceV2Relation) plan, wanted);
        }
        AttributeSet used = null;
        if (plan instanceof Project || plan instanceof Aggregate) {
            used = ((LogicalPlan) plan).references();
        } else if (plan instanceof Filter && wanted != null) {
            used = wanted.$plus$plus(((LogicalPlan) plan).references());
        }
        final AttributeSet ofChild = used;
        return plan.mapChildren(new AbstractFunction1() {
            public Object apply(Object child) {
                return QueryColumns.this.below((TreeNode) child, ofChild);
            }
        });
    }

    /** A relation with the columns that are used; with the smallest one where none is. */
    private TreeNode of(DataSourceV2Relation relation, AttributeSet wanted) {
        Table table = relation.table();
        if (!(table instanceof PythonTable) || !table.name().equalsIgnoreCase(this.source)) {
            return relation;
        }
        ArrayList kept = new ArrayList();
        AttributeReference smallest = null;
        for (Iterator all = relation.output().iterator(); all.hasNext(); ) {
            AttributeReference one = (AttributeReference) all.next();
            if (smallest == null || one.dataType().defaultSize() < smallest.dataType().defaultSize()) {
                smallest = one;
            }
            if (wanted.contains(one) || one.name().equalsIgnoreCase(this.always)) {
                kept.add(one);
            }
        }
        if (kept.isEmpty()) {
            kept.add(smallest);
        }
        if (kept.size() == relation.output().size()) {
            return relation;
        }
        StructField[] fields = new StructField[kept.size()];
        List output = Nil$.MODULE$;
        for (int i = fields.length - 1; i >= 0; i--) {
            AttributeReference one = (AttributeReference) kept.get(i);
            fields[i] = new StructField(one.name(), one.dataType(), one.nullable(), one.metadata());
            output = output.$colon$colon(one);
        }
        // The fields of a relation after its table and its output differ between versions of Spark.
        Object[] parts = new Object[relation.productArity()];
        for (int i = 0; i < parts.length; i++) {
            parts[i] = relation.productElement(i);
        }
        parts[0] = this.table(table, new StructType(fields), relation.options().asCaseSensitiveMap());
        parts[1] = output;
        return relation.makeCopy(parts);
    }

    /**
     * A table with some columns of another. It has a provider of its own, which holds what Spark plans. With filters,
     * that is a plan for the filters of one query, so that each query gets a table.
     */
    private Table table(Table whole, StructType columns, Map options) {
        Map made = (Map) this.narrowed.get(whole);
        if (made == null) {
            made = Collections.synchronizedMap(new HashMap());
            this.narrowed.put(whole, made);
        }
        Table known = (Table) made.get(columns);
        if (known != null) {
            return known;
        }
        PythonDataSourceV2 provider = new PythonDataSourceV2();
        provider.setShortName(whole.name());
        known = provider.getTable(columns, new Transform[0], options);
        if (!"true".equals(this.conf().getConfString(FILTERS, "false"))) {
            made.put(columns, known);
        }
        return known;
    }
}
