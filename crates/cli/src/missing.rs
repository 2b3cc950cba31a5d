//! Why a run left no profile: what is known first, then what it could be.

use crate::child::{Ended, signal_name};

/// Variables that keep CoreCLR from loading a profiler when they are 0.
const SWITCHES: [&str; 4] = [
    "DOTNET_EnableDiagnostics",
    "DOTNET_EnableDiagnostics_Profiler",
    "COMPlus_EnableDiagnostics",
    "COMPlus_EnableDiagnostics_Profiler",
];

/// A variable that is set so that the agent won't be loaded.
pub fn disabling_variable(var: impl Fn(&str) -> Option<String>) -> Option<&'static str> {
    SWITCHES.into_iter().find(|name| var(name).is_some_and(|value| value.trim() == "0"))
}

/// One paragraph: no profile appeared in the folder, and why that may be.
pub fn explain(
    folder: &str,
    ended: &Ended,
    program: &str,
    var: impl Fn(&str) -> Option<String>,
) -> String {
    let head = format!("no profile appeared in {folder}.");
    if let Some(name) = disabling_variable(&var) {
        return format!("{head} {name}=0 is set, and with it .NET loads no profiler: unset it.");
    }
    if var("CORPROF_ENABLED").is_some_and(|value| config_says_no(&value)) {
        return format!("{head} CORPROF_ENABLED is false, so the agent does nothing: unset it.");
    }
    let mut text = head;
    if ended.signal == Some(9) {
        text.push_str(" The program was killed, so the agent could not write the last profile.");
    } else if let Some(signal) = ended.signal {
        text.push_str(&format!(" {} ended the program.", signal_name(signal)));
    }
    text.push_str(&format!(
        " Either {program} started no .NET program, or one that can't be profiled (NativeAOT, \
         Mono, .NET Framework or .NET Core before 3.1), or the agent was not loaded. If it is a \
         .NET program, run it again with --log info: a line that begins with `corprof` on its \
         standard error means that the agent was loaded, and the next ones say what kept it from \
         writing. \
         If there is none, .NET did not load it: is the agent made for this system's C library \
         (glibc or musl), does the program clear its environment (sudo, systemd, a container), or \
         does its runtimeconfig.json disable diagnostics?"
    ));
    text
}

fn config_says_no(value: &str) -> bool {
    let vars = [("CORPROF_ENABLED".to_owned(), value.to_owned())];
    !config::Config::from_vars(vars, "").0.enabled
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn text(signal: Option<i32>, vars: &[(&str, &str)]) -> String {
        let var = |name: &str| {
            let (_, value) = vars.iter().find(|(var, _)| *var == name)?;
            Some((*value).to_owned())
        };
        let ended = Ended { code: 0, signal, elapsed: Duration::ZERO };
        explain("out", &ended, "ls", var)
    }

    #[test]
    fn what_is_known_is_said_first() {
        let known = text(None, &[("DOTNET_EnableDiagnostics_Profiler", "0")]);
        assert!(known.contains("DOTNET_EnableDiagnostics_Profiler=0 is set"), "{known}");
        let off = text(None, &[("CORPROF_ENABLED", "no")]);
        assert!(off.contains("CORPROF_ENABLED is false"), "{off}");
        assert!(text(Some(9), &[]).contains("was killed"));
        assert!(text(Some(11), &[]).contains("SIGSEGV ended the program"));
        let unknown = text(None, &[("DOTNET_EnableDiagnostics", "1")]);
        assert!(unknown.contains("Either ls started no .NET program"), "{unknown}");
    }
}
