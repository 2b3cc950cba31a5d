//! What CPU time was for: the program's own code, or the runtime's work for it.

use std::path::Path;

use model::{FrameKind, ThreadClass};
use profile::{Location, Profile, Sample};

/// What CPU time was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// Managed code, and what it called.
    Managed,
    /// The garbage collector's own threads. Where it has none, it works on the thread that
    /// allocates, and can't be told from it.
    GarbageCollector,
    /// Compiling, on its own thread or on one that called a method for the first time.
    Jit,
    /// Other threads of the runtime, and its start.
    Runtime,
    /// Native code, where no managed code has called it.
    Native,
    /// Nobody knows: threads before they were found, or over too soon.
    Unsampled,
}

impl Part {
    /// All, in the order of the declaration.
    pub const ALL: [Self; 6] = [
        Self::Managed,
        Self::GarbageCollector,
        Self::Jit,
        Self::Runtime,
        Self::Native,
        Self::Unsampled,
    ];

    /// Its name for a person.
    pub fn name(self) -> &'static str {
        match self {
            Self::Managed => "managed code",
            Self::GarbageCollector => "garbage collector",
            Self::Jit => "JIT",
            Self::Runtime => "rest of the runtime",
            Self::Native => "native code",
            Self::Unsampled => "unsampled",
        }
    }

    /// Its key in JSON.
    pub fn key(self) -> &'static str {
        match self {
            Self::Managed => "managed_ns",
            Self::GarbageCollector => "garbage_collector_ns",
            Self::Jit => "jit_ns",
            Self::Runtime => "runtime_ns",
            Self::Native => "native_ns",
            Self::Unsampled => "unsampled_ns",
        }
    }
}

/// What a frame tells of its stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hint {
    Root(ThreadClass),
    Method,
    Jit,
    Runtime,
    Unsampled,
    Nothing,
}

/// The CPU nanoseconds of each part, in the order of [`Part::ALL`].
pub fn sums(profile: &Profile) -> [u64; Part::ALL.len()] {
    let hints: Vec<Hint> = profile.frames.iter().map(|frame| hint(profile, frame)).collect();
    let mut sums = [0_u64; Part::ALL.len()];
    for sample in profile.samples.iter().filter(|sample| sample.values.cpu_ns > 0) {
        let part = part(profile, &hints, sample);
        if let Some(sum) = sums.get_mut(part as usize) {
            *sum = sum.saturating_add(sample.values.cpu_ns);
        }
    }
    sums
}

fn part(profile: &Profile, hints: &[Hint], sample: &Sample) -> Part {
    let stack = profile.stack(sample.stack);
    let hints: Vec<Hint> = stack.filter_map(|frame| hints.get(frame.get()).copied()).collect();
    let method = hints.iter().position(|hint| *hint == Hint::Method);
    match hints.last() {
        Some(Hint::Root(ThreadClass::ServerGc | ThreadClass::BackgroundGc)) => {
            return Part::GarbageCollector;
        }
        Some(Hint::Root(ThreadClass::TieredJit)) => return Part::Jit,
        Some(Hint::Root(_)) if method.is_none() => return Part::Runtime,
        _ => {}
    }
    // What a method has called, and not what has called it.
    if hints.iter().take(method.unwrap_or(hints.len())).any(|hint| *hint == Hint::Jit) {
        return Part::Jit;
    }
    let has = |wanted: Hint| hints.contains(&wanted);
    match method {
        Some(_) => Part::Managed,
        None if has(Hint::Unsampled) => Part::Unsampled,
        None if has(Hint::Runtime) => Part::Runtime,
        None => Part::Native,
    }
}

