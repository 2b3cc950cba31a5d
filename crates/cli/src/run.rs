//! `corprof run`: a program under the profiler, from its start to the report.

use std::env;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use config::{BESIDE_LIST, PROFILER_GUID, agent_variables, beside_variables};
use diagnostics::{Switch, switched_off};
use serde_json::json;

use crate::args::{NOTHING, RUN_PERIOD, RunArgs};
use crate::child::{self, Ended, signal_name};
use crate::coverage::{self, Until};
use crate::failure::{Failure, NOT_STARTED, USAGE};
use crate::files::Before;
use crate::outcome::{self, Outcome};
use crate::units::time;
use crate::{agent, folder, missing, note, spans, warn};

/// Where the settings have the output folder.
const OUTPUT_DIR: &str = "CORPROF_OUTPUT_DIR";
/// Where the settings have the targets.
pub const EXPORT: &str = "CORPROF_EXPORT";
/// Where the settings have whether files say when samples came about.
pub const TIMELINE: &str = "CORPROF_TIMELINE";
/// Where the settings have the time between two files.
const PERIOD: &str = "CORPROF_UPLOAD_PERIOD";
/// The runtime prefers these to `CORECLR_PROFILER_PATH`, so another profiler's must go.
const OTHER_PATHS: [&str; 4] = [
    "CORECLR_PROFILER_PATH_64",
    "CORECLR_PROFILER_PATH_32",
    "CORECLR_PROFILER_PATH_ARM64",
    "CORECLR_PROFILER_PATH_ARM32",
];

/// Runs the command; the exit code is the program's.
pub fn run(args: &RunArgs) -> Result<u8, Failure> {
    if args.options.profiles_nothing(|name| env::var(name).ok()) {
        return Err(Failure::new(USAGE, NOTHING));
    }
    let agent = agent::find(args.agent.as_deref()).map_err(Failure::with(NOT_STARTED))?;
    let (program, arguments) = args
        .command
        .split_first()
        .ok_or_else(|| Failure::new(NOT_STARTED, "there is no command to run"))?;
    if let Some(target) = &args.report.json {
        outcome::check_report(Path::new(target)).map_err(Failure::with(NOT_STARTED))?;
    }
    let (folder, is_fresh) = output_folder(args).map_err(Failure::with(NOT_STARTED))?;
    warn_of_environment();
    let before = Before::of(&folder);
    let mut command = Command::new(program);
    command.args(arguments);
    name_agent(&mut command, &agent).map_err(Failure::with(NOT_STARTED))?;
    command.envs(args.options.settings());
    command.env(OUTPUT_DIR, &folder);
    if let Some(targets) = with_files(args.options.get(EXPORT), env::var(EXPORT).ok().as_deref()) {
        command.env(EXPORT, targets);
    }
    let period = period(args, |name| env::var(name).ok());
    command.env(PERIOD, &period);
    if args.report.view && args.options.get(TIMELINE).is_none() {
        command.env(TIMELINE, "true");
    }
    let hint = add_spans(args, &agent, &mut command);
    let ended = match child::run(&mut command, args.time_limit) {
        Ok(ended) => ended,
        Err(failure) => {
            if is_fresh {
                folder::remove_empty(&folder);
            }
            return Err(with_hint(failure, args));
        }
    };
    // The program's exit code is worth more than our troubles with its report.
    let finished = finish(args, &folder, &before, &ended, &period, hint.as_deref());
    if is_fresh {
        folder::remove_empty(&folder);
    }
    if let Err(error) = finished {
        if error.is_broken_pipe() {
            return Ok(ended.code);
        }
        warn(format!("{:#}", error.error));
    }
    Ok(ended.code)
}

/// Names the agent to .NET: as the profiler, or beside one that is there already.
fn name_agent(command: &mut Command, agent: &Path) -> anyhow::Result<()> {
    let path = agent.to_string_lossy();
    let Some(other) = other_profiler() else {
        for name in OTHER_PATHS {
            command.env_remove(name);
        }
        command.envs(agent_variables(&path));
        return Ok(());
    };
    check_beside(agent)?;
    note(format!(
        "beside the profiler {other} of CORECLR_PROFILER, which stays; before .NET 6 there can be \
         only one, and then this one is not loaded"
    ));
    command.envs(beside_variables(&path, env::var(BESIDE_LIST).ok().as_deref()));
    Ok(())
}

/// The profiler of somebody else that .NET is to load.
fn other_profiler() -> Option<String> {
    let var = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
    let is_enabled = var("CORECLR_ENABLE_PROFILING").is_some_and(|value| value.trim() != "0");
    let other = var("CORECLR_PROFILER").filter(|_| is_enabled)?;
    (!other.eq_ignore_ascii_case(PROFILER_GUID)).then_some(other)
}

/// Whether the list of profilers can have the agent's path.
///
/// # Errors
/// That it can't, and what to do.
pub fn check_beside(agent: &Path) -> anyhow::Result<()> {
    let shown = agent.display();
    anyhow::ensure!(
        !agent.to_string_lossy().contains([';', '=']),
        "{shown}: a path with ; or = can't be in .NET's list of profilers; put the agent elsewhere"
    );
    Ok(())
}

