//! `corprof diff`: what two sets of profiles differ by, and what of that is more than chance.

mod compare;
mod copies;
mod runs;
mod show;
mod statistics;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use profile::Profile;
use serde_json::Value as Json;

use crate::args::{Clock, DiffArgs, OwnOrTotal};
use crate::endpoints;
use crate::failure::{FAILED, Failure, REGRESSED, USAGE};
use crate::files::{self, Side};
use crate::filters::Filters;
use crate::focus::{Focus, Scope};
use crate::functions::Functions;
use crate::value::Value;
use crate::{demangled, loading, note, nothing, table, warn};
use compare::{Change, Measure, change};
pub use compare::{Part, Sum};
use copies::{Identity, Known};
pub use runs::Runs;
use statistics::Confidence;

/// A function as both sides know it: name and module.
pub type Name = (String, String);

/// How sure what is told has to be, where nobody says it.
const CONFIDENCE: f64 = 0.95;

/// Why wall time of one run can't be compared.
const ONE_RUN: &str = "wall time is measured and not sampled, so only several files of each side, \
                       each of another run, can say what is chance; name folders with more than \
                       one";

/// Why there is time, and none of it is compared.
const ALL_IDLE: &str = "all of it is of threads that wait for work; --all has it, too";

/// A row: a function, or all of them together.
#[derive(Clone, Debug)]
struct Row {
    name: String,
    module: String,
    share: Option<Change>,
    per_run: Option<Change>,
    per_request: Option<Change>,
    /// What all costs in the base, in the measure that decides.
    whole: f64,
    /// The probability after all functions were looked at; 1 where there are too few samples.
    adjusted: f64,
}

/// All that is told.
struct Diff {
    rows: Vec<Row>,
    measure: Measure,
    confidence: f64,
    sides: [Whole; 2],
    /// All time of a run.
    per_run: Change,
    /// All time of a request.
    per_request: Option<Change>,
    /// Which time is compared.
    clock: Clock,
}

/// A side in numbers.
#[derive(Clone, Copy, Debug)]
struct Whole {
    files: usize,
    runs: usize,
    all: Sum,
    samples: u64,
    requests: f64,
}

/// Reads the sides' files, one after the other.
struct Reader<'a> {
    args: &'a DiffArgs,
    names: HashMap<Name, usize>,
}

/// Runs the command; the exit code says whether `--fail-if` holds.
pub fn diff(args: &DiffArgs) -> Result<u8, Failure> {
    let files = [files::side(&args.base)?, files::side(&args.new)?];
    if args.value == Clock::Wall && files.iter().any(|runs| runs.files.len() < 2) {
        return Err(Failure::new(USAGE, ONE_RUN));
    }
    let mut reader = Reader { args, names: HashMap::new() };
    let [base, new] = &files;
    let ((base, known_base), (new, known_new)) =
        (reader.side(&args.base, base)?, reader.side(&args.new, new)?);
    if let Some(text) = copies::told([&known_base, &known_new], [&args.base, &args.new]) {
        warn(text);
    }
    let (sides, counts) = ([base, new], [known_base.len(), known_new.len()]);
    let mut diff = Diff::of(&sides, &reader.names, args.confidence / 100.0);
    diff.clock = args.value;
    diff.compare_runs();
    diff.sides.iter_mut().zip(counts).for_each(|(side, files)| side.files = files);
    let failing = args.fail_if.map(|limit| diff.failing(limit));
    let mut out = anstream::stdout().lock();
    if args.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&show::json(&diff, failing.as_deref()))?)?;
    } else {
        let width = table::width(&std::io::stdout());
        write!(out, "{}", show::text(&diff, failing.as_deref(), args.limit, width))?;
    }
    out.flush()?;
    Ok(if failing.is_some_and(|failing| !failing.is_empty()) { REGRESSED } else { 0 })
}

/// Compares two sides whose functions are numbered so, as sure as by default; of the functions that
/// became more expensive and of those that became cheaper so many are told.
pub fn compared(sides: &[Vec<Part>; 2], names: &HashMap<Name, usize>, limit: usize) -> Json {
    let mut diff = Diff::of(sides, names, CONFIDENCE);
    let len = diff.rows.len();
    if len > 2 * limit {
        // They are sorted by what they changed.
        diff.rows.drain(limit..len - limit);
    }
    show::json(&diff, None)
}