fn hint(profile: &Profile, frame: &Location) -> Hint {
    let Some(function) = profile.functions.get(frame.function.get()) else { return Hint::Nothing };
    let name = profile.text(function.name);
    let module = frame.module.and_then(|module| profile.modules.get(module.get()));
    let file = module.map_or("", |module| profile.text(module.file));
    let file = Path::new(file).file_name().and_then(|name| name.to_str()).unwrap_or_default();
    match function.kind {
        // Files of others say nothing about kinds.
        None | Some(FrameKind::Managed) => Hint::Method,
        Some(FrameKind::Synthetic) if name == "[unsampled]" => Hint::Unsampled,
        Some(FrameKind::Synthetic) => ThreadClass::of_root(name).map_or(Hint::Nothing, Hint::Root),
        Some(FrameKind::Native) if file.starts_with("libclrjit") => Hint::Jit,
        Some(FrameKind::Native) if file == "libcoreclr.so" || file.starts_with("libclrgc") => {
            Hint::Runtime
        }
        Some(FrameKind::Native | FrameKind::Runtime) => Hint::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use profile::{Added, Aggregate, Frame, ModuleInfo, Period, SampleKey, ThreadKey, Values};

    /// The part of a stack of such frames, leaf first: `name` or `name@library`, or in brackets or
    /// beginning with a capital letter what is no code.
    fn part_of(frames: &[&str]) -> Part {
        let mut aggregate = Aggregate::default();
        let ids: Vec<_> = frames
            .iter()
            .map(|frame| match frame.split_once('@') {
                None if frame.ends_with(')') => (*frame, None, FrameKind::Managed),
                None => (*frame, None, FrameKind::Synthetic),
                Some((name, library)) => (name, Some(library), FrameKind::Native),
            })
            .map(|(name, library, kind)| {
                let info = |file| ModuleInfo { file, build_id: "", start: 0, limit: 0 };
                let module = library.and_then(|file| aggregate.module(&info(file)));
                let (raw_name, file) = ("", None);
                aggregate.frame(&Frame {
                    name,
                    raw_name,
                    module,
                    address: 0,
                    kind,
                    file,
                    line: None,
                })
            })
            .collect();
        let stack = aggregate.stack(ids);
        let thread = ThreadKey { tid: 1, generation: 1 };
        let key = SampleKey { stack, thread, state: None, span: None, labels: 0 };
        let added =
            aggregate.add(&key, Values { count: 1, cpu_ns: 7, wall_ns: 0, ..Values::default() });
        assert_eq!(added, Added::Kept);
        let sums = sums(&aggregate.take(Period::default()).profile);
        assert_eq!(sums.iter().sum::<u64>(), 7, "it belongs to one part");
        let found = Part::ALL.into_iter().zip(sums).find(|(_, ns)| *ns > 0);
        found.expect("a part").0
    }

    #[test]
    fn stacks_tell_their_parts() {
        let (clr, jit) = ("f@/usr/lib/libcoreclr.so", "g@/usr/lib/libclrjit.so");
        for (frames, part) in [
            (&["Main()", clr][..], Part::Managed),
            (&[clr, "Main()", clr], Part::Managed),
            (&[jit, clr, "Main()", clr], Part::Jit),
            // A method that the JIT has run, if that is ever seen.
            (&["Main()", jit, clr], Part::Managed),
            (&[clr, "Garbage Collector"], Part::GarbageCollector),
            (&["[unsampled]", "Garbage Collector"], Part::GarbageCollector),
            (&[clr, "JIT"], Part::Jit),
            (&["Finalize()", clr, "Finalizer"], Part::Managed),
            (&[clr, "Finalizer"], Part::Runtime),
            (&["poll@/lib/libc.so.6", "EventPipe"], Part::Runtime),
            (&[clr, "main@/usr/bin/dotnet"], Part::Runtime),
            (&["burn@/lib/libburn.so", "start_thread@/lib/libc.so.6"], Part::Native),
            (&["[unsampled]"], Part::Unsampled),
        ] {
            assert_eq!(part_of(frames), part, "{frames:?}");
        }
    }

    #[test]
    fn parts_are_counted_in_their_order() {
        for (position, part) in Part::ALL.into_iter().enumerate() {
            assert_eq!(part as usize, position, "{}", part.name());
        }
    }
}
