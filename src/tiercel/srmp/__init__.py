"""SOAP Reliable Messaging: messages in HTTP requests, [MC-MQSRM]. All of it is without I/O.

Bytes to values and back:

    http_request   the head and body of a request
    multipart      MIME parts of the body: the envelope, the message body, the extension
    xml_tree       XML to elements, bounded
    envelope       the SOAP envelope as a value, with `envelope_reader` and `envelope_writer`;
                   `usual_envelope` reads the envelopes of most messages faster
    request        all of the above: one SRMP message in one request
    message        an SRMP message to message properties and back
    receipts       the four kinds of receipts; `kinds` tells them apart
    http_response  answers, ours and those of others
    dump           a listing for `tiercel decode`

The machine:

    protocol             the front: inputs, actions, and the carrier that the engine knows
    incoming_connection  HTTP requests of one client, and their answers
    receiver             what becomes of a request: `destinations` finds its queue, `forwarding` passes it on
    stream_receipts      when to confirm the messages of a stream; `receipt_sender` sends all receipts
    receipt_reader       receipts for our own messages, believed by their `receipt_tokens`
    queue_sender         one outgoing queue; `outgoing_stream` has what awaits a receipt
    request_writer       a message to the request that carries it
    redirections         the tables of a router, kept in the store

Input that breaks section 2 of the specification raises a `DecodeError` with its place in the request. Its
answer is status 400 (3.1.5.1.2).
"""
