//! Whose code a frame is: decides its colour and its category.

use model::{FrameKind, ThreadClass};

/// Whose code it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// Managed code of the program, or of a library that does not come with .NET.
    Program,
    /// Managed code that comes with .NET: `System.*`, `Microsoft.*`.
    Framework,
    /// The runtime's native code, and code that it made.
    Runtime,
    /// Other native code.
    Native,
    /// The garbage collector's threads and pauses.
    GarbageCollector,
    /// No code: why a stack has no more frames.
    Other,
}

impl Origin {
    /// All, in the order of the declaration.
    pub const ALL: [Self; 6] = [
        Self::Program,
        Self::Framework,
        Self::Runtime,
        Self::Native,
        Self::GarbageCollector,
        Self::Other,
    ];

    /// Its name for a person.
    pub fn name(self) -> &'static str {
        match self {
            Self::Program => "program",
            Self::Framework => "framework",
            Self::Runtime => "runtime",
            Self::Native => "native",
            Self::GarbageCollector => "garbage collector",
            Self::Other => "other",
        }
    }

    /// Of a function: by its kind and name, and the file name of its module, which may be empty.
    pub fn of(kind: Option<FrameKind>, name: &str, module: &str) -> Self {
        match kind {
            Some(FrameKind::Synthetic) if is_collector(name) => Self::GarbageCollector,
            Some(FrameKind::Synthetic) if ThreadClass::of_root(name).is_some() => Self::Runtime,
            Some(FrameKind::Synthetic) => Self::Other,
            Some(FrameKind::Runtime) => Self::Runtime,
            Some(FrameKind::Native) if module.starts_with("libclrgc") => Self::GarbageCollector,
            Some(FrameKind::Native) if is_of_runtime(module) => Self::Runtime,
            Some(FrameKind::Native) => Self::Native,
            // Files of others say nothing about kinds.
            None if is_native(module) => Self::Native,
            None | Some(FrameKind::Managed) if is_of_framework(name, module) => Self::Framework,
            None | Some(FrameKind::Managed) => Self::Program,
        }
    }
}

/// A thread of the collector's, a pause for it, or what that was.
fn is_collector(name: &str) -> bool {
    let class = ThreadClass::of_root(name);
    matches!(class, Some(ThreadClass::ServerGc | ThreadClass::BackgroundGc))
        || name.starts_with("generation ")
        || ["automatic", "induced", "preparation"].contains(&name)
}

fn is_of_runtime(module: &str) -> bool {
    let libraries = ["libcoreclr", "libclr", "libhostfxr", "libhostpolicy", "libmscordac"];
    module == "dotnet" || libraries.iter().any(|library| module.starts_with(library))
}

fn is_native(module: &str) -> bool {
    module.contains(".so") || module.starts_with('[') && module != "[no module]"
}

/// By the assembly, and without one by the namespace.
fn is_of_framework(name: &str, module: &str) -> bool {
    let is_named = |text: &str| ["System.", "Microsoft."].iter().any(|own| text.starts_with(own));
    if [".dll", ".exe"].iter().any(|end| module.ends_with(end)) {
        return is_named(module) || ["mscorlib.dll", "netstandard.dll"].contains(&module);
    }
    // `lambda 0 in System.Linq.Enumerable.Where<…>(…)`: the words before say nothing about it.
    let path = name.split(['(', '<']).next().unwrap_or(name);
    is_named(path.rsplit(' ').next().unwrap_or(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_are_told_apart() {
        use FrameKind::{Managed, Native, Runtime, Synthetic};
        for (kind, name, module, origin) in [
            (Some(Managed), "Shop.Load()", "Shop.dll", Origin::Program),
            (Some(Managed), "System.Linq.Enumerable.Sum()", "System.Linq.dll", Origin::Framework),
            // An extension of the program in the framework's namespace is the program's.
            (Some(Managed), "Microsoft.Extensions.My.Add()", "Shop.dll", Origin::Program),
            (Some(Managed), "Interop.Sys.Read()", "System.Private.CoreLib.dll", Origin::Framework),
            (Some(Managed), "lambda 0 in System.A.B<C D>(int)", "[no module]", Origin::Framework),
            (Some(Managed), "[dynamic] lambda_method3(…)", "[no module]", Origin::Program),
            (Some(Native), "[libcoreclr.so]", "libcoreclr.so", Origin::Runtime),
            (Some(Native), "[libclrjit.so]", "libclrjit.so", Origin::Runtime),
            (Some(Native), "gc_heap::mark()", "libclrgc.so", Origin::GarbageCollector),
            (Some(Native), "send", "libc.so.6", Origin::Native),
            (Some(Runtime), "[stub]", "", Origin::Runtime),
            (Some(Synthetic), "Garbage Collector", "", Origin::GarbageCollector),
            (Some(Synthetic), "generation 2, blocking", "", Origin::GarbageCollector),
            (Some(Synthetic), "JIT", "", Origin::Runtime),
            (Some(Synthetic), "[no unwind rule]", "", Origin::Other),
            (None, "main.main", "", Origin::Program),
            (None, "read", "libc.so.6", Origin::Native),
        ] {
            assert_eq!(Origin::of(kind, name, module), origin, "{name}");
        }
    }
}
