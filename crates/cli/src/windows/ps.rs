//! `corprof ps`: the .NET processes that listen, and which of them have an agent.

use std::io::Write as _;
use std::time::Duration;

use diagnostics::{Socket, listening};
use serde_json::json;

use super::control;
use crate::args::PsArgs;
use crate::failure::Failure;
use crate::note;

/// A runtime that answers does so in a millisecond.
const ANSWER: Duration = Duration::from_millis(400);

/// A .NET process.
struct Row {
    pid: u32,
    version: String,
    command: String,
    state: String,
}

/// Lists them.
pub fn ps(args: &PsArgs) -> Result<u8, Failure> {
    let rows: Vec<Row> = listening().into_iter().map(row).collect();
    let mut out = anstream::stdout().lock();
    if args.json {
        let list: Vec<_> = rows.iter().map(as_json).collect();
        writeln!(out, "{}", serde_json::to_string_pretty(&json!({ "processes": list }))?)?;
        return Ok(0);
    }
    if rows.is_empty() {
        note("no .NET process listens here (DOTNET_EnableDiagnostics=0 makes them deaf)");
        return Ok(0);
    }
    writeln!(out, "{:>7}  {:<10}  {:<10}  COMMAND", "PID", "RUNTIME", "PROFILABLE")?;
    for Row { pid, version, command, state } in rows {
        writeln!(out, "{pid:>7}  {version:<10}  {state:<10}  {command}")?;
    }
    Ok(0)
}

fn as_json(row: &Row) -> serde_json::Value {
    json!({
        "pid": row.pid,
        "runtime": row.version,
        "command": row.command,
        "state": row.state,
        "profilable": row.state == "yes",
    })
}

fn row(pid: u32) -> Row {
    let asked = Socket::of(pid).map_err(|error| error.reason()).and_then(|socket| {
        socket.with_timeout(ANSWER).process_info().map_err(|error| error.to_string())
    });
    match asked {
        Ok(info) => Row {
            pid,
            version: info.runtime_version.unwrap_or_default(),
            command: info.command_line,
            state: if control::pipe_of(pid).is_ok() { "profiled" } else { "yes" }.to_owned(),
        },
        Err(why) => Row { pid, version: String::new(), command: String::new(), state: why },
    }
}
