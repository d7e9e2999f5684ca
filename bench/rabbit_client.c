/* Both ends of a RabbitMQ queue on librabbitmq, for bench_daemon.py:

     rabbit_client publish|consume PORT QUEUE COUNT IN_FLIGHT RATE BODY_SIZE STAMPED

   publish: persistent messages with publisher confirms, at most IN_FLIGHT unconfirmed, RATE a second (0: as
   fast as it goes). consume: prefetch of IN_FLIGHT; acknowledges each message if STAMPED, otherwise a quarter
   of the prefetch at a time. Prints "ready", then the first and the last time in seconds of CLOCK_MONOTONIC,
   then with STAMPED one latency in seconds on each line: the body begins with the time at which it was due. */

#include <amqp.h>
#include <amqp_framing.h>
#include <amqp_tcp_socket.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

static void fail(const char *what) {
    fprintf(stderr, "%s\n", what);
    exit(1);
}

static void check(amqp_connection_state_t c, const char *what) {
    if (amqp_get_rpc_reply(c).reply_type != AMQP_RESPONSE_NORMAL) fail(what);
}

static amqp_connection_state_t connect_to(int port) {
    amqp_connection_state_t c = amqp_new_connection();
    amqp_socket_t *socket = amqp_tcp_socket_new(c);
    if (socket == NULL || amqp_socket_open(socket, "127.0.0.1", port)) fail("cannot connect");
    amqp_rpc_reply_t r = amqp_login(c, "/", 0, 131072, 0, AMQP_SASL_METHOD_PLAIN, "guest", "guest");
    if (r.reply_type != AMQP_RESPONSE_NORMAL) fail("cannot log in");
    amqp_channel_open(c, 1);
    check(c, "cannot open a channel");
    return c;
}

/* Takes one frame if there is one within the time; returns how many messages are confirmed after it. */
static long take_confirms(amqp_connection_state_t c, long confirmed, double seconds) {
    struct timeval wait = {(long)seconds, (long)((seconds - (long)seconds) * 1e6)};
    amqp_frame_t frame;
    int r = amqp_simple_wait_frame_noblock(c, &frame, &wait);
    if (r == AMQP_STATUS_TIMEOUT) return confirmed;
    if (r != AMQP_STATUS_OK) fail("the connection is lost");
    if (frame.frame_type != AMQP_FRAME_METHOD || frame.payload.method.id != AMQP_BASIC_ACK_METHOD) fail("not confirmed");
    amqp_basic_ack_t *ack = frame.payload.method.decoded;
    return ack->multiple ? (long)ack->delivery_tag : confirmed + 1;
}

static void publish(amqp_connection_state_t c, const char *queue, long count, long in_flight, double rate, size_t size) {
    amqp_confirm_select(c, 1);
    check(c, "no confirms");
    amqp_basic_properties_t properties = {._flags = AMQP_BASIC_DELIVERY_MODE_FLAG, .delivery_mode = 2};
    char *text = calloc(1, size);
    amqp_bytes_t body = {size, text};
    long sent = 0, confirmed = 0;
    puts("ready");
    fflush(stdout);
    double first = now();
    while (confirmed < count) {
        double due = first;
        while (sent < count && sent - confirmed < in_flight) {
            if (rate > 0 && (due = first + sent / rate) > now()) break;
            memcpy(text, &due, sizeof due);
            if (amqp_basic_publish(c, 1, amqp_empty_bytes, amqp_cstring_bytes(queue), 0, 0, &properties, body)) fail("cannot publish");
            sent++;
        }
        double wait = 1.0;
        if (rate > 0 && sent < count && sent - confirmed < in_flight && (wait = due - now()) < 0) wait = 0;
        confirmed = take_confirms(c, confirmed, wait);
        amqp_maybe_release_buffers(c);
    }
    printf("%.9f %.9f\n", first, now());
}

static void consume(amqp_connection_state_t c, const char *queue, long count, long in_flight, int stamped) {
    double *latencies = calloc(count, sizeof *latencies), first = 0, due;
    long acknowledge_after = stamped ? 1 : in_flight / 4;
    amqp_basic_qos(c, 1, 0, in_flight, 0);
    check(c, "no prefetch");
    amqp_basic_consume(c, 1, amqp_cstring_bytes(queue), amqp_empty_bytes, 0, 0, 0, amqp_empty_table);
    check(c, "cannot consume");
    puts("ready");
    fflush(stdout);
    for (long received = 1; received <= count; received++) {
        amqp_envelope_t envelope;
        amqp_maybe_release_buffers(c);
        if (amqp_consume_message(c, &envelope, NULL, 0).reply_type != AMQP_RESPONSE_NORMAL) fail("the connection is lost");
        if (first == 0) first = now();
        memcpy(&due, envelope.message.body.bytes, sizeof due);
        latencies[received - 1] = now() - due;
        if (received % acknowledge_after == 0 || received == count) amqp_basic_ack(c, 1, envelope.delivery_tag, 1);
        amqp_destroy_envelope(&envelope);
    }
    printf("%.9f %.9f\n", first, now());
    for (long i = 0; stamped && i < count; i++) printf("%.9f\n", latencies[i]);
}

int main(int argc, char **argv) {
    if (argc != 9) fail("rabbit_client publish|consume PORT QUEUE COUNT IN_FLIGHT RATE BODY_SIZE STAMPED");
    amqp_connection_state_t c = connect_to(atoi(argv[2]));
    long count = atol(argv[4]), in_flight = atol(argv[5]);
    if (strcmp(argv[1], "publish") == 0)
        publish(c, argv[3], count, in_flight, atof(argv[6]), (size_t)atol(argv[7]));
    else
        consume(c, argv[3], count, in_flight, atoi(argv[8]));
    amqp_connection_close(c, AMQP_REPLY_SUCCESS);
    return 0;
}