impl Reader<'_> {
    /// All runs of a side: files of one process are one, and those of one of several folders; and
    /// which profiles they are. Copies count once.
    fn side(&mut self, path: &Path, named: &Side) -> Result<(Vec<Part>, Known), Failure> {
        let mut known = Known::default();
        let mut parts: Vec<Part> = Vec::new();
        let mut runs = Runs::default();
        let needs_names = self.args.filters.need_names();
        let names = needs_names.then(|| files::request_names(&named.files));
        for file in &named.files {
            let mut profile = files::read(file)?.profile;
            if let Some(names) = &names {
                names.rename(&mut profile);
            }
            demangled::name(&mut profile);
            let identity = Identity::of(file, &profile);
            let word = match file.parent().filter(|_| named.has_folders) {
                Some(folder) => folder.to_string_lossy().into_owned(),
                None => profile.report.as_ref().map_or(String::new(), |r| r.instance.clone()),
            };
            if let Some(run) = known.copied_from(&identity) {
                // What else lies beside a copy is of the same run.
                runs.join(&word, run);
                continue;
            }
            let run = runs.of(&word);
            known.learn(identity, run);
            let part = self.part(&profile);
            match parts.get_mut(run) {
                Some(run) => run.merge(&part),
                None => parts.push(part),
            }
        }
        if let Some(text) = known.told_of_copies(path) {
            note(text);
        }
        if self.args.value == Clock::Wall && parts.len() < 2 {
            return Err(Failure::new(USAGE, ONE_RUN));
        }
        if parts.iter().all(|part| part.all.ns <= 0.0) {
            let why = self.why_nothing(&named.files)?;
            let message =
                format!("{}: nothing there that could be compared: {why}", path.display());
            return Err(Failure::new(FAILED, message));
        }
        Ok((parts, known))
    }

    /// Why nothing of these files is compared.
    fn why_nothing(&self, files: &[PathBuf]) -> Result<String, Failure> {
        let (filters, value) = (&self.args.filters, Value::from(self.args.value));
        let (mut loaded, _) = loading::load(files, filters)?;
        let all = loaded.profile.total();
        if let Err(failure) = loading::filter(&mut loaded, filters) {
            return Ok(failure.error.to_string());
        }
        let left = nothing::left(&loaded, filters, &all, &[value]);
        Ok(left.unwrap_or_else(|| ALL_IDLE.to_owned()))
    }

    fn part(&mut self, profile: &Profile) -> Part {
        let scope = if self.args.all { Scope::All } else { Scope::Work };
        let positions = self.positions(profile);
        let functions = Functions::of(profile);
        let mut part = Part { requests: requests(profile, &self.args.filters), ..Part::default() };
        let mut focus = Focus::new(profile, scope);
        let mut seen: Vec<usize> = Vec::new();
        let kept = profile.samples.iter().filter(|sample| self.args.filters.keeps(profile, sample));
        for sample in kept {
            let view = focus.see(sample);
            seen.clear();
            let position = |frame| positions.get(functions.position(frame)).copied().unwrap_or(0);
            match self.args.time {
                OwnOrTotal::Own => seen.extend(view.own.map(position)),
                OwnOrTotal::Total => seen.extend(view.frames.iter().copied().map(position)),
            }
            seen.sort_unstable();
            seen.dedup();
            let add = |sum: &mut Sum| match self.args.value {
                Clock::Cpu if view.values.cpu_ns == 0 => {}
                Clock::Cpu => sum.add(view.values.cpu_ns, view.values.count),
                Clock::Wall => sum.add_measured(view.values.wall_ns),
            };
            add(&mut part.all);
            if self.args.value == Clock::Cpu {
                part.samples += view.values.count;
            }
            let longest = seen.last().map_or(0, |last| last + 1).max(part.functions.len());
            part.functions.resize(longest, Sum::default());
            seen.iter().filter_map(|at| part.functions.get_mut(*at).map(add)).count();
        }
        part
    }

    /// Where each of the profile's functions stands in the list of both sides.
    fn positions(&mut self, profile: &Profile) -> Vec<usize> {
        let position = |function: &crate::functions::Named<'_>| {
            let name = (function.name.to_owned(), function.module.to_owned());
            let next = self.names.len();
            *self.names.entry(name).or_insert(next)
        };
        Functions::of(profile).list.iter().map(position).collect()
    }
}

/// Requests that ended and are looked at.
fn requests(profile: &Profile, filters: &Filters) -> f64 {
    let kept = profile
        .endpoints
        .iter()
        .filter(|endpoint| filters.keeps_requests(endpoints::or_none(profile.text(endpoint.name))));
    kept.map(|endpoint| endpoint.requests as f64).sum()
}

