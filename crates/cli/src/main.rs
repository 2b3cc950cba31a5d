//! The command line: runs programs under the profiler, and reads what it wrote.
#![forbid(unsafe_code)]

mod agent;
mod args;
mod child;
mod env;
mod failure;
mod files;
mod focus;
mod folder;
mod loaded;
mod missing;
mod names;
mod plumbing;
mod ranking;
mod report;
mod run;
mod table;
mod top;
mod units;

use std::process::ExitCode;

use clap::Parser as _;

use args::{Cli, Command};
use failure::Failure;

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Run(args) => run::run(&args),
        Command::Top(args) => top::top(&args),
        Command::Env(args) => env::env(&args),
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

fn say_error(failure: &Failure) {
    let style = anstyle::AnsiColor::Red.on_default().bold();
    anstream::eprintln!("{style}corprof: error:{style:#} {:#}", failure.error);
}

/// Says something that is not right and doesn't stop us.
fn warn(text: impl std::fmt::Display) {
    let style = anstyle::AnsiColor::Yellow.on_default().bold();
    anstream::eprintln!("{style}corprof: warning:{style:#} {text}");
}

/// Says what was done.
fn note(text: impl std::fmt::Display) {
    let style = anstyle::Style::new().bold();
    anstream::eprintln!("{style}corprof:{style:#} {text}");
}
