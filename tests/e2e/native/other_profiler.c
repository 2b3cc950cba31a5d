// A profiler that is not ours, in the place of the main one: counts threads, and tells at the end.
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef int32_t result;
typedef struct object {
    void *const *table;
} object;

static atomic_int threads;

// ICorProfilerInfo.
static const uint8_t INFO[16] = {0x7d, 0x55, 0xb5, 0x28, 0x3f, 0x3f, 0xb4, 0x48,
                                 0x90, 0xb2, 0x5f, 0x9e, 0xea, 0x2f, 0x6c, 0x48};
enum { SET_EVENT_MASK = 16, MONITOR_THREADS = 0x200, SLOTS = 98 };

static uint32_t count(object *self) {
    (void)self;
    return 1;
}

static result query(object *self, const void *id, object **out) {
    (void)id;
    *out = self;
    return 0;
}

static result nothing(void) { return 0; }

static result initialize(object *self, object *unknown) {
    (void)self;
    object *info = NULL;
    result answer = ((result (*)(object *, const void *, object **))unknown->table[0])(
        unknown, INFO, &info);
    if (answer < 0)
        return answer;
    return ((result (*)(object *, uint32_t))info->table[SET_EVENT_MASK])(info, MONITOR_THREADS);
}

static result shutdown(object *self) {
    (void)self;
    fprintf(stderr, "the other profiler saw %d threads\n", threads);
    return 0;
}

static result thread_created(object *self, uintptr_t thread) {
    (void)self;
    (void)thread;
    threads++;
    return 0;
}

static void *callback_table[SLOTS];
static object callback = {callback_table};

static result create(object *self, object *outer, const void *id, object **out) {
    (void)self;
    (void)outer;
    (void)id;
    for (int slot = 0; slot < SLOTS; slot++)
        callback_table[slot] = nothing;
    callback_table[0] = query;
    callback_table[1] = count;
    callback_table[2] = count;
    callback_table[3] = initialize;
    callback_table[4] = shutdown;
    callback_table[29] = thread_created;
    *out = &callback;
    return 0;
}

static void *const factory_table[] = {query, count, count, create, nothing};
static object factory = {factory_table};

result DllGetClassObject(const void *class, const void *id, object **out) {
    (void)class;
    (void)id;
    *out = &factory;
    return 0;
}

result DllCanUnloadNow(void) { return 1; }
