//! The environment: what would switch profiling off, or send it astray.

use std::path::{Path, PathBuf};

use config::{Config, PROFILER_GUID, Target};
use diagnostics::{NamedProfiler, Switch, switched_off};

use super::check::{Check, Level, Topic};
use crate::target::without_the_other;
use crate::{sending, spans};

/// How the program gets, or got, its agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// `corprof run` will set the variables itself.
    Ours,
    /// The process was started with these variables.
    Theirs {
        /// Whether its runtime has room for us beside another profiler.
        allows_others: bool,
    },
}

/// What is asked of the environment.
pub struct Variables<'a> {
    /// All variables.
    pub all: &'a [(String, String)],
    /// Whether a file is there, as the program sees its path.
    pub is_file: &'a dyn Fn(&Path) -> bool,
    /// Who sets what makes .NET load the agent.
    pub start: Start,
}

impl Variables<'_> {
    fn get(&self, name: &str) -> Option<String> {
        let (_, value) = self.all.iter().find(|(other, _)| other == name)?;
        Some(value.clone())
    }

    /// The checks.
    pub fn checks(&self) -> Vec<Check> {
        let mut checks = self.switches();
        checks.extend(self.profilers());
        checks.extend(self.settings());
        checks.extend(self.targets());
        checks.extend(self.hooks());
        checks
    }

    fn switches(&self) -> Vec<Check> {
        let off = |switch| switched_off(switch, |name| self.get(name));
        if let Some(setting) = off(Switch::Profiler) {
            return vec![Check::bad(
                Topic::Switches,
                Level::Prevents,
                format!("{setting} is set: with it .NET loads no profiler"),
                "unset it where the program is started",
            )];
        }
        match off(Switch::Socket) {
            Some(setting) => vec![Check::bad(
                Topic::Switches,
                Level::Note,
                format!("{setting} is set: nothing can be attached to a running process"),
                "unset it to use `corprof attach`; from its start a program can be profiled",
            )],
            None => vec![Check::fine(Topic::Switches, "no variable switches diagnostics off")],
        }
    }

    /// What .NET is told to load from the start: in its one place, and beside that.
    fn profilers(&self) -> Option<Check> {
        let main = NamedProfiler::of(|name| self.get(name));
        let beside = NamedProfiler::beside(|name| self.get(name));
        let ours = beside.into_iter().find(|named| named.is(PROFILER_GUID));
        let Some(ours) = ours else { return self.profiler(&main?) };
        self.is_missing(&ours).or_else(|| {
            let other = main.filter(|main| !main.is(PROFILER_GUID))?;
            let whose = other.owner().unwrap_or("another profiler");
            Some(Check::fine(Topic::OtherProfiler, format!("corprof is loaded beside {whose}")))
        })
    }

    /// What was to be loaded from a file that is not there.
    fn is_missing(&self, ours: &NamedProfiler) -> Option<Check> {
        let (variable, path) = match &ours.library {
            Some((variable, path)) => (*variable, path.clone()),
            None => ("CORECLR_PROFILER_PATH", PathBuf::new()),
        };
        if self.start == Start::Ours || (self.is_file)(&path) {
            return None;
        }
        Some(Check::bad(
            Topic::Settings,
            Level::Prevents,
            format!("{variable} names {}, and there is no such file", path.display()),
            "set it to where libcorprof.so is for the program; `corprof env` prints all of the \
             variables",
        ))
    }

    /// What .NET is told to load in its one place.
    fn profiler(&self, named: &NamedProfiler) -> Option<Check> {
        if named.is(PROFILER_GUID) {
            return self.is_missing(named);
        }
        let whose = named.owner().map_or_else(
            || format!("CORECLR_PROFILER={}", named.class.trim()),
            |owner| format!("{owner} (CORECLR_PROFILER={})", named.class.trim()),
        );
        let note = |found: String, remedy: &str| {
            Check::bad(Topic::OtherProfiler, Level::Note, found, remedy)
        };
        Some(match self.start {
            Start::Ours => note(
                format!("{whose} is set: `corprof run` loads the agent beside it"),
                "nothing on .NET 6 and newer; before, only the other one is loaded: unset \
                 CORECLR_ENABLE_PROFILING",
            ),
            Start::Theirs { allows_others: true } => note(
                format!("{whose} has .NET's main place for a profiler; corprof can be beside it"),
                "nothing, unless one of them disturbs the other",
            ),
            Start::Theirs { allows_others: false } => Check::bad(
                Topic::OtherProfiler,
                Level::Prevents,
                format!("{whose} has the only place that this runtime has for a profiler"),
                without_the_other(),
            ),
        })
    }

    fn settings(&self) -> Vec<Check> {
        let ours = self.all.iter().filter(|(name, _)| name.starts_with("CORPROF_"));
        let (config, warnings) = Config::from_vars(ours.cloned(), "");
        let mut checks: Vec<Check> = warnings
            .iter()
            .map(|warning| {
                Check::bad(
                    Topic::Settings,
                    Level::Degrades,
                    warning.to_string(),
                    "mend it; docs/configuration.md has all settings",
                )
            })
            .collect();
        if !config.enabled || !(config.cpu_enabled || config.wall_enabled) {
            checks.push(Check::bad(
                Topic::Settings,
                Level::Prevents,
                "CORPROF_ENABLED, or CORPROF_CPU_ENABLED and CORPROF_WALL_ENABLED, are false: \
                 the agent does nothing",
                "unset them",
            ));
        }
        if checks.is_empty() {
            checks.push(Check::fine(Topic::Settings, "the settings of corprof are good"));
        }
        checks
    }

    /// Where profiles are to be sent; whether they are taken there, `--export` tries.
    fn targets(&self) -> Vec<Check> {
        let (config, _) = Config::from_vars(self.all.iter().cloned(), "");
        let of = |target| sending::destination(target, &config, |name| self.get(name));
        let check = |target: Target| match of(target) {
            Ok(destination) => Check::fine(
                Topic::Export,
                format!(
                    "profiles are sent to {} at {}; `corprof doctor --export` tries that",
                    target.name(),
                    destination.address
                ),
            ),
            Err(why) => Check::bad(
                Topic::Export,
                Level::Degrades,
                format!("no profile can be sent to {}", target.name()),
                why.to_string(),
            ),
        };
        config.export.remote_targets().map(check).collect()
    }

    /// .NET does not start a program one of whose hooks it can't load.
    fn hooks(&self) -> Vec<Check> {
        let value = self.get(spans::VARIABLE).unwrap_or_default();
        let missing = value.split(':').filter(|hook| !hook.trim().is_empty()).filter(|hook| {
            // Without a slash it is the name of an assembly, which .NET looks for itself.
            hook.contains('/') && !(self.is_file)(Path::new(hook))
        });
        let bad = |hook: &str| {
            Check::bad(
                Topic::StartupHooks,
                Level::Prevents,
                format!(
                    "{} names {hook}, which is not there: .NET does not start a program without it",
                    spans::VARIABLE
                ),
                "put the file there, or take it out of the variable",
            )
        };
        let mut checks: Vec<Check> = missing.map(bad).collect();
        if checks.is_empty() && !value.is_empty() {
            checks.push(Check::fine(Topic::StartupHooks, format!("all are there: {value}")));
        }
        checks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(start: Start, set: &[(&str, &str)]) -> Vec<(Topic, Level, String)> {
        let all: Vec<_> = set.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
        let is_file = |path: &Path| path.starts_with("/there");
        let checks = Variables { all: &all, is_file: &is_file, start }.checks();
        let bad = checks.into_iter().filter(|check| check.level > Level::Fine);
        bad.map(|check| (check.topic, check.level, check.found)).collect()
    }

    const THEIRS: Start = Start::Theirs { allows_others: true };
    const OLD: Start = Start::Theirs { allows_others: false };
    const ON: (&str, &str) = ("CORECLR_ENABLE_PROFILING", "1");
    const OURS: (&str, &str) = ("CORECLR_PROFILER", PROFILER_GUID);
    const OTHER: (&str, &str) = ("CORECLR_PROFILER", "{846F5F1C-F9AE-4B07-969E-05C26BC060D8}");
    const PATH: &str = "CORECLR_PROFILER_PATH";

    #[test]
    fn a_clean_environment_is_fine() {
        let good = [
            ON,
            OURS,
            (PATH, "/there/libcorprof.so"),
            ("CORPROF_CPU_INTERVAL", "5ms"),
            ("CORPROF_SERVER_URL", "http://localhost:4041"),
            ("DOTNET_STARTUP_HOOKS", "/there/a.dll:Some.Assembly"),
        ];
        for start in [Start::Ours, THEIRS] {
            assert_eq!(found(start, &[]), []);
            assert_eq!(found(start, &good), []);
        }
    }

    type Case<'a> = (Start, &'a [(&'a str, &'a str)], Topic, Level, &'a str);

    #[test]
    fn each_obstacle_is_found_alone() {
        let path = (PATH, "/gone/libcorprof.so");
        let datadog = (PATH, "/opt/Datadog.Trace.ClrProfiler.Native.so");
        let hook = ("DOTNET_STARTUP_HOOKS", "/there/a.dll:/gone/b.dll");
        let cases: [Case<'_>; 14] = [
            (
                Start::Ours,
                &[("DOTNET_EnableDiagnostics", "0")],
                Topic::Switches,
                Level::Prevents,
                "EnableDiagnostics=0",
            ),
            (
                THEIRS,
                &[("COMPlus_EnableDiagnostics_Profiler", "0")],
                Topic::Switches,
                Level::Prevents,
                "COMPlus_EnableDiagnostics_Profiler=0",
            ),
            (
                Start::Ours,
                &[("DOTNET_EnableDiagnostics_IPC", "0")],
                Topic::Switches,
                Level::Note,
                "_IPC=0",
            ),
            (THEIRS, &[ON, OTHER, datadog], Topic::OtherProfiler, Level::Note, "Datadog's tracer"),
            (OLD, &[ON, OTHER, datadog], Topic::OtherProfiler, Level::Prevents, "the only place"),
            (Start::Ours, &[ON, OTHER, datadog], Topic::OtherProfiler, Level::Note, "beside it"),
            (THEIRS, &[ON, OURS, path], Topic::Settings, Level::Prevents, "/gone/libcorprof.so"),
            (
                Start::Ours,
                &[("CORPROF_CPU_INTERVAL", "fast")],
                Topic::Settings,
                Level::Degrades,
                "CORPROF_CPU_INTERVAL",
            ),
            (THEIRS, &[("CORPROF_ENABLED", "0")], Topic::Settings, Level::Prevents, "does nothing"),
            (
                Start::Ours,
                &[("CORPROF_SERVER_URL", "nowhere:x")],
                Topic::Export,
                Level::Degrades,
                "be sent to corprof",
            ),
            (
                THEIRS,
                &[("PYROSCOPE_SERVER_ADDRESS", "http://")],
                Topic::Export,
                Level::Degrades,
                "be sent to pyroscope",
            ),
            (
                Start::Ours,
                &[("CORPROF_EXPORT", "datadog"), ("DD_PROFILING_AGENTLESS", "true")],
                Topic::Export,
                Level::Degrades,
                "be sent to datadog",
            ),
            (Start::Ours, &[hook], Topic::StartupHooks, Level::Prevents, "/gone/b.dll"),
            (THEIRS, &[hook], Topic::StartupHooks, Level::Prevents, "/gone/b.dll"),
        ];
        for (start, set, topic, level, words) in cases {
            let found = found(start, set);
            assert_eq!(found.len(), 1, "{set:?}: {found:?}");
            assert_eq!((found[0].0, found[0].1), (topic, level), "{set:?}");
            assert!(found[0].2.contains(words), "{found:?}");
        }
    }

    #[test]
    fn corprof_beside_another_profiler_is_fine_if_it_is_there() {
        let on = ("CORECLR_ENABLE_NOTIFICATION_PROFILERS", "1");
        let beside = |path: &str| format!("{path}={PROFILER_GUID}");
        for (path, prevents) in [("/there/libcorprof.so", false), ("/gone/libcorprof.so", true)] {
            let list = beside(path);
            let list = ("CORECLR_NOTIFICATION_PROFILERS", list.as_str());
            let found = found(THEIRS, &[ON, OTHER, (PATH, "/there/other.so"), on, list]);
            let levels: Vec<_> = found.iter().map(|(topic, level, _)| (*topic, *level)).collect();
            let expected: &[_] = if prevents { &[(Topic::Settings, Level::Prevents)] } else { &[] };
            assert_eq!(levels, expected);
        }
    }

    #[test]
    fn what_run_sets_itself_is_not_looked_at() {
        assert_eq!(found(Start::Ours, &[ON, OURS, (PATH, "/gone/libcorprof.so")]), []);
    }
}