/// Says it if what was not started looks like the report's file: `--json r.json -- program`.
fn with_hint(failure: Failure, args: &RunArgs) -> Failure {
    let Some(first) =
        args.command.first().filter(|_| args.report.json.as_deref() == Some(OsStr::new("")))
    else {
        return failure;
    };
    let is_file = first == "-"
        || Path::new(first).extension() == Some(OsStr::new("json"))
        || args.command.get(1).is_some_and(|second| second == "--");
    if !is_file {
        return failure;
    }
    let file = first.to_string_lossy();
    let hint = format!("{:#}; for a report in a file: --json={file}", failure.error);
    Failure::new(failure.code, hint)
}

/// Names the startup hook to .NET, if spans are wanted; gives what to say if it can't be had.
fn add_spans(args: &RunArgs, agent: &Path, command: &mut Command) -> Option<String> {
    if !spans::are_wanted(&args.options, |name| env::var(name).ok()) {
        return None;
    }
    match spans::find(agent) {
        Ok(hook) => {
            if let Some(value) = spans::appended(env::var_os(spans::VARIABLE).as_deref(), &hook) {
                command.env(spans::VARIABLE, value);
            }
            None
        }
        Err(hint) => Some(hint),
    }
}

/// The targets with files among them, of which the report is made; `None` if nothing names any.
pub fn with_files(given: Option<&str>, inherited: Option<&str>) -> Option<String> {
    let targets = given.or(inherited).filter(|targets| !targets.trim().is_empty())?;
    let has_files = targets.split(',').any(|target| target.trim().eq_ignore_ascii_case("file"));
    Some(if has_files { targets.to_owned() } else { format!("file,{targets}") })
}

/// The folder for the profiles, and whether it was made for this run alone.
fn output_folder(args: &RunArgs) -> anyhow::Result<(PathBuf, bool)> {
    let inherited = || env::var_os(OUTPUT_DIR).filter(|value| !value.is_empty());
    let given = args.options.get(OUTPUT_DIR).map(OsString::from).or_else(inherited);
    match given {
        Some(path) => Ok((folder::given(Path::new(&path))?, false)),
        None => Ok((folder::fresh(&program_name(&args.command), SystemTime::now())?, true)),
    }
}

/// The time between two files: shorter than the agent's own default unless somebody said one. A
/// program that is ended without a word to the agent then loses only its last seconds.
fn period(args: &RunArgs, var: impl Fn(&str) -> Option<String>) -> String {
    let inherited = || var(PERIOD).filter(|value| !value.trim().is_empty());
    let given = args.options.get(PERIOD).map(str::to_owned).or_else(inherited);
    given.unwrap_or_else(|| RUN_PERIOD.to_owned())
}

/// What the program is called: for `dotnet App.dll` it is `App`.
pub fn program_name(command: &[OsString]) -> String {
    let stem = |text: &OsStr| {
        Path::new(text).file_stem().map_or(String::new(), |s| s.to_string_lossy().into_owned())
    };
    let is_assembly = |text: &&OsString| Path::new(text).extension() == Some(OsStr::new("dll"));
    let first = command.first().map(|first| stem(first)).unwrap_or_default();
    match command.iter().skip(1).find(is_assembly) {
        Some(assembly) if first == "dotnet" => stem(assembly),
        _ => first,
    }
}

fn warn_of_environment() {
    let var = |name: &str| env::var(name).ok();
    if let Some(setting) = switched_off(Switch::Profiler, var) {
        warn(format!(
            "{setting} is set: .NET will not load the profiler; unset it, or there will be no \
             profile"
        ));
    }
}

fn finish(
    args: &RunArgs,
    folder: &Path,
    before: &Before,
    ended: &Ended,
    period: &str,
    hint: Option<&str>,
) -> Result<(), Failure> {
    let until = Until {
        pids: [u64::from(ended.pid); 2],
        unix_ns: coverage::now_ns(),
        ran: before.ran(ended.elapsed),
        is_cut_off: ended.cut_off_by().is_some(),
    };
    let files = outcome::new_files(before, folder)?;
    let Some(mut loaded) = outcome::load(&files, folder) else {
        if files.is_empty() {
            let var = |name: &str| match name {
                PERIOD => Some(period.to_owned()),
                _ => env::var(name).ok(),
            };
            let is_dotnet = args
                .command
                .first()
                .is_some_and(|first| Path::new(first).file_name() == Some(OsStr::new("dotnet")));
            let program = program_name(&args.command);
            warn(missing::explain(ended, &program, is_dotnet, folder::check(folder), var));
        }
        return Ok(());
    };
    let ran = time(u64::try_from(ended.elapsed.as_nanos()).unwrap_or(u64::MAX));
    let stopped = outcome::while_stopped(ended.stopped);
    let how = match ended.cut_off_by() {
        Some(signal) => format!(
            "the program was ended by {signal} after {ran}{stopped}, before the agent could write \
             what came after the last file: up to {period} are missing"
        ),
        None => format!("the program ended with exit code {} after {ran}{stopped}", ended.code),
    };
    Outcome {
        folder,
        how,
        is_cut_off: ended.cut_off_by().is_some(),
        elapsed: ended.elapsed,
        until,
        more: vec![
            ("exit_code", json!(ended.code)),
            ("signal", json!(ended.signal.map(signal_name))),
        ],
        hint,
    }
    .show(&mut loaded, &args.report)?;
    outcome::view(&files, &args.report)
}
