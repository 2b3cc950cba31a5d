//! The page of `corprof view`, over the same profiles.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};
use e2e::{Checks, Run, built};
use rig::Browser;
use serde_json::Value;

use crate::{WORD, answer, pictures, rows, same, script, top};

/// `corprof view` at work; ended when dropped.
pub struct Viewer {
    child: Child,
    /// The link that it printed.
    pub link: String,
}

impl Viewer {
    /// Over these files.
    pub fn start(files: &Path) -> Result<Self> {
        let mut command = Command::new(&built()?.corprof);
        command.arg("view").arg(files).stderr(Stdio::piped()).stdin(Stdio::null());
        let mut child = command.spawn().context("corprof view")?;
        let mut said = BufReader::new(child.stderr.take().context("no output")?);
        let mut text = String::new();
        while !text.contains("token=") {
            ensure!(said.read_line(&mut text)? > 0, "no link: {text}");
        }
        let begin = text.find("http://").context("no link")?;
        let link = text[begin..].split_whitespace().next().unwrap_or_default().to_owned();
        // What it says later must not fill the pipe.
        std::thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
        Ok(Self { child, link })
    }
}

impl Drop for Viewer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A function that computes.
const WORKER: &str = "Corprof.TestApps.Work.Multiply(int)";

/// Drives it, and holds what it shows against `corprof top`.
pub fn check(
    checks: &mut Checks<'_>,
    browser: &Browser,
    run: &Run,
    (endpoint, piece, all): (&str, &str, &Value),
) -> Result<()> {
    let viewer = Viewer::start(&run.folder)?;
    let script = script("view.mjs");
    let mut command = browser.script(&script);
    command.arg(&viewer.link).arg(pictures("view")?).args([endpoint, piece, WORD, WORKER]);
    let seen = answer(command)?;
    checks.that(seen["complaints"] == serde_json::json!([]), &seen["complaints"]);
    let url = seen["url"].as_str().unwrap_or_default();
    checks.that(!url.contains("token"), format!("the token stays in the address: {url}"));
    same(checks, "view cpu", &seen["full"], all, "cpu_ns")?;
    same(checks, "view wall", &seen["wall"], all, "wall_ns")?;
    let has_beginning = |part: &str| rows(&seen[part]["rows"]).contains_key("start_thread");
    checks.that(has_beginning("full") && !has_beginning("folded"), "view folds nothing");
    requests(checks, run, &seen, endpoint, all)?;
    let found = run.view.of(|row| row.frames.iter().any(|n| n.to_lowercase().contains(WORD)));
    checks.that(number(&seen["matched"]) == found.cpu_ns as f64, "view: the search's share");
    let both = [number(&seen["sandwich"][0]), number(&seen["sandwich"][1])];
    checks.that(both[0] > 0.0 && both[0] == both[1], format!("callers and callees {both:?}"));
    checks.that(seen["beside"] == true, "the graph is not beside the callers");
    let lines = seen["lines"].as_array().map_or(0, Vec::len);
    checks.that(lines > 0, format!("no source line of {WORKER}"));
    let text = |name: &str| seen[name].as_str().unwrap_or_default().to_owned();
    checks.that(text("zoomed").trim().ends_with(piece), text("zoomed"));
    checks.that(text("reset").trim() == "all", text("reset"));
    time(checks, &seen, &text);
    Ok(())
}

fn requests(
    checks: &mut Checks<'_>,
    run: &Run,
    seen: &Value,
    endpoint: &str,
    all: &Value,
) -> Result<()> {
    let of = |list: &Value| {
        let mut list = list.as_array().into_iter().flatten();
        list.find(|row| row["name"] == endpoint).cloned()
    };
    let (shown, told) = (of(&seen["endpoints"]), of(&all["endpoints"]));
    let (shown, told) = (shown.context("no such endpoint")?, told.context("not in top")?);
    for (ours, theirs) in [("cpu", "cpu_ns"), ("requests", "requests")] {
        checks.that(shown[ours].as_f64() == told[theirs].as_f64(), format!("{shown} and {told}"));
    }
    let of_endpoint = top(&run.folder, &["--endpoint", endpoint])?;
    let expected = of_endpoint["total"]["cpu_ns"].as_f64();
    checks.that(seen["endpoint"].as_f64() == expected, &seen["endpoint"]);
    let request = number(&seen["request"]);
    checks.that(request > 0.0 && Some(request) <= expected, &seen["request"]);
    Ok(())
}

/// Parts of the time are parts of the whole, a link restores them, and two can be compared.
fn time(checks: &mut Checks<'_>, seen: &Value, text: &impl Fn(&str) -> String) {
    let [range, rest, first, again, restored] =
        ["range", "rest", "first", "again", "restored"].map(|name| number(&seen[name]));
    let whole = number(&seen["full"]["whole"]);
    let sum = range + rest + first;
    // Each moment is cut to whole microseconds.
    checks.that((sum / whole - 1.0).abs() < 0.005, format!("{range} + {rest} + {first}: {whole}"));
    checks.that(range > 0.1 * whole && range < 0.95 * whole, format!("{range} of {whole}"));
    checks.that(again == whole, "all of the time is not all");
    checks.that(restored == range, format!("the link shows {restored}, not {range}"));
    checks.that(text("wrong") == "that ends before it begins", text("wrong"));
    checks.that(seen["keepsTyped"] == true, "what was typed is gone");
    checks.that(seen["cancelled"] == true, "a drag that was ended goes on");
    checks.that(seen["lanesOfAll"] == true, "an answer that came too late is drawn");
    checks.that(text("empty").contains("choose the value wall"), text("empty"));
    checks.that(seen["emptyAgain"] == false, "it still says that there is nothing");
    checks.that(text("laneTip").contains(" s: "), text("laneTip"));
    checks.that(text("sides").contains("0.000 to"), text("sides"));
    let verdict = text("verdict");
    let is_said = ["what got slower", "more than chance"].iter().any(|w| verdict.contains(w));
    checks.that(is_said, verdict);
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or(-1.0)
}
