//! `corprof ps`: the .NET processes of this machine, and which of them can be profiled now.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use diagnostics::{Hidden, Process, user_name};
use nix::unistd::Uid;
use serde_json::{Value, json};

use crate::args::PsArgs;
use crate::failure::Failure;
use crate::target::{Obstacle, Target};
use crate::{agent, names, note, table};

/// All of it may take this long, whatever a process does: what has not answered by then is shown
/// so.
const TIME: Duration = Duration::from_millis(900);
/// A runtime that answers does so in a millisecond.
const ANSWER: Duration = Duration::from_millis(400);
/// Processes that are looked at at the same time: most of the time goes into waiting for those
/// that are stopped or short of processor time.
const WORKERS: usize = 16;
/// Columns that a reason has on a terminal, however narrow.
const STATE_NARROWEST: usize = 24;

/// Columns that a command has at least, if it is to be shortened to some use.
const COMMAND_NARROWEST: usize = 4;

/// A .NET process.
#[derive(Clone, Debug)]
struct Row {
    pid: u32,
    uid: Option<u32>,
    /// The user, if it is another than ours.
    user: Option<String>,
    version: Option<String>,
    command: String,
    state: State,
}

/// Whether it can be profiled now.
#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    /// It can.
    Ready,
    /// It is.
    Profiled,
    /// It can't.
    No(Obstacle),
}

/// What a worker has to say.
enum Seen {
    /// There is such a process; once before it is asked, and once after.
    Row(Row),
    /// It is none of .NET's, or it has been told of.
    Done(u32),
}

/// Runs the command.
pub fn ps(args: &PsArgs) -> Result<u8, Failure> {
    let agent = agent::find(args.agent.as_deref());
    let agent = match agent {
        Err(error) if args.agent.is_some() => return Err(error.into()),
        agent => agent.ok(),
    };
    let agent_is_known = agent.is_some();
    let own = std::process::id();
    let mut processes = Process::all().context("can't list the processes in /proc")?;
    processes.retain(|process| process.pid() != own);
    let (rows, hidden) = collect(processes, agent);
    let mut out = anstream::stdout().lock();
    if args.json {
        let rows: Vec<Value> = rows.iter().map(json_of).collect();
        let value = json!({ "processes": rows, "not_looked_at": hidden });
        writeln!(out, "{}", serde_json::to_string_pretty(&value)?)?;
    } else {
        write!(
            out,
            "{}",
            text(&rows, args.all.then_some(&hidden), table::width(&std::io::stdout()))
        )?;
        out.flush()?;
        if !agent_is_known {
            note("there is no agent here, so it is not known which it fits; see `corprof doctor`");
        }
        say_what_is_missing(&rows, &hidden, args.all);
    }
    out.flush()?;
    Ok(0)
}

fn say_what_is_missing(rows: &[Row], hidden: &[u32], all: bool) {
    if rows.is_empty() {
        note("no .NET process was found");
    }
    if !hidden.is_empty() && !all {
        let who = if Uid::effective().is_root() { "" } else { "root sees more, and " };
        note(format!(
            "processes that could not be looked at: {}; {who}--all lists their numbers",
            hidden.len()
        ));
    }
}

/// Looks at all, some at a time, and no longer than [`TIME`].
fn collect(processes: Vec<Process>, agent: Option<PathBuf>) -> (Vec<Row>, Vec<u32>) {
    let deadline = Instant::now() + TIME;
    let pids: BTreeSet<u32> = processes.iter().map(Process::pid).collect();
    let todo = Arc::new(Mutex::new(processes.into_iter()));
    let (sender, receiver) = mpsc::channel();
    for _ in 0..WORKERS {
        let (todo, sender, agent) = (Arc::clone(&todo), sender.clone(), agent.clone());
        // Not waited for: one that looks at a process that holds it up must not hold up the rest.
        thread::spawn(move || {
            let next = || todo.lock().ok().and_then(|mut todo| todo.next());
            while let Some(process) = next() {
                look(process, agent.as_deref(), &sender);
            }
        });
    }
    drop(sender);
    gather(&receiver, pids, deadline)
}

/// What the workers have said by the deadline, and of which of the processes they have not.
fn gather(
    receiver: &Receiver<Seen>,
    mut unknown: BTreeSet<u32>,
    deadline: Instant,
) -> (Vec<Row>, Vec<u32>) {
    let mut rows = BTreeMap::new();
    while let Ok(seen) = receiver.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
        match seen {
            Seen::Row(row) => {
                unknown.remove(&row.pid);
                rows.insert(row.pid, row);
            }
            Seen::Done(pid) => {
                unknown.remove(&pid);
            }
        }
    }
    (rows.into_values().collect(), unknown.into_iter().collect())
}

