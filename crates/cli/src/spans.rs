//! The startup hook that tells the agent which request each thread works for: where it is, and how
//! .NET gets to know it.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use model::limits::DESCRIPTORS_MIN;

use crate::args::ProfilerOptions;

/// The hook's file name.
pub const HOOK: &str = "Corprof.Spans.dll";
/// The variable that names startup hooks to .NET.
pub const VARIABLE: &str = "DOTNET_STARTUP_HOOKS";
/// What stands between two hooks.
const SEPARATOR: char = if cfg!(windows) { ';' } else { ':' };
/// Where the settings have whether there are to be spans.
const SPANS: &str = "CORPROF_SPANS";

/// Whether spans are wanted, by the flag or else by the variable.
pub fn are_wanted(options: &ProfilerOptions, var: impl Fn(&str) -> Option<String>) -> bool {
    let value = options.get(SPANS).map(str::to_owned).or_else(|| var(SPANS));
    config::Config::from_vars(value.map(|value| (SPANS.to_owned(), value)), "").0.spans
}

/// The hook of an agent, which lies beside it. `Err` says why there is none, and what to do.
///
/// .NET refuses to start a program whose hook it can't load, so only a file that is there, and
/// looks like an assembly, is ever named to it.
pub fn find(agent: &Path) -> Result<PathBuf, String> {
    let path = agent.with_file_name(HOOK);
    if !is_assembly(&path) {
        return Err(format!(
            "samples don't know their requests: there is no {HOOK} beside the agent. `cargo xtask \
             build` makes it; --spans false says that it isn't wanted"
        ));
    }
    if path.to_string_lossy().contains(SEPARATOR) {
        return Err(format!(
            "samples don't know their requests: .NET takes no startup hook with a {SEPARATOR} in \
             its path, as {} has",
            path.display()
        ));
    }
    let descriptors = descriptors_max();
    if descriptors < DESCRIPTORS_MIN {
        return Err(format!(
            "samples don't know their requests: with {descriptors} file descriptors .NET may not \
             start if it has to load the startup hook, too; a hard limit of {DESCRIPTORS_MIN} is \
             enough (ulimit -Hn)"
        ));
    }
    Ok(path)
}

/// How many descriptors a program that is started from here may have: .NET raises its limit to
/// that. The agent asks the same in crate `sys`, by unsafe code, of which there is none here.
#[cfg(unix)]
fn descriptors_max() -> u64 {
    use nix::sys::resource::{Resource, getrlimit};
    getrlimit(Resource::RLIMIT_NOFILE).map_or(u64::MAX, |(_, hard)| hard)
}

/// Windows has no limit that a program meets.
#[cfg(windows)]
fn descriptors_max() -> u64 {
    u64::MAX
}

fn is_assembly(path: &Path) -> bool {
    let mut head = [0; 2];
    File::open(path).and_then(|mut file| file.read_exact(&mut head)).is_ok() && &head == b"MZ"
}

/// The value of the variable with one more hook; `None` if it has one of that name, since .NET
/// can't load a second. Those of the program come first, as they may have to prepare things.
pub fn appended(present: Option<&OsStr>, hook: &Path) -> Option<OsString> {
    let Some(present) = present.filter(|present| !present.is_empty()) else {
        return Some(hook.into());
    };
    if env::split_paths(present).any(|path| path.file_name() == Some(OsStr::new(HOOK))) {
        return None;
    }
    let mut value = present.to_owned();
    if !value.to_string_lossy().ends_with(SEPARATOR) {
        value.push(SEPARATOR.to_string());
    }
    value.push(hook);
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hooks_of_the_program_are_kept() {
        let appended = |present: Option<&str>| {
            let value = appended(present.map(OsStr::new), Path::new("/c/Corprof.Spans.dll"))?;
            Some(value.to_string_lossy().into_owned())
        };
        let only = Some("/c/Corprof.Spans.dll".to_owned());
        assert_eq!(appended(None), only);
        assert_eq!(appended(Some("")), only);
        assert_eq!(appended(Some("/a.dll")).unwrap(), "/a.dll:/c/Corprof.Spans.dll");
        assert_eq!(appended(Some("/a.dll:B:")).unwrap(), "/a.dll:B:/c/Corprof.Spans.dll");
        assert_eq!(appended(Some("/other/Corprof.Spans.dll:/a.dll")), None);
    }

    #[test]
    fn the_flag_counts_more_than_the_variable() {
        let wanted = |flag: Option<&str>, variable: Option<&str>| {
            let option = config::find(SPANS).unwrap();
            let given = flag.map(|value| (option, value.to_owned())).into_iter().collect();
            are_wanted(&ProfilerOptions { given }, |_| variable.map(str::to_owned))
        };
        assert!(wanted(None, None) && wanted(Some("on"), Some("0")) && wanted(None, Some("")));
        assert!(!wanted(None, Some("0")) && !wanted(Some("false"), Some("1")));
    }
}
