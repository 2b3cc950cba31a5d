//! The command line: runs programs under the profiler, and reads what it wrote.
#![forbid(unsafe_code)]

mod agent;
mod agent_log;
mod args;
#[cfg(unix)]
mod attach;
#[cfg(unix)]
mod child;
#[cfg(unix)]
mod control;
mod convert;
mod coverage;
mod demangled;
mod destination;
mod diff;
#[cfg(unix)]
mod doctor;
mod endpoints;
#[cfg(unix)]
mod entering;
mod env;
mod failure;
#[cfg(unix)]
mod fetching;
#[cfg(unix)]
mod file_user;
mod files;
mod filters;
mod flamegraph;
mod focus;
mod folder;
mod functions;
mod holder;
#[cfg(unix)]
mod interrupts;
#[cfg(unix)]
mod leaving;
#[cfg(unix)]
mod leftover;
#[cfg(unix)]
mod lent;
mod lines;
mod loaded;
mod loading;
mod managed_lines;
mod missing;
mod names;
mod native_lines;
mod nothing;
mod origin;
mod outcome;
mod parts;
#[cfg(unix)]
mod patience;
mod pdb;
mod plumbing;
#[cfg(unix)]
mod ps;
mod ranking;
mod report;
mod run;
mod sending;
mod serve;
mod spans;
#[cfg(unix)]
mod spawned;
mod stacks;
#[cfg(unix)]
mod staging;
#[cfg(unix)]
mod stops;
mod table;
#[cfg(unix)]
mod target;
mod top;
mod unfinished;
mod units;
mod value;
mod varint;
mod view;
#[cfg(windows)]
mod windows;

use std::io::Write as _;
use std::process::ExitCode;

use args::Command;
use failure::Failure;
#[cfg(windows)]
use windows::{attach, child, control, doctor, ps};

fn main() -> ExitCode {
    #[cfg(unix)]
    interrupts::block();
    let command = args::parse().command;
    // `corprof attach` reads them: it has an agent leave before it ends.
    #[cfg(unix)]
    if !matches!(command, Command::Attach(_)) {
        interrupts::unblock();
    }
    // A program that is run would inherit it, and has to be started first.
    #[cfg(unix)]
    if !matches!(command, Command::Run(_)) {
        survive_file_limit();
    }
    let result = match command {
        Command::Run(args) => run::run(&args),
        Command::Attach(args) => attach::attach(&args),
        Command::Ctl(args) => control::ctl(&args),
        Command::Top(args) => top::top(&args),
        Command::Convert(args) => convert::convert(&args),
        Command::Flamegraph(args) => flamegraph::flamegraph(&args),
        Command::View(args) => view::view(&args),
        Command::Diff(args) => diff::diff(&args),
        Command::Serve(args) => serve::serve(&args),
        Command::Env(args) => env::env(&args),
        Command::Ps(args) => ps::ps(&args),
        Command::Doctor(args) => doctor::doctor(&args),
        Command::Upload(args) => sending::upload(&args),
        Command::Flush(args) => sending::flush(&args),
    };
    match result {
        Ok(code) => ExitCode::from(code),
        // Whoever read our output has seen enough: `corprof top … | head` is no failure.
        Err(failure) if failure.is_broken_pipe() => ExitCode::SUCCESS,
        Err(failure) => {
            say_error(&failure);
            ExitCode::from(failure.code)
        }
    }
}

/// Has a write over the limit of a file's size (`ulimit -f`) fail, with a reason, instead of ending
/// us.
#[cfg(unix)]
fn survive_file_limit() {
    let mut signals = nix::sys::signal::SigSet::empty();
    signals.add(nix::sys::signal::Signal::SIGXFSZ);
    // It can only fail for a mask that makes no sense.
    let _blocked = signals.thread_block();
}

fn say_error(failure: &Failure) {
    let style = anstyle::AnsiColor::Red.on_default().bold();
    say(style, "corprof: error:", &format!("{:#}", failure.error));
}

/// Says which file is passed over, and why.
fn error_of_file(error: &anyhow::Error) {
    let style = anstyle::AnsiColor::Red.on_default().bold();
    say(style, "corprof: error:", &format!("{error:#}"));
}

/// Says something that is not right and doesn't stop us.
fn warn(text: impl std::fmt::Display) {
    let style = anstyle::AnsiColor::Yellow.on_default().bold();
    say(style, "corprof: warning:", &text.to_string());
}

/// Says what was done.
fn note(text: impl std::fmt::Display) {
    say(anstyle::Style::new().bold(), "corprof:", &text.to_string());
}

fn say(style: anstyle::Style, head: &str, text: &str) {
    let whole = table::hanging(&format!("{head} "), text, table::width(&std::io::stderr()));
    let text = whole.strip_prefix(head).unwrap_or(&whole);
    // Where nothing can be written, as to a full disk, nobody can be told of that either.
    let _unheard = writeln!(anstream::stderr(), "{style}{head}{style:#}{text}");
}
