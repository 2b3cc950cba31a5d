//! `corprof doctor`: what would keep a program from being profiled, or make its profile worse.

mod cgroup;
mod check;
mod export;
mod folders;
mod machine;
mod running;
mod system;
mod variables;

use std::io::Write as _;

use check::{Check, Level, Topic};
use serde_json::json;

use crate::args::DoctorArgs;
use crate::failure::{FAILED, Failure};
use crate::table;

/// Runs the command; the exit code is 1 if something prevents profiling.
pub fn doctor(args: &DoctorArgs) -> Result<u8, Failure> {
    let mut checks = match args.pid {
        _ if args.export => export::checks()?,
        Some(pid) => running::checks(pid, args.agent.as_deref())?,
        None => machine::checks(args.agent.as_deref())?,
    };
    checks.sort_by_key(|check| Topic::ALL.iter().position(|topic| *topic == check.topic));
    let worst = checks.iter().map(|check| check.level).max().unwrap_or(Level::Fine);
    let mut out = anstream::stdout().lock();
    if args.json {
        let checks: Vec<_> = checks.iter().map(Check::json).collect();
        let value = json!({ "pid": args.pid, "worst": worst.name(), "checks": checks });
        writeln!(out, "{}", serde_json::to_string_pretty(&value)?)?;
    } else {
        let width = table::width(&std::io::stdout());
        write!(out, "{}", text(&checks, args.all || args.export, width))?;
        let summary =
            if args.export { export::summary(&checks) } else { summary(&checks, args.pid) };
        writeln!(out, "{}", table::hanging("", &summary, width))?;
    }
    out.flush()?;
    Ok(if worst == Level::Prevents { FAILED } else { 0 })
}

/// What was found, the worst first.
fn text(checks: &[Check], all: bool, width: Option<u16>) -> String {
    let mut text = String::new();
    for level in [Level::Prevents, Level::Degrades, Level::Note, Level::Fine] {
        if level == Level::Fine && !all {
            continue;
        }
        let style = style(level);
        for check in checks.iter().filter(|check| check.level == level) {
            let head = format!("{:<9} {:<17} ", level.name(), check.topic.name());
            let whole = table::hanging(&head, &table::printable(&check.found), width);
            let rest = whole.strip_prefix(level.name()).unwrap_or(&whole);
            text.push_str(&format!("{style}{}{style:#}{rest}\n", level.name()));
            if let Some(remedy) = &check.remedy {
                let head = format!("{:<28}", "");
                let remedy = format!("-> {}", table::printable(remedy));
                text.push_str(&format!("{}\n", table::hanging(&head, &remedy, width)));
            }
        }
    }
    text
}

fn style(level: Level) -> anstyle::Style {
    let color = match level {
        Level::Prevents => anstyle::AnsiColor::Red,
        Level::Degrades => anstyle::AnsiColor::Yellow,
        Level::Note => anstyle::AnsiColor::Cyan,
        Level::Fine => anstyle::AnsiColor::Green,
    };
    color.on_default().bold()
}

fn summary(checks: &[Check], pid: Option<u32>) -> String {
    let count = |level| checks.iter().filter(|check| check.level == level).count();
    let what = match pid {
        Some(pid) => format!("process {pid}"),
        None => "programs here".to_owned(),
    };
    let (prevents, degrades) = (count(Level::Prevents), count(Level::Degrades));
    let fine = format!("{} checks are in order", count(Level::Fine));
    match (prevents, degrades) {
        (0, 0) => format!("{what} can be profiled; {fine}"),
        (0, _) => format!("{what} can be profiled, with a worse profile; {fine}"),
        _ => format!("{what} can't be profiled until that is mended; {fine}"),
    }
}
