//! The flags of the commands that turn profiles into something to look at.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::{Clock, rows};
use crate::convert::Format;
use crate::filters::Filters;
use crate::value::Value;

pub const CONVERT_LONG: &str = "\
Write profiles in the format of another program, to open them there.

Several files are merged, as `corprof top` does. All frames and all values are kept, also those that
`corprof top` leaves out without --all.";

pub const CONVERT_EXAMPLES: &str = "\
Examples:
  corprof convert corprof-out/MyApp-20261129-101500 --to speedscope -o MyApp.speedscope.json
  corprof convert profiles/ --to firefox --value wall -o MyApp.json
  corprof convert profiles/ --to collapsed -o - | flamegraph.pl > MyApp.svg
  corprof convert a.pb.gz b.pb.gz --to pprof --endpoint 'GET /orders/*' -o orders.pb.gz
  corprof convert profiles/ --to otlp -o MyApp.otlp";

/// `corprof convert`.
#[derive(Args, Debug)]
pub struct ConvertArgs {
    /// Profiles (pprof, gzipped or plain, also of other tools), or folders of them
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,

    /// The format
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub to: Format,

    /// The file to write; - is standard output
    #[arg(short, long, value_name = "OUT")]
    pub out: PathBuf,

    /// The value of samples [default: cpu, or what there is; with speedscope all, each in profiles
    /// of its own]
    #[arg(long, value_enum, value_name = "VALUE")]
    pub value: Option<Value>,

    /// Which samples are converted.
    #[command(flatten)]
    pub filters: Filters,
}

pub const FLAMEGRAPH_LONG: &str = "\
Write a page that shows where time went: flame graph, table of functions, callers and callees.

The page is one file. It opens in any browser, without a network, and asks nobody for anything. In
it one can zoom, search, choose the value, and look at one thread, endpoint, state or label; what
`corprof top` leaves out is folded, until one unfolds it.";

pub const FLAMEGRAPH_EXAMPLES: &str = "\
Examples:
  corprof flamegraph corprof-out/MyApp-20261129-101500 -o MyApp.html
  corprof flamegraph profiles/ --value wall --endpoint 'GET /orders/*' -o orders.html";

/// `corprof flamegraph`.
#[derive(Args, Debug)]
pub struct FlamegraphArgs {
    /// Profiles (pprof, gzipped or plain, also of other tools), or folders of them
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,

    /// The page to write; - is standard output
    #[arg(short, long, value_name = "OUT")]
    pub out: PathBuf,

    /// The value that is shown first [default: cpu, or what there is]
    #[arg(long, value_enum, value_name = "VALUE")]
    pub value: Option<Value>,

    /// Which samples are in the page.
    #[command(flatten)]
    pub filters: Filters,
}

pub const VIEW_LONG: &str = "\
Look at profiles in the browser: a timeline of the threads, flame graph, functions with their
callers and callees, endpoints and requests, and what changed between two times or files.

It prints a link to a page on this machine, good for one use and for nobody else; the files stay
here. It runs until Ctrl-C. Of profiles that were taken with --view or --timeline the timeline shows
each thread; of others, what the threads did in each file's time.";

pub const VIEW_EXAMPLES: &str = "\
Examples:
  corprof view corprof-out/MyApp-20261129-101500
  corprof view before.pb.gz after.pb.gz
  corprof run --view -- dotnet MyApp.dll
  ssh -L 8080:localhost:8080 server corprof view --port 8080 profiles/";

/// `corprof view`.
#[derive(Args, Debug)]
pub struct ViewArgs {
    /// Profiles (pprof, gzipped or plain, also of other tools), or folders of them
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,

    /// The port of this machine, which only it can reach [default: one that is free]
    #[arg(long, value_name = "PORT", default_value_t = 0, hide_default_value = true)]
    pub port: u16,

    /// A folder of PDBs and debug files for source lines, besides where they belong; may be given
    /// more than once
    #[arg(long, value_name = "DIR")]
    pub symbols: Vec<PathBuf>,
}

pub const DIFF_LONG: &str = "\
Compare profiles: which functions became more expensive or cheaper, by more than chance may explain.

Without requests a function's share of all CPU time is compared; where both sides know how many
requests ended, its CPU time for each request. Each row has a confidence interval, and rows are
shown that differ although many were looked at (Benjamini and Hochberg).

