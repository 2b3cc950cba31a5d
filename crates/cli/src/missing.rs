//! Why a run left no profile: what is known first, then what it could be.

use std::io;

use diagnostics::{Switch, switched_off};

use crate::child::Ended;

/// Where more about it stands.
const PAGE: &str = "docs/troubleshooting.md";

/// The exit codes with which `dotnet` says that it did not start a program: the low bytes of
/// 0x80008081 and those after it.
const DOTNET_FAILURES: std::ops::RangeInclusive<u8> = 129..=169;
/// The ones among them that are more likely a signal's.
const SIGNALS: [u8; 5] = [130, 134, 137, 139, 143];

/// One paragraph: no profile appeared, and why: what is known, or else what it could be.
pub fn explain(
    ended: &Ended,
    program: &str,
    is_dotnet: bool,
    folder: io::Result<()>,
    var: impl Fn(&str) -> Option<String>,
) -> String {
    if let Some(setting) = switched_off(Switch::Profiler, &var) {
        return format!(
            "no profile appeared: {setting} is set, and with it .NET loads no profiler. Unset it."
        );
    }
    if var("CORPROF_ENABLED").is_some_and(|value| config_says_no(&value)) {
        return "no profile appeared: CORPROF_ENABLED is false, so the agent does nothing. Unset \
                it."
        .to_owned();
    }
    let code = ended.code;
    if is_dotnet && DOTNET_FAILURES.contains(&code) && !SIGNALS.contains(&code) {
        let what = match program {
            "dotnet" => "was not told what to start".to_owned(),
            program => format!("could not start {program}"),
        };
        return format!(
            "no profile appeared: `dotnet` {what} (exit code {code}); what it says above tells why."
        );
    }
    if let Err(error) = folder {
        let remedy = match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                "Free some space there, or name a folder with more: --out"
            }
            io::ErrorKind::FileTooLarge => {
                "Files may not be as large as a profile is: raise that limit (`ulimit -f \
                 unlimited`, LimitFSIZE= of systemd)"
            }
            _ => "Name a folder that the program's user may write to: --out",
        };
        return format!(
            "no profile appeared: the output folder can't be written: {error}. {remedy}."
        );
    }
    let period = var("CORPROF_UPLOAD_PERIOD").unwrap_or_default();
    let period = [("CORPROF_UPLOAD_PERIOD".to_owned(), period)];
    let period = config::Config::from_vars(period, "").0.upload_period;
    let cut_off = ended.cut_off_by();
    // After two periods there would be a file if the agent had been there.
    if let Some(signal) = cut_off.as_ref().filter(|_| ended.elapsed < period.saturating_mul(2)) {
        if ended.is_crash() {
            return format!(
                "no profile appeared: the program crashed, {signal}, before the agent had written \
                 a file. Have it write more often, so that less is missing: --upload-period 1s. \
                 See {PAGE}."
            );
        }
        return format!(
            "no profile appeared: the program was ended by {signal} before the agent had written \
             a file. End it with --for 30s or SIGTERM, or write more often: --upload-period 1s. \
             See {PAGE}."
        );
    }
    let how = match cut_off {
        Some(signal) => format!("the program was ended by {signal}"),
        None => format!("the program ended with exit code {code}"),
    };
    format!(
        "no profile appeared; {how}. Either {program} started no .NET program that can be \
         profiled, or .NET did not load the agent, or the agent could not write, which it says \
         above. Run it again with --log info: lines that begin \
         with `corprof` say that the agent was loaded, and what kept it from writing. See {PAGE}."
    )
}

fn config_says_no(value: &str) -> bool {
    let vars = [("CORPROF_ENABLED".to_owned(), value.to_owned())];
    !config::Config::from_vars(vars, "").0.enabled
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn ended(code: u8, signal: Option<i32>) -> Ended {
        Ended { pid: 1, code, signal, elapsed: Duration::from_secs(11), stopped: Duration::ZERO }
    }

    fn text(signal: Option<i32>, code: u8, vars: &[(&str, &str)]) -> String {
        let var = |name: &str| {
            let (_, value) = vars.iter().find(|(var, _)| *var == name)?;
            Some((*value).to_owned())
        };
        let ended = ended(code, signal);
        explain(&ended, "Shop", true, Ok(()), var)
    }

    #[test]
    fn dotnet_alone_starts_nothing() {
        let text = explain(&ended(129, None), "dotnet", true, Ok(()), |_| None);
        assert!(text.contains("`dotnet` was not told what to start (exit code 129)"), "{text}");
    }

    #[test]
    fn what_keeps_files_from_being_written_has_its_own_remedy() {
        for (kind, remedy) in [
            (io::ErrorKind::StorageFull, "Free some space"),
            (io::ErrorKind::FileTooLarge, "ulimit -f unlimited"),
            (io::ErrorKind::PermissionDenied, "may write to"),
        ] {
            let ended = ended(0, None);
            let text = explain(&ended, "Shop", true, Err(kind.into()), |_| None);
            assert!(text.contains(remedy) && !text.contains("Either"), "{text}");
        }
    }

    #[test]
    fn what_is_known_is_said_and_no_guesses_beside_it() {
        for (signal, code, vars, words) in [
            (
                None,
                0,
                &[("DOTNET_EnableDiagnostics_Profiler", "0")][..],
                "DOTNET_EnableDiagnostics_Profiler=0 is set",
            ),
            (None, 0, &[("CORPROF_ENABLED", "no")], "CORPROF_ENABLED is false"),
            (Some(9), 137, &[], "was ended by SIGKILL before the agent had written"),
            (Some(2), 130, &[], "--upload-period 1s"),
            (None, 134, &[], "crashed, SIGABRT (exit code 134), before"),
            (Some(11), 139, &[], "missing: --upload-period 1s"),
            (None, 145, &[], "could not start Shop (exit code 145)"),
            (None, 131, &[], "could not start Shop (exit code 131)"),
        ] {
            let text = text(signal, code, vars);
            assert!(text.contains(words) && !text.contains("Either"), "{text}");
            assert!(!(text.contains("crashed") && text.contains("--for")), "{text}");
        }
    }

    #[test]
    fn what_is_not_known_is_guessed() {
        for (signal, code, vars, words) in [
            (None, 3, &[("DOTNET_EnableDiagnostics", "1")][..], "with exit code 3. Either Shop"),
            (None, 143, &[], "with exit code 143. Either"),
            // Long enough that there would be a file.
            (Some(9), 137, &[("CORPROF_UPLOAD_PERIOD", "5s")], "by SIGKILL. Either"),
        ] {
            let text = text(signal, code, vars);
            assert!(text.contains(words), "{text}");
        }
    }
}
