//! `cargo xtask demo`: real programs under the profiler, and what it says of them.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rig::{Net8, Net9, Rig};
use serde_json::Value;

use crate::product::{self, Product};
use crate::workspace;

const USAGE: &str = "usage: cargo xtask demo [web|roslyn|split]... [--quick]";
const HELP: &str = "
Profiles real programs and shows what the profiler says of them; without a name web and roslyn, with
--quick a short run of split.
";

/// Time between two signs of life.
const PROGRESS: Duration = Duration::from_secs(10);

/// Rows of each table: what fits on a screen with its explanation.
const ROWS: &str = "15";

/// A program worth looking at.
struct Workload {
    name: &'static str,
    /// What runs.
    what: &'static str,
    /// What to look for in the report.
    look: &'static str,
    /// How long it runs, roughly.
    long: &'static str,
    quick: &'static str,
    command: fn(&Rig, Pace) -> Result<Command>,
    /// What the program measured of itself, as a sentence.
    truth: fn(&Value) -> Option<String>,
}

/// How long programs run that can be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pace {
    Full,
    Quick,
}

const WORKLOADS: [Workload; 3] = [
    Workload {
        name: "web",
        what: "An ASP.NET Core service on .NET 9 answers 16 clients, which ask for JSON, for a \
               computation, and now and then for an exception.",
        look: "Look for Work.Multiply, the computation, near the top of the first table (in a \
               short run below the runtime and the just-in-time compiler). The second has \
               the methods that call the handlers; its rows for Web.Compute and Work.Multiply have \
               about the same time, since the one does little but call the other.",
        long: "10 s",
        quick: "3 s",
        command: web,
        truth: |truth| Some(format!("It answered {} requests.", truth.get("requests")?)),
    },
    Workload {
        name: "roslyn",
        what: "The C# compiler Roslyn, itself a .NET program, compiles 1,500 classes on .NET 8 on \
               all processors.",
        look: "Look for [libclrjit.so] in the first table: a short run of a large program is spent \
               to a good part in the just-in-time compiler. The second has the compiler's own \
               methods, which begin with Microsoft.CodeAnalysis.",
        long: "10 to 30 s on a machine that does nothing else",
        quick: "10 to 30 s on a machine that does nothing else",
        command: |rig, _| rig.roslyn_compile_command(Net8, rig::CLASSES),
        truth: |_| None,
    },
    Workload {
        name: "split",
        what: "A small program on .NET 8 gives 90 % of its CPU time to MethodA and 10 % to \
               MethodB, and measures both itself.",
        look: "Look at the first table: the two methods should have these shares.",
        long: "5 s",
        quick: "3 s",
        command: split,
        truth: split_truth,
    },
];

/// Runs the task.
pub fn run(arguments: &[String]) -> Result<()> {
    if arguments.iter().any(|argument| matches!(argument.as_str(), "--help" | "-h" | "help")) {
        println!("{USAGE}\n{}", HELP.trim_end());
        return Ok(());
    }
    let (names, pace) = parse(arguments)?;
    let rig = Rig::set_up()?;
    say("building the agent and the command line");
    // The rig stands in cargo's target folder, wherever that is.
    let product = product::build(rig.root().parent().context("the rig stands nowhere")?)?;
    let mut failed = Vec::new();
    for workload in WORKLOADS.iter().filter(|workload| names.contains(&workload.name)) {
        if let Err(error) = show(workload, pace, &rig, &product) {
            say(&format!("{} could not be shown: {error:#}", workload.name));
            failed.push(workload.name);
        }
    }
    ensure!(failed.is_empty(), "not shown: {}", failed.join(", "));
    Ok(())
}

/// Which workloads, and how long.
fn parse(arguments: &[String]) -> Result<(Vec<&'static str>, Pace)> {
    let mut names = Vec::new();
    let mut pace = Pace::Full;
    for argument in arguments {
        match WORKLOADS.iter().find(|workload| workload.name == argument) {
            Some(workload) => names.push(workload.name),
            None if argument == "--quick" => pace = Pace::Quick,
            None => bail!("{argument} is no workload and no option; {USAGE}"),
        }
    }
    if names.is_empty() {
        names = if pace == Pace::Quick { vec!["split"] } else { vec!["web", "roslyn"] };
    }
    Ok((names, pace))
}

fn web(rig: &Rig, pace: Pace) -> Result<Command> {
    let mut command = rig.app("web")?.command(Net9)?;
    command.args(["--load", if pace == Pace::Quick { "3" } else { "10" }]);
    Ok(command)
}

fn split(rig: &Rig, pace: Pace) -> Result<Command> {
    let mut command = rig.app("split")?.command(Net8)?;
    let seconds = if pace == Pace::Quick { "3" } else { "5" };
    command.args(["--share", "90", "--seconds", seconds]);
    Ok(command)
}