All files of one process are one run; a folder of folders, such as corprof-out, has a run in each.
Several runs on each side are repetitions: what they differ by among themselves counts as chance,
too. Where there are no requests, only repetitions tell whether the whole run became more expensive:
then its CPU time is a row, [everything].";

pub const DIFF_EXAMPLES: &str = "\
Examples:
  corprof diff profiles/monday profiles/tuesday
  corprof diff before.pb.gz after.pb.gz --time total --limit 50
  corprof diff main/ branch/ --fail-if '>5%'
  corprof diff main/ branch/ --json | jq '.rows[] | select(.is_significant)'

Exit codes:
  0  compared; with --fail-if, nothing became so much more expensive
  1  a file could not be read, or there is nothing to compare
  2  the command line makes no sense
  3  --fail-if: something became more expensive by more than that";

/// `corprof diff`.
#[derive(Args, Debug)]
pub struct DiffArgs {
    /// Profiles from before: a file (pprof), a folder of them, or a folder of such folders
    #[arg(value_name = "BASE")]
    pub base: PathBuf,

    /// Profiles from after it
    #[arg(value_name = "NEW")]
    pub new: PathBuf,

    /// Which time of a function is compared: in its own code, or also in what it called
    #[arg(long, value_enum, default_value = "self", value_name = "TIME")]
    pub time: OwnOrTotal,

    /// CPU or wall time; the latter needs several runs on each side
    #[arg(long, value_enum, default_value = "cpu", value_name = "VALUE")]
    pub value: Clock,

    /// End with exit code 3 if a function, or everything, has surely become more expensive, by more
    /// than this part of what everything costs in BASE
    #[arg(long, value_name = "'>N%'", value_parser = more_than)]
    pub fail_if: Option<f64>,

    /// How sure intervals and decisions are, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 95.0, value_parser = confidence)]
    pub confidence: f64,

    /// Rows of the table; of more, those that changed most
    #[arg(long, value_name = "N", default_value_t = 30, allow_negative_numbers = true,
          value_parser = rows)]
    pub limit: usize,

    /// Everything as in the files: also task plumbing and what waits for work
    #[arg(long)]
    pub all: bool,

    /// JSON on standard output, with all functions; times are nanoseconds
    #[arg(long)]
    pub json: bool,

    /// Which samples are compared.
    #[command(flatten)]
    pub filters: Filters,
}

/// Which time of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OwnOrTotal {
    /// Time in the function itself
    #[value(name = "self")]
    Own,
    /// Time in the function and in what it called
    Total,
}

/// `>5%` as 0.05.
fn more_than(text: &str) -> Result<f64, String> {
    let wrong = |what: String| {
        Err(format!("{what}; write it as '>5%' (in quotes, or the shell takes the > for itself)"))
    };
    let Some(rest) = text.trim().strip_prefix('>') else {
        return wrong("it does not begin with >".to_owned());
    };
    let Some(number) = rest.strip_suffix('%').map(str::trim) else {
        return wrong(format!("after {rest:?} there is no % at the end"));
    };
    match number.parse::<f64>() {
        Ok(percent) if percent >= 0.0 && percent.is_finite() => Ok(percent / 100.0),
        Ok(_) => wrong(format!("{number} is no number of percent from 0 on")),
        Err(_) => wrong(format!("between > and % there is no number, but {number:?}")),
    }
}

fn confidence(text: &str) -> Result<f64, String> {
    match text.trim_end_matches('%').parse() {
        Ok(percent) if (50.0..100.0).contains(&percent) => Ok(percent),
        _ => Err("not a number of percent from 50 to below 100".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_with_a_limit_is_told_with_its_place() {
        assert_eq!([">5%", " > 2.5 % "].map(|text| more_than(text).unwrap()), [0.05, 0.025]);
        for (text, what) in [
            ("5%", "it does not begin with >; write it as '>5%'"),
            ("", "it does not begin with >"),
            (">5", "after \"5\" there is no % at the end"),
            (">=5%", "between > and % there is no number, but \"=5\""),
            (">%", "between > and % there is no number, but \"\""),
            (">-1%", "-1 is no number of percent from 0 on"),
            (">inf%", "inf is no number of percent from 0 on"),
        ] {
            let why = more_than(text).unwrap_err();
            assert!(why.starts_with(what) && why.contains("'>5%'"), "{text}: {why}");
        }
    }
}
