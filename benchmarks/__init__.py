"""Benchmarks: what muntin costs, measured and checked. `python -m benchmarks --list` names them."""

BENCHMARKS = (
    "cold_start", "keys", "push_throughput", "unkeyed_push", "keyed_push", "keyed_answers", "threads",
    "emission", "demo_rate", "lookups", "lookup_at", "loose_windows", "per_key", "key_filters",
    "values_per_key", "decimals", "having", "top_k", "sessions", "collective_index", "filters", "subscriptions",
    "ranges_per_key", "fraud_rules", "rules_as_rows", "feature_sets", "join", "sketches", "approx_distinct",
    "unit_costs", "adaptive", "registration", "backfill", "stairs", "archive_probes", "soak", "serve", "spark",
    "spark_costs", "spark_filters", "spark_joins", "spark_table", "spark_lookup_at", "spark_cluster",
    "spark_latency", "spark_kafka", "peers",
)  # fmt: skip
