"""Random schedules of streaming queries, without a JVM: `make proof-spark`."""
