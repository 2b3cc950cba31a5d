//! Profilers of others, by the names of their libraries.

use std::path::{Path, PathBuf};

use crate::Guid;
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

/// Where .NET looks for a profiler's library; the first that is set counts.
const PATHS: [&str; 2] = if cfg!(target_arch = "aarch64") {
    ["CORECLR_PROFILER_PATH_ARM64", "CORECLR_PROFILER_PATH"]
} else {
    ["CORECLR_PROFILER_PATH_64", "CORECLR_PROFILER_PATH"]
};

/// The same for profilers beside it.
const BESIDE: [&str; 2] = if cfg!(target_arch = "aarch64") {
    ["CORECLR_NOTIFICATION_PROFILERS_ARM64", "CORECLR_NOTIFICATION_PROFILERS"]
} else {
    ["CORECLR_NOTIFICATION_PROFILERS_64", "CORECLR_NOTIFICATION_PROFILERS"]
};

/// A profiler that a process is told to load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedProfiler {
    /// Its class id, as it was written.
    pub class: String,
    /// Where its library is, if that is said: the variable and the path.
    pub library: Option<(&'static str, PathBuf)>,
}

impl NamedProfiler {
    /// The profiler that variables have .NET load at the start, if they do.
    #[must_use]
    pub fn of(var: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let set = |name: &str| var(name).filter(|value| !value.trim().is_empty());
        let is_on = set("CORECLR_ENABLE_PROFILING").is_some_and(|value| value.trim() == "1");
        let class = set("CORECLR_PROFILER").filter(|_| is_on)?;
        let library = PATHS.iter().find_map(|name| Some((*name, set(name)?.into())));
        Some(Self { class, library })
    }

    /// The profilers that variables have .NET load beside that one, for notifications only:
    /// `PATH={CLASS};PATH={CLASS}`.
    #[must_use]
    pub fn beside(var: impl Fn(&str) -> Option<String>) -> Vec<Self> {
        let set = |name: &str| var(name).filter(|value| !value.trim().is_empty());
        let is_on = set("CORECLR_ENABLE_NOTIFICATION_PROFILERS").is_some_and(|on| on.trim() == "1");
        let list = BESIDE.iter().find_map(|name| Some((*name, set(name)?)));
        let Some((name, list)) = list.filter(|_| is_on) else { return Vec::new() };
        let entries = list.split(';').filter_map(|entry| entry.rsplit_once('='));
        let named = entries.map(|(path, class)| Self {
            class: class.trim().to_owned(),
            library: Some((name, path.trim().into())),
        });
        named.collect()
    }

    /// Whether it is the one with this class id.
    #[must_use]
    pub fn is(&self, class: &str) -> bool {
        match (Guid::parse(&self.class), Guid::parse(class)) {
            (Some(own), Some(other)) => own == other,
            _ => false,
        }
    }

    /// Whose it is, by its library's name.
    #[must_use]
    pub fn owner(&self) -> Option<&'static str> {
        owner(&self.library.as_ref()?.1)
    }
}

/// A profiler that is loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherProfiler {
    /// Its library, as the process sees the path.
    pub library: PathBuf,
    /// Whose it is.
    pub owner: &'static str,
}

fn owner(library: &Path) -> Option<&'static str> {
    let name = file_name(library);
    KNOWN.iter().find(|(start, _)| name.starts_with(start)).map(|(_, owner)| *owner)
}

/// The profilers of others among the files that a process has mapped.
#[must_use]
pub fn other_profilers(mapped: &[PathBuf]) -> Vec<OtherProfiler> {
    let known = |library: &PathBuf| {
        let owner = owner(library)?;
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

    #[test]
    fn variables_name_a_profiler_only_together() {
        let of = |set: &[(&str, &str)]| {
            NamedProfiler::of(|name| {
                let (_, value) = set.iter().find(|(other, _)| *other == name)?;
                Some((*value).to_owned())
            })
        };
        let class = ("CORECLR_PROFILER", "{846f5f1c-f9ae-4b07-969e-05c26bc060d8}");
        let path = ("CORECLR_PROFILER_PATH", "/opt/Datadog.Trace.ClrProfiler.Native.so");
        assert_eq!(of(&[class, path]), None);
        assert_eq!(of(&[("CORECLR_ENABLE_PROFILING", "0"), class]), None);
        let named = of(&[("CORECLR_ENABLE_PROFILING", "1"), class, path]).unwrap();
        assert_eq!(named.owner(), Some("Datadog's tracer"));
        let on = ("CORECLR_ENABLE_NOTIFICATION_PROFILERS", "1");
        let list = ("CORECLR_NOTIFICATION_PROFILERS", "/a=b.so={1};/c.so={2}");
        let beside = |set: &[(&str, &str)]| {
            NamedProfiler::beside(|name| {
                let (_, value) = set.iter().find(|(other, _)| *other == name)?;
                Some((*value).to_owned())
            })
        };
        assert_eq!(beside(&[list]), []);
        let both = beside(&[on, list]);
        let paths: Vec<_> =
            both.iter().filter_map(|named| Some(&named.library.as_ref()?.1)).collect();
        assert_eq!(paths, [Path::new("/a=b.so"), Path::new("/c.so")]);
        assert_eq!(both[1].class, "{2}");
        assert!(named.is("846F5F1C-F9AE-4B07-969E-05C26BC060D8") && !named.is(""));
        #[cfg(target_arch = "x86_64")]
        {
            let longer = ("CORECLR_PROFILER_PATH_64", "/x.so");
            let named = of(&[("CORECLR_ENABLE_PROFILING", "1"), class, path, longer]).unwrap();
            assert_eq!(named.library, Some((longer.0, longer.1.into())));
        }
    }
}
