"""Loads queues into tables with Spark: docs/pipeline.md.

`config` reads pipeline.toml, `plan` shows what a pipeline would do, `running` runs it; `tables` has the five
table formats, which take each batch exactly once; `reports` makes charts from a table of messages;
`captures` loads pcap files into the same columns. Spark, Arrow and the table formats are extras: `pip install
tiercel[pipeline]`.
"""