fn look(process: Process, agent: Option<&std::path::Path>, say: &Sender<Seen>) {
    let pid = process.pid();
    let target = match Target::look(process) {
        Ok(Some(target)) => target,
        Ok(None) | Err(Hidden::Gone) => {
            let _ = say.send(Seen::Done(pid));
            return;
        }
        // It stays among those that nothing is known of.
        Err(_) => return,
    };
    let mut row = Row {
        pid,
        uid: target.user,
        user: other_user(target.user).map(|user| user.to_string()),
        version: target.version(),
        command: target.command.join(" "),
        state: State::No(silent()),
    };
    // If nobody listens any more, the command is over.
    let _ = say.send(Seen::Row(row.clone()));
    // May ask a server for its name, hence after that.
    row.user = row.user.as_ref().and_then(|_| user_name(target.user?)).or(row.user);
    let asked = target.ask(ANSWER);
    if let Ok(Some(info)) = &asked {
        row.version = info.runtime_version.clone().or(row.version);
    }
    row.state = if target.is_profiled {
        State::Profiled
    } else {
        let unreachable = asked
            .err()
            .map(|error| Obstacle { reason: error.reason(), remedy: error.remedy().to_owned() });
        match target.obstacle(agent).or(unreachable) {
            Some(obstacle) => State::No(obstacle),
            None => State::Ready,
        }
    };
    let _ = say.send(Seen::Row(row));
}

/// Of a process that has not answered when the time is over.
fn silent() -> Obstacle {
    Obstacle {
        reason: format!("the runtime did not answer within {ANSWER:?}"),
        remedy: "look whether it is stopped or short of processor time, and try again".to_owned(),
    }
}

fn other_user(user: Option<u32>) -> Option<u32> {
    user.filter(|user| *user != Uid::effective().as_raw())
}

fn json_of(row: &Row) -> Value {
    let (reason, remedy) = match &row.state {
        State::No(obstacle) => (Some(&obstacle.reason), Some(&obstacle.remedy)),
        State::Ready | State::Profiled => (None, None),
    };
    json!({
        "pid": row.pid,
        "uid": row.uid,
        "other_user": row.user,
        "runtime": row.version,
        "command": row.command,
        "profiled": row.state == State::Profiled,
        "profilable": row.state == State::Ready,
        "reason": reason,
        "remedy": remedy,
    })
}

/// The table; in a pipe whole, on a terminal as wide as that.
fn text(rows: &[Row], hidden: Option<&Vec<u32>>, width: Option<u16>) -> String {
    let has_users = rows.iter().any(|row| row.user.is_some());
    let mut lines: Vec<[String; 5]> = rows.iter().map(cells).collect();
    for pid in hidden.into_iter().flatten() {
        let unknown = || "?".to_owned();
        let state = "unknown: it could not be looked at".to_owned();
        lines.push([pid.to_string(), String::new(), unknown(), state, unknown()]);
    }
    if lines.is_empty() {
        return String::new();
    }
    let heading = ["PID", if has_users { "USER" } else { "" }, "RUNTIME", "PROFILABLE", "COMMAND"];
    lines.insert(0, heading.map(str::to_owned));
    if let Some(width) = width {
        // Whole in JSON and in a pipe; here the command is worth some columns, too.
        let most = (usize::from(width) / 2).max(STATE_NARROWEST);
        lines.iter_mut().for_each(|line| line[3] = cut(&line[3], most));
    }
    let column = |at: usize| lines.iter().map(|line| names::width(&line[at])).max().unwrap_or(0);
    let widths = [0, 1, 2, 3].map(column);
    let mut text = String::new();
    for (number, line) in lines.iter().enumerate() {
        let mut shown = format!("{:>1$}", line[0], widths[0]);
        for at in 1..4 {
            if widths[at] > 0 {
                let blanks = widths[at].saturating_sub(names::width(&line[at]));
                shown.push_str(&format!("  {}{}", line[at], " ".repeat(blanks)));
            }
        }
        shown.push_str("  ");
        let shown = match width.map(usize::from) {
            Some(width) => {
                let left = width.saturating_sub(names::width(&shown)).max(COMMAND_NARROWEST);
                cut(&format!("{shown}{}", shortened(&line[4], left)), width)
            }
            None => format!("{shown}{}", line[4]),
        };
        let bold = anstyle::Style::new().bold();
        match number {
            0 => text.push_str(&format!("{bold}{}{bold:#}\n", shown.trim_end())),
            _ => text.push_str(&format!("{}\n", shown.trim_end())),
        }
    }
    text
}

fn cells(row: &Row) -> [String; 5] {
    let state = match &row.state {
        State::Ready => "yes".to_owned(),
        State::Profiled => "profiled".to_owned(),
        State::No(obstacle) => format!("no: {}", obstacle.reason),
    };
    let user = row.user.clone().unwrap_or_default();
    let version = row.version.as_deref().unwrap_or("?");
    // Builds of distributions have the commit behind a plus.
    let version = version.split('+').next().unwrap_or(version).to_owned();
    [row.pid.to_string(), user, version, state, row.command.clone()]
        .map(|text| table::printable(&text))
}

