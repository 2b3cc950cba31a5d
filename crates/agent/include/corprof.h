/*
 * What a tracer tells corprof, version 1: which request a thread works for.
 *
 * A tracer asks once a thread for that thread's context block, and from then on writes to it: no
 * call a span. The profiler's signal handler reads it on the same thread, and the wall sampler from
 * a thread of its own while the thread is blocked.
 *
 * While no thread has had a span for long, the wall sampler looks for spans less often, at least
 * twice a second. Each of these functions but corprof_request_end() and corprof_endpoint() has it
 * look at once.
 *
 * All functions are safe to call from any thread at any time, also after the profiler has stopped.
 * They are found with dlsym(3) in libcorprof.so; a process in which they are not found, or answer
 * with nothing, is not profiled, and a tracer has nothing to do there.
 */
#ifndef CORPROF_H
#define CORPROF_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of the block's layout and of this file. Newer ones only add at the end. */
#define CORPROF_CONTEXT_VERSION 1

/*
 * A thread's context. Only the thread itself writes to it:
 *
 *   1. sequence = sequence + 1        (now odd: the block is being written)
 *   2. valid = 0, then the fields, then valid = 1 if there is a span, else valid stays 0
 *   3. sequence = sequence + 1        (even again)
 *
 * each store with release order (on x86-64 plain stores that the compiler keeps in order). A reader
 * that finds the sequence odd, or changed, takes nothing.
 *
 * From trace_id on the block is the record of OpenTelemetry's thread context (otel_thread_ctx_v1).
 */
typedef struct corprof_context {
    /* Written by the profiler: CORPROF_CONTEXT_VERSION, and the size of the block in bytes. */
    uint32_t version;
    uint32_t size;
    uint32_t sequence;
    uint32_t reserved;
    /* The span that the request began with in this process, as a number; 0 if there is none. */
    uint64_t local_root_span_id;
    /* A set of labels, as corprof_labels() numbered it; 0 if there are none. */
    uint64_t labels;
    /* In the byte order of the W3C's traceparent: most significant first. */
    uint8_t trace_id[16];
    uint8_t span_id[8];
    /* 1 if trace_id and span_id hold a span. */
    uint8_t valid;
    /* The W3C's trace flags; may stay 0. */
    uint8_t trace_flags;
    /* Attributes, as OpenTelemetry has them; none: 0. */
    uint16_t attributes_size;
    uint8_t attributes[4];
} corprof_context;

/*
 * The calling thread's block: valid, and the same, as long as the thread lives. NULL if the process
 * is not profiled or the thread is not known to the profiler; asking again later may succeed.
 */
corprof_context *corprof_thread_context(void);

/*
 * The number of an endpoint's name (UTF-8, cut at 256 bytes), for corprof_request(); the same name
 * has the same number. 0 if the process is not profiled or has too many names already (2,000).
 */
uint32_t corprof_endpoint(const char *name, size_t length);

/*
 * Tells which endpoint a request is for. Call it when that is known, and again if it changes; the
 * last one counts. The name goes to all samples of the local root span, also to earlier ones of the
 * same profile.
 */
void corprof_request(uint64_t local_root_span_id, uint32_t endpoint);

/*
 * Tells that a request has ended, after so many nanoseconds. It is counted under the endpoint that
 * was told last.
 */
void corprof_request_end(uint64_t local_root_span_id, uint64_t duration_ns);

/*
 * The number of a set of labels, for the block: names and values in turn, each ended by a NUL, in
 * UTF-8; `length` counts all bytes. The same set has the same number. At most 10 labels, names of
 * 64 and values of 256 bytes: what is longer is cut, what is more is left out. 0 if the process is
 * not profiled or has too many sets already (10,000).
 */
uint64_t corprof_labels(const char *pairs, size_t length);

#ifdef __cplusplus
}
#endif

#endif
