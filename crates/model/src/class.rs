//! What a thread is there for.

/// What a thread is there for, as far as its name tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum ThreadClass {
    /// It runs managed code.
    Managed,
    /// It marks and compacts a heap of the server GC.
    ServerGc,
    /// It collects while the program runs on.
    BackgroundGc,
    /// It compiles methods anew that are called often.
    TieredJit,
    /// It runs finalizers.
    Finalizer,
    /// It writes the runtime's events, or waits for diagnostic tools.
    EventPipe,
    /// Another thread of the runtime.
    Runtime,
    /// A thread of a native library, or of the program that hosts the runtime.
    Native,
}

impl ThreadClass {
    /// All classes, in the order of their numbers.
    pub const ALL: [Self; 8] = [
        Self::Managed,
        Self::ServerGc,
        Self::BackgroundGc,
        Self::TieredJit,
        Self::Finalizer,
        Self::EventPipe,
        Self::Runtime,
        Self::Native,
    ];

    /// The class of a thread that the runtime has not told of, by the name that the kernel has,
    /// which is cut after 15 bytes. Before .NET 6 the runtime gave its threads no names.
    #[must_use]
    pub fn of_native(name: &str) -> Self {
        match name {
            ".NET Server GC" => Self::ServerGc,
            ".NET BGC" => Self::BackgroundGc,
            ".NET EventPipe" => Self::EventPipe,
            _ if name.starts_with(".NET ") => Self::of_managed(name, Self::Runtime),
            _ => Self::Native,
        }
    }

    /// The class of a thread that the runtime has told of: two of its own are among them, and look
    /// like any other but for their names. `otherwise` is what the others are.
    #[must_use]
    pub fn of_managed(name: &str, otherwise: Self) -> Self {
        match name {
            ".NET Finalizer" => Self::Finalizer,
            _ if name.starts_with(".NET Tiered") => Self::TieredJit,
            _ => otherwise,
        }
    }

    /// The synthetic frame at the root end of the thread's stacks, so that all of a kind are seen
    /// as one; `None` where the stack's own root says enough.
    #[must_use]
    pub const fn root(self) -> Option<&'static str> {
        match self {
            Self::Managed | Self::Native => None,
            Self::ServerGc | Self::BackgroundGc => Some("Garbage Collector"),
            Self::TieredJit => Some("JIT"),
            Self::Finalizer => Some("Finalizer"),
            Self::EventPipe => Some("EventPipe"),
            Self::Runtime => Some(".NET runtime"),
        }
    }

    /// The class whose root frame has that name; of two with the same, the first.
    #[must_use]
    pub fn of_root(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|class| class.root() == Some(name))
    }
}

#[cfg(test)]
mod tests {
    use super::ThreadClass::{self, *};

    #[test]
    fn names_are_as_the_kernel_cuts_them() {
        for (name, native, managed) in [
            (".NET Server GC", ServerGc, Managed),
            (".NET BGC", BackgroundGc, Managed),
            (".NET Tiered Com", TieredJit, TieredJit),
            (".NET Finalizer", Finalizer, Finalizer),
            (".NET EventPipe", EventPipe, Managed),
            (".NET SynchManag", Runtime, Managed),
            (".NET TP Worker", Runtime, Managed),
            (".NETwork", Native, Managed),
            ("dotnet", Native, Managed),
            ("", Native, Managed),
        ] {
            assert_eq!(ThreadClass::of_native(name), native, "{name}");
            assert_eq!(ThreadClass::of_managed(name, Managed), managed, "{name}");
        }
    }

    #[test]
    fn roots_tell_classes() {
        assert_eq!(ThreadClass::of_root("Garbage Collector"), Some(ServerGc));
        assert_eq!(ThreadClass::of_root("JIT"), Some(TieredJit));
        assert_eq!(ThreadClass::of_root(""), None);
        assert_eq!(ThreadClass::of_root("Main()"), None);
    }
}
