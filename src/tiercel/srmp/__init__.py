"""SOAP Reliable Messaging: messages in HTTP requests, [MC-MQSRM]. Bytes to values and back, without I/O.

    http_request   the head and body of a request
    multipart      MIME parts of the body: the envelope, the message body, the extension
    xml_tree       XML to elements, bounded
    envelope       the SOAP envelope as a value, with `envelope_reader` and `envelope_writer`
    request        all of the above: one SRMP message in one request
    message        an SRMP message to message properties and back
    receipts       the four kinds of receipts; `kinds` tells them apart
    dump           a listing for `tiercel decode`

Input that breaks section 2 of the specification raises a `DecodeError` with its place in the request. Its
answer is status 400 (3.1.5.1.2).
"""
