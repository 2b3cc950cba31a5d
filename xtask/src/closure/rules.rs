//! What a signal handler must not do, and the few exceptions, each with its reason.

/// A rule that the closure of a handler can break.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    Allocation,
    Lock,
    Panic,
    Formatting,
    Unwinding,
    ThreadLocal,
    Import,
    LazyImport,
    Outside,
    Indirect,
    SystemCall,
    Undecodable,
}

impl Rule {
    /// What is forbidden, and why.
    pub const fn why(self) -> &'static str {
        match self {
            Self::Allocation => "no allocation: the interrupted thread may hold the heap's lock",
            Self::Lock => "no lock: the interrupted thread may hold it, and would wait for itself",
            Self::Panic => "no panic path: a panic formats, allocates and unwinds",
            Self::Formatting => "no formatting: it calls through pointers, and deep",
            Self::Unwinding => "no unwinding: the unwinder takes the dynamic linker's lock",
            Self::ThreadLocal => "no thread-local storage: its first touch may allocate",
            Self::Import => "no import that is not on the list: nobody knows what it does",
            Self::LazyImport => {
                "no import bound at its first call: the dynamic linker takes a lock"
            }
            Self::Outside => "a handler reaches only `signal`, `model` and `core`",
            Self::Indirect => "no call or jump whose target can't be told",
            Self::SystemCall => {
                "no system call that is not on the list: it may wait, or undo itself"
            }
            Self::Undecodable => "all code must be readable by this check",
        }
    }

    /// How to mend it.
    pub const fn advice(self) -> &'static str {
        match self {
            Self::Allocation => {
                "use memory that was prepared when the thread was registered, or count a loss"
            }
            Self::Lock => "use an atomic with a bounded number of tries, then count a loss",
            Self::Panic => {
                "use get, checked_ or wrapping_ arithmetic, or a pattern instead of an index"
            }
            Self::Formatting => "record numbers, and format them on a normal thread",
            Self::Unwinding => "remove the panic or the destructor that may unwind",
            Self::ThreadLocal => "pass it in the signal's value or keep it in the thread's record",
            Self::Import => {
                "write it in `signal`, or list it in xtask/src/closure/rules.rs with the reason"
            }
            Self::LazyImport => "link with `-z now`",
            Self::Outside => "move what is needed into `signal`; do the rest on a normal thread",
            Self::Indirect => {
                "call it directly or match on an enum; or list it in xtask/src/closure/rules.rs"
            }
            Self::SystemCall => "list it in xtask/src/closure/rules.rs if it is signal-safe",
            Self::Undecodable => "teach xtask/src/closure/scan.rs what this is",
        }
    }
}

/// What a library is checked against.
pub struct Policy {
    /// The handlers' demangled names: all that the kernel is told to call.
    pub handlers: &'static [&'static str],
    /// Crates whose code a handler may run.
    pub crates: &'static [&'static str],
    /// Functions of other libraries that may be called, with the reason.
    pub imports: &'static [(&'static str, &'static str)],
    /// Functions that may make so many indirect calls, with the reason.
    pub indirect: &'static [(&'static str, usize, &'static str)],
    /// System calls that may be made, with the reason. Each must be found: it shows that the check
    /// has seen the handler's body.
    pub system_calls: &'static [(u64, &'static str)],
    /// Fewer functions than these mean that calls were not followed.
    pub functions_min: usize,
    /// Fewer bytes of code than these mean that the handler was not read.
    pub bytes_min: u64,
}

/// All functions of the profiler that the kernel is told to call.
pub const HANDLERS: &[&str] = &["signal::handler::linux::on_signal"];

/// The profiler's own.
pub const POLICY: Policy = Policy {
    handlers: HANDLERS,
    crates: &["signal", "model", "core"],
    imports: &[
        ("memcpy", "copies bytes; no lock, no state"),
        ("memmove", "copies bytes; no lock, no state"),
        ("memset", "sets bytes; no lock, no state"),
    ],
    indirect: &[(
        "signal::handler::linux::pass_on",
        1,
        "the handler that was installed before ours gets the signals that are not ours",
    )],
    system_calls: &[
        (186, "gettid: which thread this is, without thread-local storage"),
        (223, "timer_settime: the thread's next sample, jittered; does not wait"),
        (228, "clock_gettime: signal-safe by POSIX"),
    ],
    functions_min: 3,
    bytes_min: 2048,
};

/// A function as rules see it: its mangled name, and the same for people.
pub struct Named<'a> {
    /// As in the symbol table.
    pub raw: &'a str,
    /// As in the source.
    pub demangled: &'a str,
}

/// The rule that reaching a function breaks by its mere name.
pub fn by_name(name: &Named<'_>) -> Option<Rule> {
    const ALLOCATORS: [&str; 13] = [
        "malloc",
        "calloc",
        "realloc",
        "reallocarray",
        "free",
        "posix_memalign",
        "aligned_alloc",
        "memalign",
        "valloc",
        "strdup",
        "mmap",
        "munmap",
        "brk",
    ];
    const LOCK_WORDS: [&str; 7] = [
        "::sync::once",
        "std::sync::",
        "std::sys::sync::",
        "::futex",
        "lock_contended",
        "parking_lot",
        "once_cell",
    ];
    let Named { raw, demangled } = *name;
    let raw_starts = |words: &[&str]| words.iter().any(|word| raw.starts_with(word));
    // The unmangled name has a version after `@` in some tables.
    let bare = raw.split('@').next().unwrap_or(raw);
    let rust_symbol = demangled.rsplit("::").next().unwrap_or(demangled);
    let path = demangled.trim_start_matches(['<', '&', '(', '*']);
    let is_allocator = ["__rust_", "__rdl_", "__rg_"].iter().any(|w| rust_symbol.starts_with(w))
        && rust_symbol.contains("alloc");
    if ALLOCATORS.contains(&bare) || is_allocator || path.starts_with("alloc::") {
        return Some(Rule::Allocation);
    }
    if raw_starts(&["_Unwind_", "__cxa_", "__gcc_personality"])
        || rust_symbol == "rust_eh_personality"
    {
        return Some(Rule::Unwinding);
    }
    if path.starts_with("core::panicking::")
        || demangled.contains("std::panicking::")
        || ["rust_begin_unwind", "rust_panic", "__rust_start_panic"].contains(&rust_symbol)
    {
        return Some(Rule::Panic);
    }
    if path.starts_with("core::fmt::") || demangled.contains(" as core::fmt::") {
        return Some(Rule::Formatting);
    }
    if bare == "__tls_get_addr" || demangled.contains("thread_local") {
        return Some(Rule::ThreadLocal);
    }
    if raw_starts(&["pthread_mutex", "pthread_rwlock", "pthread_cond", "pthread_once", "sem_"])
        || bare.contains("futex")
        || LOCK_WORDS.iter().any(|word| demangled.contains(word))
    {
        return Some(Rule::Lock);
    }
    None
}

/// The crate that a demangled name belongs to; for `<A as B>::c` that of `A`, and of a type that is
/// the language's own, `core`.
pub fn crate_of(demangled: &str) -> &str {
    let path = demangled.trim_start_matches(|c: char| !c.is_alphanumeric() && c != '_');
    let path = path.strip_prefix("mut ").or_else(|| path.strip_prefix("dyn ")).unwrap_or(path);
    let end = path.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(path.len());
    let (first, rest) = path.split_at(end);
    if rest.starts_with("::") {
        return first;
    }
    // `<u32 as core::convert::TryFrom<i32>>::try_from`; a name without any path is C's.
    if demangled.starts_with('<') { "core" } else { "" }
}