/// A command in so many columns: by what tells it from others. Its words lose their folders, and if
/// that is not enough, `dotnet` before a `.dll` is left out; the rest is cut at its end.
fn shortened(command: &str, columns: usize) -> String {
    if names::width(command) <= columns {
        return command.to_owned();
    }
    let is_path = |word: &&str| word.starts_with('/') || word.starts_with("./");
    let last = |word: &str| word.rsplit('/').next().unwrap_or(word).to_owned();
    let mut words: Vec<String> = command
        .split(' ')
        .map(|word| if is_path(&word) { last(word) } else { word.to_owned() })
        .collect();
    let is_host = |words: &[String]| match words {
        [host, program, ..] => host == "dotnet" && program.ends_with(".dll"),
        _ => false,
    };
    if names::width(&words.join(" ")) > columns && is_host(&words) {
        words.remove(0);
        words[0] = last(&words[0]);
    }
    cut(&words.join(" "), columns)
}

/// The text in so many columns.
fn cut(text: &str, columns: usize) -> String {
    if names::width(text) <= columns {
        return text.to_owned();
    }
    let mut kept: String = text.chars().take(columns.saturating_sub(1)).collect();
    while names::width(&kept) >= columns && kept.pop().is_some() {}
    kept + "…"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(pid: u32, user: Option<&str>, state: State) -> Row {
        Row {
            pid,
            uid: Some(0),
            user: user.map(str::to_owned),
            version: Some("8.0.4+commit".to_owned()),
            command: "dotnet Shop.dll\u{1b}[2J".to_owned(),
            state,
        }
    }

    fn plain(rows: &[Row], hidden: Option<&Vec<u32>>, width: Option<u16>) -> String {
        anstream::adapter::strip_str(&text(rows, hidden, width)).to_string()
    }

    #[test]
    fn columns_line_up_and_users_are_shown_if_there_are_others() {
        let rows = [row(7, None, State::Ready), row(4711, None, State::Profiled)];
        assert_eq!(
            plain(&rows, None, None),
            " PID  RUNTIME  PROFILABLE  COMMAND\n   \
             7  8.0.4    yes         dotnet Shop.dll\u{fffd}[2J\n\
             4711  8.0.4    profiled    dotnet Shop.dll\u{fffd}[2J\n"
        );
        let rows = [row(7, Some("bob"), State::No(silent()))];
        let text = plain(&rows, Some(&vec![12]), Some(40));
        assert!(text.lines().all(|line| line.chars().count() <= 40), "{text}");
        assert!(text.contains("USER") && text.contains(" 7  bob   8.0.4    no: the"), "{text}");
        assert!(text.lines().last().is_some_and(|line| line.starts_with(" 12 ")), "{text}");
        assert_eq!(plain(&[], None, None), "");
    }

    #[test]
    fn a_command_is_cut_where_it_tells_least() {
        let command = "/usr/share/dotnet/dotnet /srv/shop/bin/Shop.Orders.dll --port 80";
        assert_eq!(shortened(command, 80), command);
        assert_eq!(shortened(command, 33), "dotnet Shop.Orders.dll --port 80");
        assert_eq!(shortened(command, 26), "Shop.Orders.dll --port 80");
        assert_eq!(shortened(command, 16), "Shop.Orders.dll…");
        assert_eq!(shortened("dotnet bin/Release/Shop.dll a", 10), "Shop.dll a");
        assert_eq!(shortened("/opt/shop/Shop --queue 7", 15), "Shop --queue 7");
        let long = |name: &str| Row {
            command: format!("/opt/runtimes/dotnet/dotnet /srv/apps/bin/{name}.dll --verbose"),
            ..row(7, None, State::No(silent()))
        };
        let text = plain(&[long("Orders"), long("Prices")], None, Some(80));
        assert!(text.contains("  Orders.dll") && text.contains("  Prices.dll"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }

    #[test]
    fn who_says_nothing_by_the_deadline_is_told_of() {
        let (sender, receiver) = mpsc::channel();
        sender.send(Seen::Row(row(3, None, State::No(silent())))).unwrap();
        sender.send(Seen::Row(row(1, None, State::No(silent())))).unwrap();
        sender.send(Seen::Row(row(1, None, State::Ready))).unwrap();
        sender.send(Seen::Done(2)).unwrap();
        // The sender stays, as that of a worker that hangs.
        let (rows, unknown) = gather(&receiver, [1, 2, 3, 4].into(), Instant::now() + ANSWER);
        let states: Vec<_> = rows.iter().map(|row| (row.pid, row.state == State::Ready)).collect();
        assert_eq!(states, [(1, true), (3, false)]);
        assert_eq!(unknown, [4]);
        drop(sender);
    }
}