fn split_truth(truth: &Value) -> Option<String> {
    let [a, b] = ["cpu_a_ns", "cpu_b_ns"].map(|name| truth.get(name).and_then(Value::as_f64));
    let (a, b) = (a?, b?);
    Some(format!(
        "It measured {:.2} s in MethodA and {:.2} s in MethodB: {:.1} % and {:.1} %.",
        a / 1e9,
        b / 1e9,
        a / (a + b) * 100.0,
        b / (a + b) * 100.0,
    ))
}

/// One workload, from its introduction to where its profiles are.
fn show(workload: &Workload, pace: Pace, rig: &Rig, product: &Product) -> Result<()> {
    let program = (workload.command)(rig, pace)?;
    let folder = fresh_folder(rig, workload.name)?;
    let log = folder.join("program.log");

    let mut out = io::stdout();
    let (what, look) = (wrapped(workload.what), wrapped(workload.look));
    writeln!(out, "\n=== {} ===\n\n{what}\n{look}\n", workload.name)?;
    out.flush()?;
    let time = if pace == Pace::Quick { workload.quick } else { workload.long };
    say(&format!("{} runs under corprof, for about {time}", workload.name));
    let out_folder = folder.as_os_str();
    let options = [OsStr::new("--top"), OsStr::new(ROWS), OsStr::new("--out"), out_folder];
    let mut command = product.profiled(&program, options);
    command.stdin(Stdio::null()).stdout(File::create(&log)?);
    // The report belongs to what was asked for, so it goes to our output and not to our errors.
    command.stderr(io::stdout().as_fd().try_clone_to_owned()?);
    let child = command.spawn().context("corprof could not be started")?;
    let status = wait(child, workload.name)?;
    ensure!(status.success(), "the program failed ({status}); its output: {}", log.display());

    writeln!(out)?;
    let said = fs::read_to_string(&log)?;
    if let Some(sentence) = truth(&said).and_then(|truth| (workload.truth)(&truth)) {
        writeln!(out, "{sentence}")?;
    }
    let (folder, corprof) = (shown(&folder), shown(&product.corprof));
    writeln!(out, "The profiles stay in {folder}. To look at them again:")?;
    writeln!(out, "    {corprof} top {folder}")?;
    writeln!(out, "    go tool pprof -http=: {folder}/*.pb.gz")?;
    Ok(())
}

/// An empty folder for this run's profiles; those of the last one go.
fn fresh_folder(rig: &Rig, name: &str) -> Result<PathBuf> {
    let target = rig.root().parent().context("the rig stands nowhere")?;
    let folder = target.join("demo").join(name);
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| format!("{}", folder.display()))?;
    }
    fs::create_dir_all(&folder).with_context(|| format!("{}", folder.display()))?;
    Ok(folder)
}

/// Waits for the program, with a sign of life now and then.
fn wait(mut child: Child, name: &str) -> Result<ExitStatus> {
    let begin = Instant::now();
    let mut next = PROGRESS;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if begin.elapsed() >= next {
            say(&format!("{name} still runs, {} s so far", next.as_secs()));
            next += PROGRESS;
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// The facts that a test program tells at its end.
fn truth(said: &str) -> Option<Value> {
    let json = said.lines().rev().find_map(|line| line.strip_prefix("TRUTH "))?;
    serde_json::from_str(json).ok()
}

/// A path as one would type it in the repository.
fn shown(path: &Path) -> String {
    path.strip_prefix(workspace::root()).unwrap_or(path).display().to_string()
}

/// A text in lines of a terminal that is not wide.
fn wrapped(text: &str) -> String {
    const COLUMNS: usize = 88;
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if line.len() + word.len() < COLUMNS => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines.join("\n")
}

/// Progress, apart from the reports.
fn say(text: &str) {
    eprintln!("demo: {text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &[&str]) -> Result<(Vec<&'static str>, Pace)> {
        parse(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn what_is_shown_by_default_and_by_wish() {
        assert_eq!(parsed(&[]).unwrap(), (vec!["web", "roslyn"], Pace::Full));
        assert_eq!(parsed(&["--quick"]).unwrap(), (vec!["split"], Pace::Quick));
        assert_eq!(parsed(&["web", "--quick"]).unwrap(), (vec!["web"], Pace::Quick));
        let error = parsed(&["wbe"]).unwrap_err().to_string();
        assert!(error.contains("wbe is no workload") && error.contains("roslyn"), "{error}");
    }

    #[test]
    fn the_split_tells_its_shares() {
        let said = "hello\nTRUTH {\"cpu_a_ns\":2700000000,\"cpu_b_ns\":300000000}\n";
        let sentence = split_truth(&truth(said).unwrap()).unwrap();
        assert!(sentence.ends_with("MethodB: 90.0 % and 10.0 %."), "{sentence}");
        assert!(truth("no truth").is_none());
    }
}
