//! What profiling a process came to: its files read, and the report of them shown.

use std::env;
use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use serde_json::{Value, json};

use crate::args::{By, ReportArgs};
use crate::coverage::{self, Until};
use crate::failure::Failure;
use crate::files::{self, Before};
use crate::focus::Scope;
use crate::lines::Lines;
use crate::loaded::{Loaded, Loader};
use crate::report::{self, View};
use crate::units::{count, time};
use crate::{note, table, unfinished, warn};

/// Shorter stops say nothing about a profile.
const STOP_MIN: Duration = Duration::from_millis(100);

/// Checks that a report can be written there, before a program runs for an hour.
pub fn check_report(target: &Path) -> anyhow::Result<()> {
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

/// The profiles in a folder that were not there before.
pub fn new_files(before: &Before, folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let why = || format!("can't list the output folder {}", folder.display());
    before.new_files(folder).with_context(why)
}

/// Reads profiles, and says which can't be read; `None` if none can.
pub fn load(files: &[PathBuf], folder: &Path) -> Option<Loaded> {
    let mut loader = Loader::default();
    for file in files {
        match files::read(file) {
            Ok(decoded) => loader.add(file, &decoded),
            Err(error) => warn(format!("{error:#}")),
        }
    }
    if loader.is_empty() {
        if !files.is_empty() {
            let (files, folder) = (count(files.len(), "file"), shown(folder));
            warn(format!("none of the {files} in {folder} could be read"));
        }
        return None;
    }
    Some(loader.finish())
}

/// How a sentence about a time goes on if the program was stopped in it, for so long.
pub fn while_stopped(stopped: Duration) -> String {
    if stopped < STOP_MIN {
        return String::new();
    }
    let ns = u64::try_from(stopped.as_nanos()).unwrap_or(u64::MAX);
    format!(", for {} of which it was stopped (SIGSTOP, Ctrl-Z or a debugger)", time(ns))
}

/// Looks at the profiles, if that is wanted, until it is interrupted.
pub fn view(files: &[PathBuf], args: &ReportArgs) -> Result<(), Failure> {
    if args.view {
        crate::view::show(files, 0, &[])?;
    }
    Ok(())
}

/// How it went, besides what the profiles say.
pub struct Outcome<'a> {
    /// Where the profiles are.
    pub folder: &'a Path,
    /// One sentence.
    pub how: String,
    /// Whether something is missing, which is said with JSON too.
    pub is_cut_off: bool,
    /// How long it took.
    pub elapsed: Duration,
    /// Up to when it was.
    pub until: Until,
    /// What JSON has besides.
    pub more: Vec<(&'static str, Value)>,
    /// What to say of spans, if anything.
    pub hint: Option<&'a str>,
}

impl Outcome<'_> {
    /// Shows the report.
    pub fn show(self, loaded: &mut Loaded, args: &ReportArgs) -> Result<(), Failure> {
        loaded.until = Some(self.until.clone());
        let missing = coverage::told(loaded);
        let view = View {
            by: By::Function,
            sort: None,
            clock: None,
            limit: report::rows(args.top, args.json.is_some()),
            scope: Scope::Work,
            is_filtered: false,
            lines: Lines::default(),
        };
        let Some(target) = &args.json else {
            let missing_ns = missing.map_or(0, |(ns, _)| ns);
            return self.write_tables(loaded, &view, missing_ns);
        };
        if self.is_cut_off {
            warn(&self.how);
        }
        for text in missing.into_iter().flat_map(|(_, texts)| texts) {
            warn(format!("the report doesn't have {text}"));
        }
        self.write_json(Path::new(target), loaded, &view)
    }

    fn write_tables(&self, loaded: &Loaded, view: &View, missing_ns: u64) -> Result<(), Failure> {
        let mut err = anstream::stderr().lock();
        let width = table::width(&std::io::stderr());
        let mut how = self.how.clone();
        if missing_ns > 0 {
            how.push_str(&format!("; {} of that are not in this report", time(missing_ns)));
        }
        writeln!(err, "\n{}\n", table::hanging("corprof: ", &how, width))?;
        writeln!(err, "{}", report::tables(loaded, view, width))?;
        write!(err, "{}", report::numbers(loaded, view, width))?;
        let files = count(loaded.files.len(), "file");
        writeln!(err, "{:<9} {files} in {}", "profiles", shown(self.folder))?;
        if let Some(hint) = self.hint {
            writeln!(err, "{}", table::hanging(&format!("{:<9} ", "spans"), hint, width))?;
        }
        Ok(())
    }

    fn write_json(&self, target: &Path, loaded: &Loaded, view: &View) -> Result<(), Failure> {
        let mut map = report::json(loaded, view);
        map.extend(self.more.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
        let elapsed_ns = u64::try_from(self.elapsed.as_nanos()).unwrap_or(u64::MAX);
        map.insert("elapsed_ns".into(), json!(elapsed_ns));
        map.insert("output_dir".into(), json!(self.folder.to_string_lossy()));
        let text = format!("{}\n", serde_json::to_string_pretty(&Value::Object(map))?);
        if target == Path::new("-") {
            let mut out = anstream::stdout().lock();
            out.write_all(text.as_bytes())?;
            out.flush()?;
            return Ok(());
        }
        let beside = self.folder.join("report.json");
        let is_beside = target.as_os_str().is_empty();
        let target = if is_beside { &beside } else { target };
        // Others may write to the folder; a file that was named may be a link or a pipe.
        let written = if is_beside {
            unfinished::write(target, text.as_bytes())
        } else {
            fs::write(target, text)
        };
        written.with_context(|| format!("can't write the report to {}", target.display()))?;
        note(format!("the report is in {}", shown(target)));
        Ok(())
    }
}

/// A path relative to the current folder where it is inside of it.
pub fn shown(path: &Path) -> String {
    let here = env::current_dir().and_then(fs::canonicalize).ok();
    let inside = here.and_then(|here| path.strip_prefix(here).ok());
    let path = inside.filter(|inside| !inside.as_os_str().is_empty()).unwrap_or(path);
    path.display().to_string()
}
