/* In place of what widl would make of ms-dtyp.idl: windows.h has these types already, and another OBJECTID. */
#include <windows.h>
#define OBJECTID MQ_OBJECTID
#define _OBJECTID _MQ_OBJECTID

/* The stubs want exceptions of the compiler, which GCC does not have. reader.c catches them by itself; what a
   stub would free after a failure is left to the end of the process. */
#undef RpcTryFinally
#undef RpcFinally
#undef RpcEndFinally
#define RpcTryFinally
#define RpcFinally
#define RpcEndFinally
