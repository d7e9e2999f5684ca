"""Queues into tables, on Spark: docs/pipeline.md.

`config` reads pipeline.toml, `plan` says what a pipeline would do, `running` does it; `tables` holds the five
kinds of table that a batch is written to exactly once; `reports` draws what a table of messages tells;
`captures` lands pcap files in the same columns. Spark, Arrow and the table formats are extras: `pip install
tiercel[pipeline]`.
"""
