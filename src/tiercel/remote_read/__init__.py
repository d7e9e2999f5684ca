"""Reading the queues of another computer: [MS-MQRR]."""
