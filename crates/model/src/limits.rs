//! Every limit of the profiler, in one place, with its unit and its reason.

/// Deepest stack that is kept, in frames; deeper ones keep their leaf and root ends.
/// 512 covers deep recursion of real services, and a sample stays one page.
pub const FRAMES_MAX: usize = 512;
/// Frames at the root end of a truncated stack: enough to see which request or thread it was.
pub const ROOT_FRAMES_MAX: usize = 64;
/// Words of stack copied with a sample that had to guess a frame: 8 KiB hold some fifty frames.
/// On Windows a method that is not known yet can't be walked past by a guess: what lies beyond it
/// has to be in the copy.
pub const STACK_COPY_WORDS: usize = if cfg!(windows) { 8192 } else { 1024 };
/// Samples that can wait between the handlers and the engine. At 12 KiB each the ring is 6 MiB of
/// address space, touched only as far as it fills: its reader has writers begin anew whenever it
/// has read all.
/// On Windows the sampler alone writes to it.
pub const RING_SLOTS: usize = if cfg!(windows) { 64 } else { 512 };
/// How often a stack is walked again: each time may reach methods that were not known before. On
/// Windows each time reaches one.
pub const REWALKS_MAX: usize = if cfg!(windows) { FRAMES_MAX } else { 8 };
/// Descriptors that a process must be allowed for the profiler to run in it. .NET itself needs some
/// 34 to start, and its libraries' files are among them: with fewer than that over, what is lent to
/// the profiler and its startup hook is what keeps the program from starting (measured with .NET 9:
/// the agent below 36, the hook below 44).
pub const DESCRIPTORS_MIN: u64 = 64;
/// Threads tracked at once. A record is 128 bytes of address space, touched when used.
pub const THREADS_MAX: usize = 65_536;
/// Thread ids are smaller: the kernel's `PID_MAX_LIMIT` on 64-bit machines.
pub const TIDS_MAX: usize = 1 << 22;
/// A thread name's length in bytes, UTF-8; longer ones are cut.
pub const THREAD_NAME_BYTES_MAX: usize = 128;
/// CPU time that a thread may have used before it is known and still be charged with it, in
/// nanoseconds: the start of a thread takes some 100 µs. More was done for somebody else.
pub const THREAD_START_CPU_NS_MAX: u64 = 10_000_000;
/// Threads that the runtime doesn't tell of which are taken in at one look.
pub const NATIVES_A_BEAT_MAX: usize = 4096;
/// How much longer the pauses between looks for such threads are than the looks take: a thousandth
/// of one processor at most, however many threads there are.
pub const NATIVES_PAUSE: u64 = 1000;
/// What looks may cost before pauses get longer for it, in nanoseconds of CPU time: some dozen
/// looks, so that those in a program's first second find its threads soon.
pub const NATIVES_BURST_NS_MAX: u64 = 10_000_000;
/// Longest pause between two looks for such threads, in nanoseconds. On Windows a clock may have
/// steps of 16 ms, and one step that falls into a look is no reason to be blind for long.
pub const NATIVES_DISTANCE_NS_MAX: u64 = if cfg!(windows) { 1 } else { 10 } * 1_000_000_000;
/// CPU time that a thread which the runtime doesn't tell of may have used since its last sample, in
/// nanoseconds, before it is charged without one: it may have blocked the signal.
pub const NATIVE_LAG_NS_MAX: u64 = 500_000_000;
/// A blocked thread is visited again after its wait so far, divided by this: what the wall sampler
/// can be late with is then a 64th of the wait.
pub const WALL_BACKOFF_DIVISOR: u64 = 64;
/// Longest distance between two visits of a blocked thread, in nanoseconds.
pub const WALL_DISTANCE_NS_MAX: u64 = 10_000_000_000;
/// A blocked thread that is not to be visited sooner than that, in nanoseconds, rests: it is looked
/// at in a round, with others. It has been blocked for 64 times as long.
pub const RESTING_DISTANCE_NS_MIN: u64 = 100_000_000;
/// Between two rounds of looks at threads that rest, in nanoseconds: at rest most of the profiler's
/// cost is waking up.
pub const RESTING_ROUND_NS: u64 = 500_000_000;
/// Such threads that are looked at in one round: two microseconds each, since nothing of them is in
/// the processor's caches, and an eighth of a thousandth of a processor however many there are. Of
/// up to 640 each is looked at every ten seconds; of more, less often, and for each profile.
pub const RESTING_A_ROUND_MAX: usize = 32;
/// Longest distance between two looks at an attached thread that has no room for signals within
/// signals yet, in nanoseconds.
pub const ROOM_DISTANCE_NS_MAX: u64 = 60_000_000_000;
/// Of the mappings that the kernel would still allow the process, attaching uses one in so many at
/// most: the rest is the program's, which dies if it gets none.
pub const SPARE_MAPPINGS_SHARE: usize = 2;
/// Nanoseconds of which the profiler may use the budget at once: starting costs.
pub const BUDGET_BURST_NS: u64 = 100_000_000_000;
/// CPU nanoseconds that a sample is taken to cost on the thread that is sampled: the handler, and
/// what the kernel does for a signal. docs/performance.md has what was measured.
pub const HANDLER_NS: u64 = 5_000;
/// By how much sampling is slowed down at most, to stay within the budget.
pub const SLOWDOWN_MAX: u32 = 64;
/// Finished profiles kept in memory while the output folder can't be written; older ones go.
pub const UNWRITTEN_PROFILES_MAX: usize = 8;
/// Finished profiles that wait in memory to be sent to one target, while they can't be kept on
/// disk either; older ones go.
pub const EXPORT_QUEUE_MAX: usize = 16;
/// Finished profiles on their way to the thread that sends, which may hang for a minute in a
/// look-up of a host and for longer in a disk: as many as a second's period makes by then.
pub const EXPORT_INBOX_MAX: usize = 256;
/// Bytes of either; a profile of a large service has some MiB.
pub const EXPORT_QUEUE_BYTES_MAX: u64 = 32 << 20;
/// Threads that the scan sampler may pass over in a tick before it gives up.
pub const SCAN_SKIPS_MAX: usize = 64;
/// Runs of managed code that are known at a time, some 300 bytes each. A program that compiles code
/// without an end has them learned anew from then on.
pub const CODE_RUNS_MAX: usize = 100_000;
/// Bytes of them and their names from which on those are forgotten that no stack has had for some
/// periods: a service has some thousands of methods in its stacks, and by reckoning a thousand have
/// a MiB.
pub const CODE_BYTES_KEPT: usize = 3 << 20;
/// For how many periods such code is kept: what comes back has to be asked of the runtime again.
pub const CODE_KEPT_PERIODS: u32 = 5;
/// Distinct stacks an aggregate holds before further ones go under `[stacks over the limit]`.
pub const STACKS_MAX: usize = 200_000;
/// Distinct functions whose names are kept.
pub const FUNCTIONS_MAX: usize = 200_000;
/// Length of a function's display name in bytes; longer ones are cut.
pub const FUNCTION_NAME_BYTES_MAX: usize = 1024;
/// Recursion in a metadata signature; deeper types are shown as `…`.
pub const SIGNATURE_DEPTH_MAX: usize = 16;
/// Native modules whose unwind data is prepared.
pub const NATIVE_MODULES_MAX: usize = 1024;
/// Bytes of `.eh_frame` copied from one module; the largest seen is 20 MiB (a browser engine).
pub const EH_FRAME_BYTES_MAX: usize = 128 << 20;
/// Parts of a function that unwind data is chained over on Windows; compilers make two or three.
pub const UNWIND_CHAIN_MAX: usize = 32;
/// Distinct unwind rules of all native modules; a .NET process has about a thousand.
pub const UNWIND_RULES_MAX: usize = 1 << 16;
/// Rows of the native unwind table (8 bytes each); a .NET process has about half a million.
pub const UNWIND_ROWS_MAX: usize = 1 << 24;
/// Bytes of one symbol table, names included, that are read from a native module's file; the
/// runtime's own debug file has 10 MiB. Held while they are sorted.
pub const SYMBOL_BYTES_MAX: usize = 64 << 20;
/// Bytes of functions and names that are kept of all native modules; further modules have no names.
pub const SYMBOLS_KEPT_BYTES_MAX: usize = 64 << 20;
/// Bytes of a native function's name as its file has it; one with a longer name has none.
pub const SYMBOL_NAME_BYTES_MAX: usize = 4096;
/// Bytes that a module's packed symbols (`.gnu_debugdata`) may have once unpacked; a browser
/// engine's have 15 MiB.
pub const PACKED_SYMBOL_BYTES_MAX: usize = 32 << 20;
/// Bytes of one managed method's code that are decoded for its unwind rows.
pub const METHOD_CODE_BYTES_MAX: usize = 1 << 20;
/// Bytes that are kept of which IL managed code is of; a service of 20,000 methods has 4 MiB.
/// Further methods have no source lines.
pub const IL_MAPS_BYTES_MAX: usize = 32 << 20;
/// Distinct spans of a period that samples can belong to: at one sample a request, of 1,600
/// requests a second for a minute.
pub const SPANS_MAX: usize = 100_000;
/// Distinct endpoints of a period. A service that names its routes has some hundreds; one that
/// takes paths with ids in them for names makes new ones for ever.
pub const ENDPOINTS_MAX: usize = 2_000;
/// Moments of a period, of 16 bytes each: a thread that computes makes 6,000 a minute, one that
/// takes turns with others up to that many, too.
pub const MOMENTS_MAX: usize = 250_000;
/// An endpoint's name in bytes, UTF-8; longer ones are cut.
pub const ENDPOINT_BYTES_MAX: usize = 256;
/// Requests that can be under way at once, and that are remembered after their end.
pub const REQUESTS_MAX: usize = 100_000;
/// How long a request is remembered after its end, in nanoseconds: a wait of its threads is charged
/// up to the longest distance of two visits later.
pub const REQUEST_REMEMBERED_NS: u64 = WALL_DISTANCE_NS_MAX + 5_000_000_000;
/// A request whose end has not been told for so long, in nanoseconds, is taken to be over.
pub const REQUEST_NS_MAX: u64 = 3_600_000_000_000;
/// Threads with a context that are glanced at in one tick, for whether they have a span.
pub const SPAN_GLANCES_MAX: usize = 256;
/// Sets of labels that a program can make.
pub const LABEL_SETS_MAX: usize = 10_000;
/// Labels of one set.
pub const LABELS_MAX: usize = 10;
/// A label's name in bytes, UTF-8; longer ones are cut.
pub const LABEL_NAME_BYTES_MAX: usize = 64;
/// A label's value in bytes, UTF-8; longer ones are cut.
pub const LABEL_VALUE_BYTES_MAX: usize = 256;

const _: () = assert!(ROOT_FRAMES_MAX < FRAMES_MAX, "a truncated stack must keep leaf frames too");
const _: () = assert!(RING_SLOTS.is_power_of_two(), "the ring masks its positions");
