//! `corprof run`: a program under the profiler, from its start to the report.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use anyhow::Context as _;
use config::{PROFILER_GUID, agent_variables};
use serde_json::{Value, json};

use crate::args::{By, NOTHING, RUN_PERIOD, RunArgs};
use crate::child::{self, Ended, signal_name};
use crate::failure::{Failure, NOT_STARTED, USAGE};
use crate::files::{self, Before};
use crate::focus::Scope;
use crate::lines::Lines;
use crate::loaded::{Loaded, Loader};
use crate::report::{self, View};
use crate::units::{count, time};
use crate::{agent, folder, missing, note, spans, table, warn};

/// Where the settings have the output folder.
const OUTPUT_DIR: &str = "CORPROF_OUTPUT_DIR";
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
    if let Some(target) = &args.json {
        check_report(Path::new(target)).map_err(Failure::with(NOT_STARTED))?;
    }
    let (folder, is_fresh) = output_folder(args).map_err(Failure::with(NOT_STARTED))?;
    warn_of_environment();
    let before = Before::of(&folder);
    let mut command = Command::new(program);
    command.args(arguments);
    for name in OTHER_PATHS {
        command.env_remove(name);
    }
    command.envs(agent_variables(&agent.to_string_lossy()));
    command.envs(args.options.given.iter().map(|(option, value)| (option.var, value)));
    command.env(OUTPUT_DIR, &folder);
    let period = period(args, |name| env::var(name).ok());
    command.env(PERIOD, &period);
    if let Some(file) = args.options.get("CORPROF_LOG_FILE") {
        // The program may change its folder; ours is the one the path was typed in.
        command.env("CORPROF_LOG_FILE", std::path::absolute(file)?);
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

/// Checks that a report can be written there, before a program runs for an hour.
fn check_report(target: &Path) -> anyhow::Result<()> {
    let shown = target.display();
    let why = || format!("can't write the report to {shown}; name another file with --json=FILE");
    match fs::metadata(target) {
        // Beside the profiles, where it was checked, or standard output.
        _ if target.as_os_str().is_empty() || target == Path::new("-") => Ok(()),
        Ok(about) if about.is_dir() => {
            anyhow::bail!("can't write the report to {shown}, a folder; name a file in it")
        }
        // A pipe would wait for its reader.
        Ok(about) if !about.is_file() => Ok(()),
        Ok(_) => OpenOptions::new().append(true).open(target).map(drop).with_context(why),
        Err(_) => File::create_new(target).and_then(|_| fs::remove_file(target)).with_context(why),
    }
}

/// Says it if what was not started looks like the report's file: `--json r.json -- program`.
fn with_hint(failure: Failure, args: &RunArgs) -> Failure {
    let Some(first) = args.command.first().filter(|_| args.json.as_deref() == Some(OsStr::new("")))
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
fn program_name(command: &[OsString]) -> String {
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
    if let Some(name) = missing::disabling_variable(var) {
        warn(format!(
            "{name}=0 is set: .NET will not load the profiler; unset it, or there will be no \
             profile"
        ));
    }
    if let Some(other) = var("CORECLR_PROFILER").filter(|other| !other.is_empty())
        && !other.eq_ignore_ascii_case(PROFILER_GUID)
    {
        warn(format!(
            "CORECLR_PROFILER={other} is set: another profiler, which is not loaded in this run, \
             since .NET loads only one"
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
    let files = before
        .new_files(folder)
        .with_context(|| format!("can't list the output folder {}", folder.display()))?;
    let mut loader = Loader::default();
    for file in &files {
        match files::read(file) {
            Ok(decoded) => loader.add(file, &decoded),
            Err(error) => warn(format!("{error:#}")),
        }
    }
    if loader.is_empty() {
        let program = program_name(&args.command);
        let shown = shown(folder);
        if files.is_empty() {
            let var = |name: &str| match name {
                PERIOD => Some(period.to_owned()),
                _ => env::var(name).ok(),
            };
            let is_dotnet = args
                .command
                .first()
                .is_some_and(|first| Path::new(first).file_name() == Some(OsStr::new("dotnet")));
            warn(missing::explain(ended, &program, is_dotnet, var));
        } else {
            warn(format!("none of the {} in {shown} could be read", count(files.len(), "file")));
        }
        return Ok(());
    }
    let loaded = loader.finish();
    let scope = Scope::Work;
    let view = View {
        by: By::Function,
        sort: None,
        clock: None,
        limit: args.top,
        scope,
        is_filtered: false,
        lines: Lines::default(),
    };
    let ran = time(u64::try_from(ended.elapsed.as_nanos()).unwrap_or(u64::MAX));
    let how = match ended.cut_off_by() {
        Some(signal) => format!(
            "the program was ended by {signal} after {ran}, before the agent could write what came \
             after the last file: up to {period} are missing"
        ),
        None => format!("the program ended with exit code {} after {ran}", ended.code),
    };
    match &args.json {
        Some(target) => {
            if ended.cut_off_by().is_some() {
                warn(how);
            }
            write_json(Path::new(target), folder, &loaded, &view, ended)
        }
        None => write_tables(folder, &loaded, &view, &how, hint),
    }
}

fn write_tables(
    folder: &Path,
    loaded: &Loaded,
    view: &View,
    how: &str,
    hint: Option<&str>,
) -> Result<(), Failure> {
    let mut err = anstream::stderr().lock();
    let width = table::width(&std::io::stderr());
    writeln!(err, "\n{}\n", table::hanging("corprof: ", how, width))?;
    writeln!(err, "{}", report::tables(loaded, view, width))?;
    write!(err, "{}", report::numbers(loaded, view, width))?;
    let files = count(loaded.files.len(), "file");
    writeln!(err, "{:<9} {files} in {}", "profiles", shown(folder))?;
    if let Some(hint) = hint {
        writeln!(err, "{}", table::hanging(&format!("{:<9} ", "spans"), hint, width))?;
    }
    Ok(())
}

fn write_json(
    target: &Path,
    folder: &Path,
    loaded: &Loaded,
    view: &View,
    ended: &Ended,
) -> Result<(), Failure> {
    let mut map = report::json(loaded, view);
    map.insert("exit_code".into(), json!(ended.code));
    map.insert("signal".into(), json!(ended.signal.map(signal_name)));
    let ran = u64::try_from(ended.elapsed.as_nanos()).unwrap_or(u64::MAX);
    map.insert("elapsed_ns".into(), json!(ran));
    map.insert("output_dir".into(), json!(folder.to_string_lossy()));
    let text = format!("{}\n", serde_json::to_string_pretty(&Value::Object(map))?);
    if target == Path::new("-") {
        let mut out = anstream::stdout().lock();
        out.write_all(text.as_bytes())?;
        out.flush()?;
        return Ok(());
    }
    let target = if target.as_os_str().is_empty() { &folder.join("report.json") } else { target };
    fs::write(target, text)
        .with_context(|| format!("can't write the report to {}", target.display()))?;
    note(format!("the report is in {}", shown(target)));
    Ok(())
}

/// A path relative to the current folder where it is inside of it.
fn shown(path: &Path) -> String {
    let here = env::current_dir().and_then(fs::canonicalize).ok();
    let inside = here.and_then(|here| path.strip_prefix(here).ok());
    let path = inside.filter(|inside| !inside.as_os_str().is_empty()).unwrap_or(path);
    path.display().to_string()
}
