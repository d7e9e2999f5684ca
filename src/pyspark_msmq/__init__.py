"""Queues of MSMQ as a Spark data source: `spark.readStream.format("msmq")`."""
