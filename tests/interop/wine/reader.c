/*
 * A Windows program that reads from a queue of another computer: the stubs that widl makes of remote_read.idl, and
 * the RPC runtime of whatever Windows it runs on. It prints what it is told, and writes packets to files.
 *
 *     reader.exe HOST PORT LEVEL [USER DOMAIN PASSWORD]      an empty PORT ("-") asks the endpoint mapper
 */
#define SECURITY_WIN32
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "remote_read.h"
#include <rpcdce.h>

enum { ACTION_RECEIVE = 0, NACK = 1, ACK = 2, RECEIVE_ACCESS = 1, PEEK_ACCESS = 0x20 };
#define PEEK_CURRENT 0x80000000u
#define PEEK_NEXT 0x80000001u
#define NO_LIMIT 0xFFFFFFFFu

static RPC_BINDING_HANDLE binding;
static DWORD main_thread;
static jmp_buf back;
static volatile int is_guarded;
static volatile DWORD raised;

void *__RPC_USER midl_user_allocate(size_t size) { return malloc(size); }
void __RPC_USER midl_user_free(void *memory) { free(memory); }

static LONG WINAPI on_exception(EXCEPTION_POINTERS *exception)
{
    if (!is_guarded || GetCurrentThreadId() != main_thread) return EXCEPTION_CONTINUE_SEARCH;
    raised = exception->ExceptionRecord->ExceptionCode;
    is_guarded = 0;
    longjmp(back, 1);
}

/* Whether the calls in the block came back; `raised` says what was raised. */
#define GUARDED(calls) \
    do { raised = 0; is_guarded = 1; if (!setjmp(back)) { calls; } is_guarded = 0; } while (0)

static void say(const char *what, DWORD status)
{
    if (raised) printf("%s: raised %08lx\n", what, (unsigned long)raised);
    else printf("%s: %08lx\n", what, (unsigned long)status);
    fflush(stdout);
}

static QUEUE_CONTEXT_HANDLE_SERIALIZE open_queue(const char *what, WCHAR *name, DWORD access, DWORD share)
{
    QUEUE_CONTEXT_HANDLE_SERIALIZE handle = NULL;
    QUEUE_FORMAT format;
    GUID client = {0x11111111, 0x2222, 0x3333, {0x44, 0x44, 0x55, 0x55, 0x55, 0x55, 0x55, 0x55}};
    memset(&format, 0, sizeof format);
    format.m_qft = QUEUE_FORMAT_TYPE_DIRECT;
    format.m_pDirectID = name;
    GUARDED(R_OpenQueue(binding, &format, access, share, &client, 1, 6, 1, 7601, 1, &handle));
    say(what, 0);
    return handle;
}

static DWORD receive(const char *what, QUEUE_CONTEXT_HANDLE_SERIALIZE handle, DWORD cursor, DWORD action,
                     DWORD timeout, DWORD request, DWORD max_body)
{
    DWORD status = 0, arrived = 0, count = 0, each;
    ULONGLONG sequence = 0;
    SectionBuffer *sections = NULL;
    static int packets;
    GUARDED(status = R_StartReceive(binding, handle, 0, cursor, action, timeout, request, max_body, NO_LIMIT,
                                    &arrived, &sequence, &count, &sections));
    say(what, status);
    if (raised || status) return status;
    for (each = 0; each < count; each++) {
        char name[40];
        FILE *file;
        sprintf(name, "packet-%d.bin", packets++);
        file = fopen(name, "wb");
        fwrite(sections[each].pSectionBuffer, 1, sections[each].SectionSize, file);
        fclose(file);
        printf("  section of type %d, %lu of %lu bytes: %s\n", sections[each].SectionBufferType,
               (unsigned long)sections[each].SectionSize, (unsigned long)sections[each].SectionSizeAlloc, name);
    }
    return status;
}

static void end(const char *what, QUEUE_CONTEXT_HANDLE_SERIALIZE handle, DWORD ack, DWORD request)
{
    DWORD status = 0;
    GUARDED(status = R_EndReceive(binding, handle, ack, request));
    say(what, status);
}

struct cancel { QUEUE_CONTEXT_HANDLE_SERIALIZE handle; DWORD request; DWORD status; };

static DWORD WINAPI cancel_soon(void *argument)
{
    struct cancel *cancel = argument;
    int tries = 0;
    do { /* until the server knows of the call that waits */
        Sleep(50);
        cancel->status = R_CancelReceive(binding, cancel->handle, cancel->request);
    } while (cancel->status && ++tries < 200);
    return 0;
}

