//! Profilers of others, by the names of their libraries.

use std::path::PathBuf;

use crate::runtime::file_name;

/// Beginnings of the names of libraries, and whose they are.
const KNOWN: [(&str, &str); 16] = [
    ("Datadog.Trace.ClrProfiler.Native", "Datadog's tracer"),
    ("Datadog.Tracer.Native", "Datadog's tracer"),
    ("Datadog.Profiler.Native", "Datadog's profiler"),
    ("OpenTelemetry.AutoInstrumentation.Native", "OpenTelemetry's automatic instrumentation"),
    ("libNewRelicProfiler", "New Relic's agent"),
    ("NewRelic.Profiler", "New Relic's agent"),
    ("libelastic_apm_profiler", "Elastic's agent"),
    ("liboneagentproc", "Dynatrace's agent"),
    ("liboneagentdotnet", "Dynatrace's agent"),
    ("libappdprofiler", "AppDynamics' agent"),
    ("libContrastProfiler", "Contrast's agent"),
    ("libMicrosoft.InstrumentationEngine", "Microsoft's instrumentation engine"),
    ("libInstrumentationEngine", "Microsoft's instrumentation engine"),
    ("Pyroscope.Profiler.Native", "Pyroscope's profiler"),
    ("libMonitorProfiler", "dotnet-monitor's profiler"),
    ("libJetBrains.Profiler.Core", "JetBrains' profiler"),
];
/// Our own library.
const OURS: &str = "libcorprof.so";

/// A profiler that is loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherProfiler {
    /// Its library, as the process sees the path.
    pub library: PathBuf,
    /// Whose it is.
    pub owner: &'static str,
}

/// The profilers of others among the files that a process has mapped.
#[must_use]
pub fn other_profilers(mapped: &[PathBuf]) -> Vec<OtherProfiler> {
    let known = |library: &PathBuf| {
        let name = file_name(library);
        let (_, owner) = KNOWN.iter().find(|(start, _)| name.starts_with(start))?;
        Some(OtherProfiler { library: library.clone(), owner })
    };
    mapped.iter().filter_map(known).collect()
}

/// Our own agent among the files that a process has mapped.
#[must_use]
pub fn our_agent(mapped: &[PathBuf]) -> Option<&PathBuf> {
    mapped.iter().find(|library| file_name(library) == OURS)
}

/// A profiler that is loaded, ours or another's.
pub fn mapped_one(mapped: &[PathBuf]) -> Option<PathBuf> {
    let other = || other_profilers(mapped).into_iter().next().map(|other| other.library);
    our_agent(mapped).cloned().or_else(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profilers_are_known_by_their_libraries() {
        let mapped = ["/lib/libc.so.6", "/opt/datadog/linux-x64/Datadog.Tracer.Native.so"];
        let mapped = mapped.map(PathBuf::from);
        assert_eq!(other_profilers(&mapped)[0].owner, "Datadog's tracer");
        assert_eq!(mapped_one(&mapped), Some(mapped[1].clone()));
        let ours = [PathBuf::from("/opt/corprof/libcorprof.so (deleted)"), mapped[1].clone()];
        assert_eq!(our_agent(&ours), Some(&ours[0]));
        assert_eq!(mapped_one(&ours), Some(ours[0].clone()));
        assert!(our_agent(&mapped).is_none());
    }
}