impl Diff {
    fn of(sides: &[Vec<Part>; 2], names: &HashMap<Name, usize>, confidence: f64) -> Self {
        let [base, new] = sides;
        let sure = Confidence::new(confidence);
        let wholes = [Whole::of(base), Whole::of(new)];
        let has_requests = wholes.iter().all(|whole| whole.requests > 0.0);
        let whole = if has_requests { wholes[0].all.ns / wholes[0].requests } else { 1.0 };
        let measure = if has_requests { Measure::PerRequest } else { Measure::Share };
        let compared = |of: Option<usize>, measure| change(base, new, of, measure, &sure);
        let per_request = |of| has_requests.then(|| compared(of, Measure::PerRequest));
        let mut rows: Vec<Row> = names
            .iter()
            .map(|((name, module), of)| Row {
                name: name.clone(),
                module: module.clone(),
                share: Some(compared(Some(*of), Measure::Share)),
                per_run: None,
                per_request: per_request(Some(*of)),
                whole,
                adjusted: 1.0,
            })
            .collect();
        let all = per_request(None);
        rows.extend(all.map(|all| Row { per_request: Some(all), ..Row::everything(whole) }));
        rows.retain(|row| row.of(measure).is_some_and(|change| change.base + change.new > 0.0));
        adjust(&mut rows, measure);
        sort(&mut rows, measure);
        let per_run = compared(None, Measure::PerRun);
        let clock = Clock::Cpu;
        Self { rows, measure, confidence, sides: wholes, per_run, per_request: all, clock }
    }

    /// Adds a run's time as a row, if there are no requests: all can have become more expensive
    /// and each share be as it was. It is one question and none of hundreds, so its probability is
    /// its own.
    fn compare_runs(&mut self) {
        let Some(probability) = self.per_run.probability else { return };
        if self.measure == Measure::Share {
            let all = Row::everything(self.per_run.base);
            self.rows.push(Row { per_run: Some(self.per_run), adjusted: probability, ..all });
            sort(&mut self.rows, self.measure);
        }
    }

    /// Whether the difference is more than chance.
    fn is_significant(&self, row: &Row) -> bool {
        row.adjusted < 1.0 - self.confidence
    }

    /// What has surely become more expensive, by more than that part of what all costs in the base.
    fn failing(&self, limit: f64) -> Vec<&Row> {
        let is_over = |row: &&Row| self.is_significant(row) && row.growth(self.measure) > limit;
        self.rows.iter().filter(is_over).collect()
    }
}

/// What became more expensive first, by the part of what all costs.
fn sort(rows: &mut [Row], measure: Measure) {
    rows.sort_by(|a, b| {
        let by_growth = b.growth(measure).total_cmp(&a.growth(measure));
        by_growth.then_with(|| a.name.cmp(&b.name))
    });
}

/// Where too few samples say anything, nothing is tested.
fn adjust(rows: &mut [Row], measure: Measure) {
    let tested: Vec<(usize, f64)> = rows
        .iter()
        .enumerate()
        .filter_map(|(at, row)| Some((at, row.of(measure)?.probability?)))
        .collect();
    let probabilities: Vec<f64> = tested.iter().map(|(_, probability)| *probability).collect();
    for ((at, _), adjusted) in tested.iter().zip(statistics::adjusted(&probabilities)) {
        rows[*at].adjusted = adjusted;
    }
}

impl Row {
    /// All functions together, of which nothing is known yet.
    fn everything(whole: f64) -> Self {
        Self {
            name: "[everything]".to_owned(),
            module: String::new(),
            share: None,
            per_run: None,
            per_request: None,
            whole,
            adjusted: 1.0,
        }
    }

    /// By which part of what all costs it has become more expensive.
    fn growth(&self, measure: Measure) -> f64 {
        let difference = self.of(measure).map_or(0.0, |change| change.difference());
        if self.whole > 0.0 { difference / self.whole } else { difference }
    }

    /// The change that decides, where functions are compared so.
    fn of(&self, measure: Measure) -> Option<Change> {
        match measure {
            Measure::Share => self.share.or(self.per_run),
            Measure::PerRun => self.per_run,
            Measure::PerRequest => self.per_request,
        }
    }
}

impl Whole {
    fn of(parts: &[Part]) -> Self {
        let all = Sum::default();
        let (files, runs) = (parts.len(), parts.len());
        let mut whole = Self { files, runs, all, samples: 0, requests: 0.0 };
        for part in parts {
            whole.samples += part.samples;
            whole.all.merge(&part.all);
            whole.requests += part.requests;
        }
        whole
    }
}
