"""The nouns of message queuing: identifiers, names, messages, queues, codes, errors and limits.

Everything here is a value; nothing here does I/O, and nothing here imports beyond the standard library.
Import from the modules (`tiercel.model.message`), not from this package.
"""