static int bind_to(int argc, char **argv)
{
    RPC_CSTR text;
    RPC_STATUS status;
    char *port = strcmp(argv[2], "-") ? argv[2] : NULL;
    status = RpcStringBindingComposeA(NULL, (RPC_CSTR)"ncacn_ip_tcp", (RPC_CSTR)argv[1], (RPC_CSTR)port, NULL, &text);
    if (!status) status = RpcBindingFromStringBindingA(text, &binding);
    if (!status && argc > 6) {
        static SEC_WINNT_AUTH_IDENTITY_A identity;
        identity.User = (unsigned char *)argv[4];
        identity.UserLength = strlen(argv[4]);
        identity.Domain = (unsigned char *)argv[5];
        identity.DomainLength = strlen(argv[5]);
        identity.Password = (unsigned char *)argv[6];
        identity.PasswordLength = strlen(argv[6]);
        identity.Flags = SEC_WINNT_AUTH_IDENTITY_ANSI;
        status = RpcBindingSetAuthInfoA(binding, NULL, atoi(argv[3]), RPC_C_AUTHN_WINNT,
                                        (RPC_AUTH_IDENTITY_HANDLE)&identity, RPC_C_AUTHZ_NONE);
    }
    printf("binding at level %s: %08lx\n", argv[3], (unsigned long)status);
    fflush(stdout);
    return status != 0;
}

int main(int argc, char **argv)
{
    QUEUE_CONTEXT_HANDLE_SERIALIZE handle, other;
    DWORD status = 0, cursor = 0;
    struct cancel cancel;
    HANDLE thread;
    static WCHAR name[] = L"OS:.\\private$\\q", nowhere[] = L"OS:.\\private$\\nowhere";

    if (argc < 4 || bind_to(argc, argv)) return 2;
    main_thread = GetCurrentThreadId();
    AddVectoredExceptionHandler(1, on_exception);

    GUARDED(status = R_GetServerPort(binding));
    if (raised) say("R_GetServerPort", 0);
    else printf("R_GetServerPort: port %lu\n", (unsigned long)status);

    open_queue("R_OpenQueue of a queue that is not there", nowhere, RECEIVE_ACCESS, 0);
    handle = open_queue("R_OpenQueue", name, RECEIVE_ACCESS, 0);
    if (raised) return 1;
    other = open_queue("R_OpenQueue to peek", name, PEEK_ACCESS, 0);

    receive("peek", handle, 0, PEEK_CURRENT, 0, 1, NO_LIMIT);
    receive("peek with the body cut", handle, 0, PEEK_CURRENT, 0, 2, 2);
    receive("receive through the handle to peek", other, 0, ACTION_RECEIVE, 0, 3, NO_LIMIT);
    receive("receive", handle, 0, ACTION_RECEIVE, 0, 4, NO_LIMIT);
    end("R_EndReceive NACK", handle, NACK, 4);
    receive("receive again", handle, 0, ACTION_RECEIVE, 0, 5, NO_LIMIT);
    end("R_EndReceive ACK", handle, ACK, 5);
    end("R_EndReceive once more", handle, ACK, 5);

    GUARDED(status = R_CreateCursor(binding, handle, &cursor));
    say("R_CreateCursor", status);
    receive("peek at the cursor", handle, cursor, PEEK_CURRENT, 0, 6, NO_LIMIT);
    receive("peek next", handle, cursor, PEEK_NEXT, 0, 7, NO_LIMIT);
    GUARDED(status = R_CloseCursor(binding, handle, cursor));
    say("R_CloseCursor", status);

    GUARDED(status = R_PurgeQueue(binding, other));
    say("R_PurgeQueue through the handle to peek", status);
    GUARDED(status = R_PurgeQueue(binding, handle));
    say("R_PurgeQueue", status);
    receive("receive from an empty queue", handle, 0, ACTION_RECEIVE, 100, 8, NO_LIMIT);

    cancel.handle = handle;
    cancel.request = 9;
    cancel.status = 1;
    thread = CreateThread(NULL, 0, cancel_soon, &cancel, 0, NULL);
    receive("receive that is cancelled", handle, 0, ACTION_RECEIVE, NO_LIMIT, 9, NO_LIMIT);
    WaitForSingleObject(thread, INFINITE);
    printf("R_CancelReceive: %08lx\n", (unsigned long)cancel.status);

    GUARDED(status = R_CloseQueue(binding, &other));
    say("R_CloseQueue of the handle to peek", status);
    GUARDED(status = R_CloseQueue(binding, &handle));
    say("R_CloseQueue", status);
    printf("handle after that: %s\n", handle ? "there" : "NULL");
    RpcBindingFree(&binding);
    return 0;
}
